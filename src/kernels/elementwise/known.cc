#include "kernels/elementwise/known.h"

#include <algorithm>

namespace tenon::kernels::elementwise {
namespace {

constexpr int64_t kMaxKnown = 64;

using Elements = std::vector<Dim>;

// Elements of an integer or bool value, unless it is too large to follow.
std::optional<Elements> Known(const ValueInfo& v) {
  if (!IsInteger(v.dtype) && v.dtype != DType::kBool) return std::nullopt;
  if (v.is_sequence || !v.shape.has_rank() || v.shape.rank() > 1) return std::nullopt;
  const Dim n = v.shape.NumElements();
  if (!n.is_const() || n.value() > kMaxKnown) return std::nullopt;
  auto elements = KnownElements(v);
  if (elements && static_cast<int64_t>(elements->size()) != n.value()) return std::nullopt;
  return elements;
}

// Number of output elements, or -1 when the output is not to be followed.
int64_t OutputCount(const ShapeArgs& args) {
  const ValueInfo& out = args.out[0];
  if (!IsInteger(out.dtype) && out.dtype != DType::kBool) return -1;
  if (!out.shape.has_rank() || out.shape.rank() > 1) return -1;
  const Dim n = out.shape.NumElements();
  return n.is_const() && n.value() <= kMaxKnown ? n.value() : -1;
}

const Dim& At(const Elements& e, int64_t i) {
  return e[e.size() == 1 ? 0 : static_cast<size_t>(i)];
}

// Surely not negative: a number, or an expression without a minus.
bool NotNegative(const Dim& d) {
  if (d.is_const()) return d.value() >= 0;
  return !d.is_unknown() && d.ToString().find('-') == std::string::npos;
}

bool Negative(const Dim& d) {
  return d.is_const() && d.value() < 0;
}

// 1, 0 or unknown.
Dim Truth(std::optional<bool> b) {
  return b ? Dim(*b ? 1 : 0) : Dim::Unknown();
}

std::optional<bool> Equals(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if (a.is_const() && b.is_const()) return false;
  if ((Negative(a) && NotNegative(b)) || (Negative(b) && NotNegative(a))) return false;
  return std::nullopt;
}

Dim Divide(const Dim& a, const Dim& b) {
  if (b.Is(0)) return Dim(0);
  if (b.Is(1)) return a;
  if (a.is_const() && b.is_const()) return b.value() == -1 ? Dim(0) - a : Dim(a.value() / b.value());
  return Negative(b) ? Dim::Unknown() : Dim::FloorDiv(a, b);
}

Dim Modulo(const Dim& a, const Dim& b, bool floor) {
  if (b.Is(0) || b.Is(1) || b.Is(-1)) return Dim(0);
  if (a.is_const() && b.is_const()) {
    const int64_t r = a.value() % b.value();
    return floor && r != 0 && (r < 0) != (b.value() < 0) ? Dim(r + b.value()) : Dim(r);
  }
  if (!NotNegative(a) || !NotNegative(b)) return Dim::Unknown();
  return a - b * Dim::FloorDiv(a, b);
}

std::optional<bool> Compare(BinaryOp op, const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) {
    const int64_t x = a.value();
    const int64_t y = b.value();
    switch (op) {
      case BinaryOp::kLess: return x < y;
      case BinaryOp::kLessOrEqual: return x <= y;
      case BinaryOp::kGreater: return x > y;
      default: return x >= y;
    }
  }
  const bool less = op == BinaryOp::kLess || op == BinaryOp::kLessOrEqual;
  if (a == b) return op == BinaryOp::kLessOrEqual || op == BinaryOp::kGreaterOrEqual;
  if (Negative(a) && NotNegative(b)) return less;
  if (Negative(b) && NotNegative(a)) return !less;
  return std::nullopt;
}

// Wrap-around of narrower types is not followed: their elements must stay numbers in range.
Dim Apply(BinaryOp op, const Dim& a, const Dim& b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kDiv: return Divide(a, b);
    case BinaryOp::kMod: return Modulo(a, b, true);
    case BinaryOp::kFmod: return Modulo(a, b, false);
    case BinaryOp::kMax: return NotNegative(a) && b.is_const() && b.value() <= 0 ? a : Dim::Max(a, b);
    case BinaryOp::kMin: return Dim::Min(a, b);
    case BinaryOp::kEqual: return Truth(Equals(a, b));
    case BinaryOp::kLess:
    case BinaryOp::kLessOrEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterOrEqual: return Truth(Compare(op, a, b));
    case BinaryOp::kAnd: return a.Is(0) || b.Is(0) ? Dim(0) : a.Is(1) && b.Is(1) ? Dim(1) : Dim::Unknown();
    case BinaryOp::kOr: return a.Is(1) || b.Is(1) ? Dim(1) : a.Is(0) && b.Is(0) ? Dim(0) : Dim::Unknown();
    default: return Dim::Unknown();
  }
}

bool Follows(DType t) {
  return t == DType::kI64 || t == DType::kI32 || t == DType::kBool;
}

Elements Combine(BinaryOp op, const Elements& a, const Elements& b, int64_t n) {
  Elements out;
  out.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out.push_back(Apply(op, At(a, i), At(b, i)));
  return out;
}

}  // namespace

void PropagateUnary(const UnaryFn& fn, const ShapeArgs& args) {
  const int64_t n = OutputCount(args);
  if (n < 0 || !Follows(args.in[0].dtype)) return;
  const auto known = Known(args.in[0]);
  if (!known) return;
  Elements out;
  for (const Dim& d : *known) {
    switch (fn.op) {
      case UnaryOp::kNeg: out.push_back(Dim(0) - d); break;
      case UnaryOp::kAbs: out.push_back(NotNegative(d) ? d : d.is_const() ? Dim(0) - d : Dim::Unknown()); break;
      case UnaryOp::kRelu: out.push_back(NotNegative(d) ? d : Dim::Max(d, Dim(0))); break;
      case UnaryOp::kNot: out.push_back(d.is_const() ? Dim(d.Is(0) ? 1 : 0) : Dim::Unknown()); break;
      default: return;
    }
  }
  args.out[0].elements = std::move(out);
}

void PropagateBinary(BinaryOp op, const ShapeArgs& args) {
  const int64_t n = OutputCount(args);
  if (n < 0 || !Follows(args.in[0].dtype) || !Follows(args.in[1].dtype)) return;
  const auto a = Known(args.in[0]);
  if (!a) return;
  const auto b = Known(args.in[1]);
  if (b) args.out[0].elements = Combine(op, *a, *b, n);
}

void PropagateVariadic(BinaryOp op, const ShapeArgs& args) {
  const int64_t n = OutputCount(args);
  if (n < 0 || !Follows(args.in[0].dtype)) return;
  std::optional<Elements> all;
  for (const ValueInfo& v : args.in) {
    auto e = Known(v);
    if (!e) return;
    all = all ? Combine(op, *all, *e, n) : *std::move(e);
  }
  if (static_cast<int64_t>(all->size()) == n) args.out[0].elements = std::move(all);
}

void PropagateWhere(const ShapeArgs& args) {
  const int64_t n = OutputCount(args);
  if (n < 0) return;
  const auto condition = Known(args.in[0]);
  if (!condition) return;
  const auto x = Known(args.in[1]);
  const auto y = Known(args.in[2]);
  Elements out;
  for (int64_t i = 0; i < n; ++i) {
    const Dim& c = At(*condition, i);
    if (c.is_const()) {
      const auto& from = c.Is(0) ? y : x;
      out.push_back(from ? At(*from, i) : Dim::Unknown());
    } else {
      out.push_back(x && y && At(*x, i) == At(*y, i) ? At(*x, i) : Dim::Unknown());
    }
  }
  args.out[0].elements = std::move(out);
}

void PropagateCopy(const ShapeArgs& args) {
  const int64_t n = OutputCount(args);
  if (n < 0) return;
  auto known = Known(args.in[0]);
  if (!known || static_cast<int64_t>(known->size()) != n) return;
  // What a 32-bit type cannot hold wraps around; symbols stand for extents, which fit.
  if (DTypeBits(args.out[0].dtype) < 64) {
    for (const Dim& d : *known) {
      if (d.is_const() && (d.value() > INT32_MAX || d.value() < INT32_MIN)) return;
    }
  }
  args.out[0].elements = std::move(known);
}

}  // namespace tenon::kernels::elementwise
