#include "kernels/strings/strings.h"

#include <algorithm>
#include <limits>

#include "kernels/strings/internal.h"

namespace tenon::kernels::strings {
namespace {

using movement::SetTensor;

Result<Shape> Broadcast(const Shape& a, const Shape& b) {
  Shape out = Shape::OfRank(std::max(a.rank(), b.rank()));
  for (int i = 1; i <= out.rank(); ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1) return BadInput("StringConcat: {} does not broadcast with {}", a.ToString(), b.ToString());
    out[out.rank() - i] = x == 1 ? y : x;
  }
  return CheckedShape(out.dims());
}

// Offset into a tensor of shape `s` of position `i` of a tensor of the larger shape `out`.
int64_t BroadcastOffset(const Shape& out, const Shape& s, int64_t i) {
  int64_t offset = 0;
  int64_t stride = 1;
  for (int k = 1; k <= s.rank(); ++k) {
    const int64_t extent = out[out.rank() - k];
    if (s[s.rank() - k] != 1) offset += i % extent * stride;
    stride *= s[s.rank() - k];
    i /= extent;
  }
  return offset;
}

class ConcatKernel final : public Kernel {
 public:
  explicit ConcatKernel(const Problem& /*problem*/) {}
  Status Run(const RunArgs& args) const override {
    for (const View& v : args.in) TENON_RETURN_IF_ERROR(NeedStrings("StringConcat", v.dtype));
    TENON_ASSIGN_OR_RETURN(const Shape shape, Broadcast(args.in[0].shape, args.in[1].shape));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const auto* a = args.in[0].Data<std::string>();
    const auto* b = args.in[1].Data<std::string>();
    auto* out = args.out[0].Data<std::string>();
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      out[i] = a[BroadcastOffset(shape, args.in[0].shape, i)] + b[BroadcastOffset(shape, args.in[1].shape, i)];
    }
    return Status::Ok();
  }
};

constexpr std::string_view kSpace = " \t\n\v\f\r";

// Python's str.split.
void SplitInto(std::string_view s, std::string_view delimiter, int64_t most, std::vector<std::string_view>* out) {
  if (delimiter.empty()) {
    while (true) {
      const size_t begin = s.find_first_not_of(kSpace);
      if (begin == std::string_view::npos) return;
      s.remove_prefix(begin);
      const size_t end = most == 0 ? std::string_view::npos : s.find_first_of(kSpace);
      out->push_back(s.substr(0, end));
      if (end == std::string_view::npos) return;
      s.remove_prefix(end);
      --most;
    }
  }
  for (; most != 0; --most) {
    const size_t at = s.find(delimiter);
    if (at == std::string_view::npos) break;
    out->push_back(s.substr(0, at));
    s.remove_prefix(at + delimiter.size());
  }
  out->push_back(s);
}

class SplitKernel final : public Kernel {
 public:
  explicit SplitKernel(const Problem& p)
      : delimiter_(p.attrs.String("delimiter", "")), most_(p.attrs.Int("maxsplit", std::numeric_limits<int64_t>::max())) {
    if (most_ < 0) most_ = std::numeric_limits<int64_t>::max();
  }

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    TENON_RETURN_IF_ERROR(NeedStrings("StringSplit", x.dtype));
    if (x.shape.rank() + 1 > kMaxRank)
      return BadInput("StringSplit: rank {} is over the limit of {}", x.shape.rank() + 1, kMaxRank);
    const int64_t n = x.num_elements();
    std::vector<std::string_view> pieces;
    std::vector<size_t> ends;
    size_t widest = 0;
    for (int64_t i = 0; i < n; ++i) {
      const size_t before = pieces.size();
      SplitInto(x.Data<std::string>()[i], delimiter_, most_, &pieces);
      ends.push_back(pieces.size());
      widest = std::max(widest, pieces.size() - before);
    }
    Shape shape = x.shape;
    shape.push_back(static_cast<int64_t>(widest));
    TENON_RETURN_IF_ERROR(CheckedShape(shape.dims()).status());
    if (movement::HasOutput(args, 0)) TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    if (movement::HasOutput(args, 1)) TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 1, x.shape));
    size_t begin = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      const size_t count = ends[i] - begin;
      if (movement::HasOutput(args, 0)) {
        auto* row = args.out[0].Data<std::string>() + i * widest;
        for (size_t k = 0; k < widest; ++k) row[k] = k < count ? std::string(pieces[begin + k]) : std::string();
      }
      if (movement::HasOutput(args, 1)) args.out[1].Data<int64_t>()[i] = static_cast<int64_t>(count);
      begin = ends[i];
    }
    return Status::Ok();
  }

 private:
  std::string delimiter_;
  int64_t most_;
};

#define KERNEL(op, domain, rule, min_in, max_in, max_out, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/strings/kernels.inc"
#undef KERNEL

}  // namespace

Status InferStringConcat(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedStrings("StringConcat", args.in[0].dtype));
  TENON_RETURN_IF_ERROR(NeedStrings("StringConcat", args.in[1].dtype));
  SetTensor(&args.out[0], DType::kString, {});
  const SymShape& a = args.in[0].shape;
  const SymShape& b = args.in[1].shape;
  if (!a.has_rank() || !b.has_rank()) return Status::Ok();
  SymShape out = SymShape::OfRank(std::max(a.rank(), b.rank()));
  for (int i = 1; i <= out.rank(); ++i) {
    auto d = Dim::Broadcast(i <= a.rank() ? a[a.rank() - i] : Dim(1), i <= b.rank() ? b[b.rank() - i] : Dim(1));
    if (!d) return BadInput("StringConcat: {} does not broadcast with {}", a.ToString(), b.ToString());
    out[out.rank() - i] = *std::move(d);
  }
  args.out[0].shape = std::move(out);
  return Status::Ok();
}

Status InferStringSplit(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedStrings("StringSplit", args.in[0].dtype));
  SymShape shape = args.in[0].shape;
  if (shape.has_rank()) shape.dims().push_back(Dim::Unknown());
  if (args.out[0].present) SetTensor(&args.out[0], DType::kString, std::move(shape));
  if (args.out.size() > 1 && args.out[1].present) SetTensor(&args.out[1], DType::kI64, args.in[0].shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeStringConcat(const Problem& p) {
  return movement::Make<ConcatKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeStringSplit(const Problem& p) {
  return movement::Make<SplitKernel>(p);
}

std::span<const OpKernels> Operators() {
#define KERNEL(op, domain, rule, min_in, max_in, max_out, row, isa, can, make) \
  {domain #op, rule, k##op, min_in, max_in, 1, max_out, false},
  static const OpKernels table[] = {
#include "kernels/strings/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::strings
