// Small pieces that most kernel families need: a kernel made of a parameter struct and a function, row lists, axes, outputs.
#ifndef TENON_KERNELS_KERNEL_UTIL_H_
#define TENON_KERNELS_KERNEL_UTIL_H_

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kernels/kernel.h"
#include "kernels/refusals.h"

namespace tenon::kernels {

/// A kernel that is a validated parameter struct and a function. `in_place`: see Kernel::InPlaceInputs.
template <typename P, Status (*kRun)(const P&, const RunArgs&), uint32_t kInPlace = 0>
class ParamKernel final : public Kernel {
 public:
  explicit ParamKernel(P params) : params_(std::move(params)) {}
  Status Run(const RunArgs& args) const override { return kRun(params_, args); }
  uint32_t InPlaceInputs() const override { return kInPlace; }

 private:
  P params_;
};

/// A Row::make for ParamKernel: parses with kParse.
template <typename P, Result<P> (*kParse)(std::string_view, const Attrs&), Status (*kRun)(const P&, const RunArgs&),
          uint32_t kInPlace = 0>
Result<std::unique_ptr<Kernel>> MakeParam(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(P params, kParse(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<ParamKernel<P, kRun, kInPlace>>(std::move(params)));
}

/// One line of a family's kernels.inc: the row and the operators (a group name) that it serves.
struct GroupedRow {
  std::string_view group;
  Row row;
};

/// The rows of one group, in table order.
inline std::vector<Row> RowsOf(std::span<const GroupedRow> table, std::string_view group) {
  std::vector<Row> rows;
  for (const GroupedRow& r : table) {
    if (r.group == group) rows.push_back(r.row);
  }
  return rows;
}

/// `axis` in [-rank, rank) as a number in [0, rank).
inline Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return BadInput("axis {} is out of range; allowed for rank {}: {} to {}", axis, rank, -rank, rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

/// Output `i` with `shape`: the buffer handed in, or one from the allocator when the shape was not known before the run.
inline Result<MutView> TakeOutput(const RunArgs& args, size_t i, const Shape& shape) {
  if (args.out[i].data == nullptr) {
    if (args.allocator == nullptr) return Internal("output {}: no buffer and no allocator", i);
    TENON_ASSIGN_OR_RETURN(args.out[i], args.allocator->Allocate(i, shape));
  }
  if (!(args.out[i].shape == shape)) {
    return Internal("output {}: buffer of shape {} for a result of shape {}", i, args.out[i].shape.ToString(), shape.ToString());
  }
  return args.out[i];
}

/// True when output `i` is wanted.
inline bool Wants(std::span<const MutView> out, size_t i) {
  return i < out.size() && out[i].present();
}
inline bool Wants(std::span<const ValueInfo> out, size_t i) {
  return i < out.size() && out[i].present;
}

/// Sets type and shape of output `i` when it is wanted.
inline void SetOutput(const ShapeArgs& args, size_t i, DType dtype, SymShape shape) {
  if (!Wants(std::span<const ValueInfo>(args.out), i)) return;
  args.out[i].dtype = dtype;
  args.out[i].shape = std::move(shape);
}

/// Shape rule of operators whose output 0 is like input 0.
inline Status InferSame(const ShapeArgs& args) {
  SetOutput(args, 0, args.in[0].dtype, args.in[0].shape);
  return {};
}

/// Refusal of rows that serve f32 in all inputs present from `first` on.
inline Refusal RequireF32(const Problem& p) {
  for (const ValueInfo& v : p.in) {
    if (v.present && v.dtype != DType::kF32) return kRefuseDType;
  }
  return nullptr;
}

/// Refusal of rows that serve f32 in input 0.
inline Refusal RequireF32First(const Problem& p) {
  return p.in[0].dtype == DType::kF32 ? nullptr : kRefuseDType;
}

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_KERNEL_UTIL_H_
