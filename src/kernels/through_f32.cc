#include "kernels/through_f32.h"

#include <algorithm>
#include <array>

#include "base/dtype.h"
#include "kernels/elementwise/f32_table.h"
#include "kernels/refusals.h"

namespace tenon::kernels {
namespace {

constexpr size_t kMaxValues = 8;     // inputs or outputs
constexpr int64_t kGrain = 16 * 1024;  // elements worth another thread

bool IsHalf(DType t) {
  return t == DType::kF16 || t == DType::kBF16;
}
size_t AlignBytes(int64_t bytes) {
  return static_cast<size_t>((bytes + 63) / 64 * 64);
}

struct Widened {
  std::vector<ValueInfo> in, out;
};

// The problem in f32. Contents of 16-bit constants are not known in it.
Widened Widen(const Problem& problem) {
  Widened w{{problem.in.begin(), problem.in.end()}, {problem.out.begin(), problem.out.end()}};
  for (auto* values : {&w.in, &w.out}) {
    for (ValueInfo& v : *values) {
      if (!IsHalf(v.dtype)) continue;
      v.dtype = DType::kF32;
      v.data = nullptr;
    }
  }
  return w;
}

// The first row of the operator that computes by itself, and fast.
const Row* RowFor(const Problem& problem) {
  const OpKernels* op = FindOp(problem.op);
  if (op == nullptr) return nullptr;
  for (const Row& row : op->rows) {
    if (row.make == MakeThroughF32 || row.name == "reference" || !hw::Covers(problem.isa, row.needs)) continue;
    if (row.can == nullptr || row.can(problem) == nullptr) return &row;
  }
  return nullptr;
}

struct State final : ShapeState {
  Configured inner;
  std::array<size_t, kMaxValues> in_at{}, out_at{};   // bytes into scratch
};

// For outputs whose shape only the inner kernel knows: in f32 here, until they are narrowed into real ones.
class WideAllocator final : public OutputAllocator {
 public:
  explicit WideAllocator(const RunArgs& args) : args_(args) {}
  Result<MutView> Allocate(size_t index, const Shape& shape) override {
    if (args_.allocator == nullptr) return Internal("output {}: no buffer and no allocator", index);
    if (!IsHalf(args_.out[index].dtype)) return args_.allocator->Allocate(index, shape);
    TENON_ASSIGN_OR_RETURN(tensors_[index], Tensor::Allocate(DType::kF32, shape));
    TENON_ASSIGN_OR_RETURN(args_.out[index], args_.allocator->Allocate(index, shape));
    return tensors_[index].mutable_view();
  }

 private:
  const RunArgs& args_;
  std::array<Tensor, kMaxValues> tensors_;
};

class ThroughF32 final : public Kernel {
 public:
  explicit ThroughF32(hw::IsaMask isa) : table_(*elementwise::TableFor(isa)) {}

  Status Make(const Problem& problem) {
    Widened w = kernels::Widen(problem);
    views_.resize(problem.in.size());
    constants_.resize(problem.in.size());
    for (size_t i = 0; i < problem.in.size(); ++i) {
      const ValueInfo& v = problem.in[i];
      if (!v.present || !IsHalf(v.dtype) || v.data == nullptr) continue;
      TENON_ASSIGN_OR_RETURN(constants_[i], Tensor::Allocate(DType::kF32, v.data->shape));
      WidenInto(*v.data, constants_[i].MutableData<float>(), 0, v.data->num_elements());
      views_[i] = constants_[i].view();
      w.in[i].data = &views_[i];
    }
    const Problem wide{problem.op, problem.attrs, w.in, w.out, problem.isa, problem.threads};
    const Row* row = RowFor(wide);
    if (row == nullptr) return Unsupported("{}: {}", problem.op, kRefuseDType);
    TENON_ASSIGN_OR_RETURN(inner_, row->make(wide));
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    auto s = std::make_unique<State>();
    std::vector<View> wide_in(in.begin(), in.end());
    std::vector<View> wide_out(out.begin(), out.end());
    size_t bytes = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!Converts(i, in[i])) continue;
      wide_in[i].dtype = DType::kF32;
      wide_in[i].data = constants_[i].defined() ? constants_[i].data() : nullptr;
      s->in_at[i] = bytes;
      if (!constants_[i].defined()) bytes += AlignBytes(in[i].num_elements() * 4);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (!IsHalf(out[i].dtype)) continue;
      wide_out[i].dtype = DType::kF32;
      s->out_at[i] = bytes;
      bytes += AlignBytes(out[i].num_elements() * 4);
    }
    TENON_ASSIGN_OR_RETURN(s->inner, inner_->Configure(wide_in, wide_out));
    const size_t own = AlignBytes(static_cast<int64_t>(s->inner.scratch_bytes));
    for (size_t& at : s->in_at) at += own;
    for (size_t& at : s->out_at) at += own;
    return Configured{std::move(s), own + bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    std::array<View, kMaxValues> in;
    std::array<MutView, kMaxValues> out;
    std::array<bool, kMaxValues> narrow{};
    for (size_t i = 0; i < args.in.size(); ++i) {
      in[i] = args.in[i];
      if (!Converts(i, in[i])) continue;
      in[i].dtype = DType::kF32;
      in[i].data = constants_[i].defined() ? constants_[i].data() : args.scratch + s.in_at[i];
      if (!constants_[i].defined()) {
        auto* to = reinterpret_cast<float*>(args.scratch + s.in_at[i]);
        args.team.ParallelFor(in[i].num_elements(), kGrain, [&](int64_t b, int64_t e, int) { WidenInto(args.in[i], to, b, e); });
      }
    }
    for (size_t i = 0; i < args.out.size(); ++i) {
      out[i] = args.out[i];
      narrow[i] = IsHalf(out[i].dtype);
      if (!narrow[i]) continue;
      out[i].dtype = DType::kF32;
      if (out[i].data != nullptr) out[i].data = args.scratch + s.out_at[i];
    }
    WideAllocator allocator(args);
    const RunArgs inner{
        {in.data(), args.in.size()}, {out.data(), args.out.size()}, s.inner.state.get(), args.scratch, args.team, &allocator};
    TENON_RETURN_IF_ERROR(inner_->Run(inner));
    for (size_t i = 0; i < args.out.size(); ++i) {
      if (!narrow[i]) {
        args.out[i] = out[i];
        continue;
      }
      const auto convert = args.out[i].dtype == DType::kF16 ? table_.f32_to_f16 : table_.f32_to_bf16;
      const auto* from = static_cast<const float*>(out[i].data);
      auto* to = static_cast<uint16_t*>(args.out[i].data);
      args.team.ParallelFor(out[i].num_elements(), kGrain, [&](int64_t b, int64_t e, int) { convert(from + b, to + b, e - b); });
    }
    return Status::Ok();
  }

  size_t PackedBytes() const override {
    size_t bytes = inner_->PackedBytes();
    for (const Tensor& t : constants_) bytes += t.defined() ? static_cast<size_t>(t.shape().num_elements()) * 4 : 0;
    return bytes;
  }
  bool ConsumedConstant(size_t i) const override { return constants_[i].defined() || inner_->ConsumedConstant(i); }

 private:
  bool Converts(size_t i, const View& v) const { return v.present() && IsHalf(v.dtype) && i < constants_.size(); }

  void WidenInto(const View& from, float* to, int64_t begin, int64_t end) const {
    const auto convert = from.dtype == DType::kF16 ? table_.f16_to_f32 : table_.bf16_to_f32;
    convert(static_cast<const uint16_t*>(from.data) + begin, to + begin, end - begin);
  }
  const elementwise::F32Table& table_;
  std::vector<Tensor> constants_;   // 16-bit constant inputs in f32
  std::vector<View> views_;
  std::unique_ptr<Kernel> inner_;
};

}  // namespace

Refusal CanThroughF32(const Problem& problem) {
  if (problem.in.size() > kMaxValues || problem.out.size() > kMaxValues) return kRefuseSize;
  bool any = false;
  for (const ValueInfo& v : problem.in) {
    any = any || (v.present && IsHalf(v.dtype));
    if (v.is_sequence) return kRefuseDType;
  }
  if (!any || elementwise::TableFor(problem.isa) == nullptr) return kRefuseDType;
  const Widened w = Widen(problem);
  return RowFor({problem.op, problem.attrs, w.in, w.out, problem.isa, problem.threads}) != nullptr ? nullptr : kRefuseDType;
}

Result<std::unique_ptr<Kernel>> MakeThroughF32(const Problem& problem) {
  auto kernel = std::make_unique<ThroughF32>(problem.isa);
  TENON_RETURN_IF_ERROR(kernel->Make(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace tenon::kernels
