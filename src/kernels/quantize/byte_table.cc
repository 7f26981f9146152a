#include "kernels/quantize/byte_table.h"

#include "kernels/kernel_util.h"
#include "kernels/quantize/quantize.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kGrain = 32 * 1024;

bool IsByte(DType t) {
  return t == DType::kU8 || t == DType::kI8;
}

void LookUp(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

template <void (*kLookUp)(const uint8_t*, int64_t, const uint8_t*, uint8_t*)>
class Table final : public Kernel {
 public:
  Status Run(const RunArgs& args) const override {
    if (args.in[1].num_elements() != 256) return BadInput("table of shape {}; 256 elements needed", args.in[1].shape.ToString());
    const auto* x = args.in[0].Data<uint8_t>();
    auto* y = args.out[0].Data<uint8_t>();
    args.team.ParallelFor(args.in[0].num_elements(), kGrain,
                          [&](int64_t b, int64_t e, int) { kLookUp(x + b, e - b, args.in[1].Data<uint8_t>(), y + b); });
    return Status::Ok();
  }
  uint32_t InPlaceInputs() const override { return 1; }
};

}  // namespace

Status InferByteTable(const ShapeArgs& args) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const DType t = args.in[i].dtype;
    if (t != DType::kUndefined && !IsByte(t)) return BadInput("input {} is {}; uint8 or int8 needed", i, DTypeName(t));
  }
  const SymShape& table = args.in[1].shape;
  if (table.has_rank() && (table.rank() != 1 || (table[0].is_const() && table[0].value() != 256))) {
    return BadInput("table of shape {}; [256] needed", table.ToString());
  }
  SetOutput(args, 0, args.in[1].dtype, args.in[0].shape);
  return Status::Ok();
}

Refusal CanVbmi(const Problem& /*problem*/) {
#if defined(__x86_64__)
  return HasVbmi() ? nullptr : "this CPU has no VBMI";
#else
  return "this CPU has no VBMI";
#endif
}

Result<std::unique_ptr<Kernel>> MakeByteTableVbmi(const Problem& /*problem*/) {
  return std::unique_ptr<Kernel>(new Table<LookUpAvx512Vbmi>);
}
Result<std::unique_ptr<Kernel>> MakeByteTable(const Problem& /*problem*/) {
  return std::unique_ptr<Kernel>(new Table<LookUp>);
}

}  // namespace tenon::kernels::quantize
