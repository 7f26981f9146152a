#include "kernels/quantize/binary.h"

#include <algorithm>
#include <utility>

#include "kernels/kernel_util.h"
#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kGrain = 32 * 1024;

bool IsByte(DType t) {
  return t == DType::kU8 || t == DType::kI8;
}

// Elements from the first of `s` to that of the row (all axes but the last) number `row` of `y`; extents of 1 stay where they
// are.
int64_t RowStart(const Shape& s, const Shape& y, int64_t row) {
  int64_t at = 0, step = s.rank() == 0 ? 1 : s.dim(-1);
  for (int i = y.rank() - 2; i >= 0; --i) {
    const int own = i - (y.rank() - s.rank());
    const int64_t index = row % y[i];
    row /= y[i];
    if (own < 0) continue;
    if (s[own] != 1) at += index * step;
    step *= s[own];
  }
  return at;
}

class BinaryKernel final : public Kernel {
 public:
  using Function = void (*)(const ByteBinary&, const void*, const void*, int64_t, void*);
  BinaryKernel(BinaryParams p, Function function) : p_(p), function_(function) {}

  Status Run(const RunArgs& args) const override {
    const View *a = &args.in[0], *b = &args.in[1];
    MutView& y = args.out[0];
    Grid ga = p_.a, gb = p_.b;
    // A last axis of extent 1 against more is the second operand's.
    const auto last = [](const View& v) { return v.shape.rank() == 0 ? 1 : v.shape.dim(-1); };
    if (last(*a) == 1 && last(*b) != 1) {
      std::swap(a, b);
      std::swap(ga, gb);
    }
    ByteBinary f{};
    f.multiplies = p_.multiplies;
    f.a_signed = a->dtype == DType::kI8;
    f.b_signed = b->dtype == DType::kI8;
    f.y_signed = y.dtype == DType::kI8;
    f.a_zero = ga.zero;
    f.b_zero = gb.zero;
    f.y_zero = p_.y.zero;
    f.a_scale = p_.multiplies ? ga.scale * gb.scale / p_.y.scale : ga.scale / p_.y.scale;
    f.b_scale = gb.scale / p_.y.scale;
    const int64_t all = y.num_elements();
    if (all == 0) return Status::Ok();
    const auto *pa = a->Data<uint8_t>(), *pb = b->Data<uint8_t>();
    auto* to = y.Data<uint8_t>();
    if (a->shape == b->shape || b->num_elements() == 1) {
      f.b_is_one = b->num_elements() == 1;
      args.team.ParallelFor(all, kGrain, [&](int64_t begin, int64_t end, int) {
        function_(f, pa + begin, f.b_is_one ? pb : pb + begin, end - begin, to + begin);
      });
      return Status::Ok();
    }
    const int64_t n = y.shape.dim(-1);
    f.b_is_one = last(*b) == 1;
    args.team.ParallelFor(all / n, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        function_(f, pa + RowStart(a->shape, y.shape, r), pb + RowStart(b->shape, y.shape, r), n, to + r * n);
      }
    });
    return Status::Ok();
  }

 private:
  BinaryParams p_;
  Function function_;
};

void Plain(const ByteBinary& f, const void* a, const void* b, int64_t n, void* y) {
  const auto get = [](const void* p, int64_t i, bool is_signed) { return LoadInt(is_signed ? DType::kI8 : DType::kU8, p, i); };
  for (int64_t i = 0; i < n; ++i) {
    const auto va = static_cast<float>(get(a, i, f.a_signed) - f.a_zero);
    const auto vb = static_cast<float>(get(b, f.b_is_one ? 0 : i, f.b_signed) - f.b_zero);
    const float v = f.multiplies ? va * vb * f.a_scale : va * f.a_scale + vb * f.b_scale;
    static_cast<uint8_t*>(y)[i] = static_cast<uint8_t>(RoundSaturate(v, f.y_zero, f.y_signed ? -128 : 0, f.y_signed ? 127 : 255));
  }
}

Result<std::unique_ptr<Kernel>> MakeOn(const Problem& problem, BinaryKernel::Function function) {
  TENON_ASSIGN_OR_RETURN(const BinaryParams p, ParseBinary(problem.attrs));
  return std::unique_ptr<Kernel>(new BinaryKernel(p, function));
}

}  // namespace

Result<BinaryParams> ParseBinary(const Attrs& attrs) {
  BinaryParams p;
  const std::string op = attrs.String("op", "Add");
  if (op != "Add" && op != "Mul") return BadInput("attribute op is '{}'; allowed: Add, Mul", op);
  p.multiplies = op == "Mul";
  const int64_t type = attrs.Int("output_dtype", static_cast<int64_t>(DType::kU8));
  if (type != static_cast<int64_t>(DType::kU8) && type != static_cast<int64_t>(DType::kI8)) {
    return BadInput("attribute output_dtype is {}; allowed: uint8, int8", type);
  }
  TENON_ASSIGN_OR_RETURN(p.a, GridAttrs(attrs, "a", DType::kUndefined));
  TENON_ASSIGN_OR_RETURN(p.b, GridAttrs(attrs, "b", DType::kUndefined));
  TENON_ASSIGN_OR_RETURN(p.y, GridAttrs(attrs, "y", static_cast<DType>(type)));
  return p;
}

Status InferQuantizedBinary(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const BinaryParams p, ParseBinary(args.attrs));
  for (size_t i : {size_t{0}, size_t{1}}) {
    const DType t = args.in[i].dtype;
    if (t != DType::kUndefined && !IsByte(t)) return BadInput("input {} is {}; uint8 or int8 needed", i, DTypeName(t));
  }
  const SymShape &a = args.in[0].shape, &b = args.in[1].shape;
  if (!a.has_rank() || !b.has_rank()) {
    SetOutput(args, 0, p.y.type, SymShape());
    return Status::Ok();
  }
  const int rank = std::max(a.rank(), b.rank());
  std::vector<Dim> y;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    if (ia < 0 || ib < 0) {
      y.push_back(ia < 0 ? b[ib] : a[ia]);
      continue;
    }
    const auto d = Dim::Broadcast(a[ia], b[ib]);
    if (!d) return BadInput("operands of shape {} and {} do not broadcast", a.ToString(), b.ToString());
    y.push_back(*d);
  }
  SetOutput(args, 0, p.y.type, SymShape(std::move(y)));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeBinaryAvx2(const Problem& problem) {
  return MakeOn(problem, kSimdAvx2.binary);
}
Result<std::unique_ptr<Kernel>> MakeBinaryVnni(const Problem& problem) {
  return MakeOn(problem, kSimdAvx512Vnni.binary);
}
Result<std::unique_ptr<Kernel>> MakeBinary(const Problem& problem) {
  return MakeOn(problem, Plain);
}

}  // namespace tenon::kernels::quantize
