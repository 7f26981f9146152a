// SplitToSequence and ConcatFromSequence.
#include <algorithm>

#include "kernels/movement/strided.h"
#include "kernels/sequence/internal.h"

namespace tenon::kernels::sequence {
namespace {

// Parts of a sequence each cost an object: more of them than this is no model.
constexpr int64_t kMaxParts = int64_t{1} << 20;

class SplitKernel final : public Kernel {
 public:
  explicit SplitKernel(const Problem& p) : axis_(p.attrs.Int("axis", 0)), keep_(p.attrs.Int("keepdims", 1) != 0) {}

  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_RETURN_IF_ERROR(NeedOutput("SplitToSequence", args.out[0]));
    if (movement::IsSubByte(in.dtype)) return Unsupported("SplitToSequence of {}", DTypeName(in.dtype));
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, in.shape.rank()));
    const int64_t extent = in.shape[axis];
    const bool list = args.Has(1) && args.in[1].shape.rank() > 0;
    if (args.Has(1) && (!movement::IsIndexType(args.in[1].dtype) || args.in[1].shape.rank() > 1)) {
      return BadInput("SplitToSequence: split must be a number or a list of integers");
    }
    const int64_t chunk = args.Has(1) && !list ? movement::ReadInt(args.in[1], 0) : 1;
    if (chunk < 1) return BadInput("SplitToSequence: parts of {}; at least 1 is needed", chunk);
    const int64_t parts = list ? args.in[1].num_elements() : extent / chunk + (extent % chunk != 0 ? 1 : 0);
    if (parts > kMaxParts) return ResourceLimit("SplitToSequence: {} parts; at most {} are allowed", parts, kMaxParts);
    Sequence& out = *args.out[0].sequence;
    out.clear();
    int64_t start = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t size = list ? movement::ReadInt(args.in[1], i) : std::min(chunk, extent - start);
      if (size < 0 || size > extent - start || (list && i + 1 == parts && size != extent - start)) {
        return BadInput("SplitToSequence: part {} of size {} does not fit an axis of {} after {}", i, size, extent, start);
      }
      TENON_ASSIGN_OR_RETURN(Tensor t, Part(args, axis, start, size));
      out.push_back(!args.Has(1) && !keep_ ? t.Reshaped(Without(t.shape(), axis)) : std::move(t));
      start += size;
    }
    if (list && start != extent) return BadInput("SplitToSequence: the parts add up to {}, the axis has {}", start, extent);
    return Status::Ok();
  }

 private:
  static Shape Without(const Shape& s, int axis) {
    Shape out;
    for (int i = 0; i < s.rank(); ++i) {
      if (i != axis) out.push_back(s[i]);
    }
    return out;
  }

  static Result<Tensor> Part(const RunArgs& args, int axis, int64_t start, int64_t size) {
    const View& in = args.in[0];
    Shape shape = in.shape;
    shape[axis] = size;
    TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(in.dtype, shape));
    const int64_t inner = in.shape.Product(axis + 1, in.shape.rank());
    movement::StridedCopy copy;
    copy.Add(in.shape.Product(0, axis), size * inner, in.shape[axis] * inner);
    copy.Add(size * inner, 1, 1);
    const int bytes = movement::ElementSize(in.dtype);
    copy.Run(t.mutable_data(), movement::At(in.data, start * inner, bytes), bytes, args.team);
    return t;
  }

  int64_t axis_;
  bool keep_;
};

class ConcatKernel final : public Kernel {
 public:
  explicit ConcatKernel(const Problem& p) : axis_(p.attrs.Int("axis", 0)), stack_(p.attrs.Int("new_axis", 0) != 0) {}

  Status Run(const RunArgs& args) const override {
    TENON_RETURN_IF_ERROR(NeedSequence("ConcatFromSequence", args.in[0]));
    const Sequence& in = *args.in[0].sequence;
    if (in.empty()) return BadInput("ConcatFromSequence: the sequence is empty");
    const DType dtype = in[0].dtype();
    if (movement::IsSubByte(dtype)) return Unsupported("ConcatFromSequence of {}", DTypeName(dtype));
    const Shape& first = in[0].shape();
    const int rank = first.rank() + (stack_ ? 1 : 0);
    if (rank > kMaxRank) return BadInput("ConcatFromSequence: rank {} is over the limit of {}", rank, kMaxRank);
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, rank));
    int64_t total = 0;
    for (const Tensor& t : in) {
      Shape like = t.shape();
      const bool same_rank = like.rank() == first.rank() && t.dtype() == dtype;
      if (same_rank) total += stack_ ? 1 : like[axis];
      if (same_rank && !stack_) like[axis] = first[axis];
      if (!same_rank || !(like == first)) {
        return BadInput("ConcatFromSequence: {} of shape {} does not fit beside {} of shape {}", DTypeName(t.dtype()),
                        t.shape().ToString(), DTypeName(dtype), first.ToString());
      }
    }
    Shape shape;
    for (int i = 0; i < rank; ++i) shape.push_back(i == axis ? total : first[stack_ && i > axis ? i - 1 : i]);
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    if (args.out[0].dtype != dtype) {
      return BadInput("ConcatFromSequence: the elements are {}, not {}", DTypeName(dtype), DTypeName(args.out[0].dtype));
    }
    const int64_t inner = shape.Product(axis + 1, rank);
    const int size = movement::ElementSize(dtype);
    int64_t offset = 0;
    for (const Tensor& t : in) {
      const int64_t run = (stack_ ? 1 : t.shape()[axis]) * inner;
      movement::StridedCopy copy;
      copy.Add(shape.Product(0, axis), total * inner, run);
      copy.Add(run, 1, 1);
      copy.Run(movement::At(args.out[0].data, offset, size), t.data(), size, args.team);
      offset += run;
    }
    return Status::Ok();
  }

 private:
  int64_t axis_;
  bool stack_;
};

}  // namespace

Status InferSplitToSequence(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  if (in.has_rank()) TENON_RETURN_IF_ERROR(movement::NormalizeAxis(args.attrs.Int("axis", 0), in.rank()).status());
  SetSequence(&args.out[0], args.in[0].dtype);
  return Status::Ok();
}

Status InferConcatFromSequence(const ShapeArgs& args) {
  if (!args.in[0].is_sequence) return BadInput("ConcatFromSequence: input 0 must be a sequence");
  movement::SetTensor(&args.out[0], args.in[0].dtype, {});
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeSplitToSequence(const Problem& p) {
  return movement::Make<SplitKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeConcatFromSequence(const Problem& p) {
  return movement::Make<ConcatKernel>(p);
}

}  // namespace tenon::kernels::sequence
