// Trilu, ReverseSequence, TensorScatter.
#include <algorithm>

#include "kernels/movement/element.h"
#include "kernels/shape_ops/internal.h"

namespace tenon::kernels::shape_ops {
namespace {

using movement::At;
using movement::CopyElements;
using movement::SetTensor;

class TriluKernel final : public movement::MoveKernel {
 public:
  explicit TriluKernel(const Problem& p) : upper_(p.attrs.Int("upper", 1) != 0) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    const int rank = in.shape.rank();
    if (rank < 2) return BadInput("Trilu: the input has rank {}; at least 2 is needed", rank);
    int64_t k = 0;
    if (args.Has(1)) {
      if (!movement::IsIndexType(args.in[1].dtype) || args.in[1].num_elements() != 1)
        return BadInput("Trilu: k must be one integer");
      k = movement::ReadInt(args.in[1], 0);
    }
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, in.shape));
    const int64_t rows = in.shape[rank - 2];
    const int64_t cols = in.shape[rank - 1];
    k = std::clamp(k, -rows - 1, cols + 1);
    const int size = movement::ElementSize(in.dtype);
    void* out = args.out[0].data;
    args.team.ParallelFor(in.shape.Product(0, rank - 1), std::max<int64_t>(1, 32768 / std::max<int64_t>(1, cols)),
                          [&](int64_t begin, int64_t end, int) {
                            for (int64_t r = begin; r < end; ++r) {
                              // First column of the upper part, which starts at j = i + k; the lower one ends with that column.
                              const int64_t split = std::clamp<int64_t>(r % rows + k + (upper_ ? 0 : 1), 0, cols);
                              const int64_t from = upper_ ? split : 0;
                              const int64_t to = upper_ ? cols : split;
                              const int64_t base = r * cols;
                              movement::FillElements(At(out, base, size), nullptr, from, size);
                              CopyElements(At(out, base + from, size), At(in.data, base + from, size), to - from, size);
                              movement::FillElements(At(out, base + to, size), nullptr, cols - to, size);
                            }
                          });
    return Status::Ok();
  }

 private:
  bool upper_;
};

class ReverseSequenceKernel final : public movement::MoveKernel {
 public:
  static Status Check(const Problem& p) {
    const int64_t b = p.attrs.Int("batch_axis", 1);
    const int64_t t = p.attrs.Int("time_axis", 0);
    if ((b == 0 && t == 1) || (b == 1 && t == 0)) return Status::Ok();
    return BadInput("ReverseSequence: batch_axis {} and time_axis {}; allowed are 0 and 1, one each", b, t);
  }
  explicit ReverseSequenceKernel(const Problem& p) : batch_(static_cast<int>(p.attrs.Int("batch_axis", 1))) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    const View& lens = args.in[1];
    if (in.shape.rank() < 2) return BadInput("ReverseSequence: the input has rank {}; at least 2 is needed", in.shape.rank());
    const int64_t batches = in.shape[batch_];
    const int64_t times = in.shape[1 - batch_];
    if (!movement::IsIndexType(lens.dtype) || lens.num_elements() != batches) {
      return BadInput("ReverseSequence: sequence_lens of shape {} for {} sequences", lens.shape.ToString(), batches);
    }
    for (int64_t b = 0; b < batches; ++b) {
      const int64_t len = movement::ReadInt(lens, b);
      if (len < 0 || len > times) return BadInput("ReverseSequence: length {} of sequence {} is outside [0, {}]", len, b, times);
    }
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, in.shape));
    const int64_t inner = in.shape.Product(2, in.shape.rank());
    const int64_t batch_stride = batch_ == 0 ? times * inner : inner;
    const int64_t time_stride = batch_ == 0 ? inner : batches * inner;
    const int size = movement::ElementSize(in.dtype);
    for (int64_t b = 0; b < batches; ++b) {
      const int64_t len = movement::ReadInt(lens, b);
      for (int64_t t = 0; t < times; ++t) {
        const int64_t from = t < len ? len - 1 - t : t;
        CopyElements(At(args.out[0].data, b * batch_stride + t * time_stride, size),
                     At(in.data, b * batch_stride + from * time_stride, size), inner, size);
      }
    }
    return Status::Ok();
  }

 private:
  int batch_;
};

class TensorScatterKernel final : public movement::MoveKernel {
 public:
  static Status Check(const Problem& p) {
    const std::string mode = p.attrs.String("mode", "linear");
    if (mode == "linear" || mode == "circular") return Status::Ok();
    return BadInput("TensorScatter: mode '{}'; allowed are linear and circular", mode);
  }
  explicit TensorScatterKernel(const Problem& p)
      : axis_(p.attrs.Int("axis", -2)), circular_(p.attrs.String("mode", "linear") == "circular") {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& past = args.in[0];
    const View& update = args.in[1];
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, past.shape.rank()));
    if (axis == 0) return BadInput("TensorScatter: axis 0 is the batch");
    Shape like = update.shape;
    if (like.rank() != past.shape.rank()) return BadInput("TensorScatter: update has another rank than past_cache");
    const int64_t n = like[axis];
    const int64_t max = past.shape[axis];
    like[axis] = max;
    if (!(like == past.shape) || n > max) {
      return BadInput("TensorScatter: update of shape {} does not fit a cache of {}", update.shape.ToString(),
                      past.shape.ToString());
    }
    const int64_t batches = past.shape[0];
    if (args.Has(2) && (!movement::IsIndexType(args.in[2].dtype) || args.in[2].num_elements() != batches)) {
      return BadInput("TensorScatter: write_indices must be {} integers", batches);
    }
    for (int64_t b = 0; b < batches && args.Has(2); ++b) {
      const int64_t at = movement::ReadInt(args.in[2], b);
      const int64_t last = circular_ ? max - 1 : max - n;
      if (at < 0 || at > last) return BadInput("TensorScatter: write index {} of entry {} is outside [0, {}]", at, b, last);
    }
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, past.shape));
    const int size = movement::ElementSize(past.dtype);
    void* out = args.out[0].data;
    if (out != past.data) movement::CopyElementsParallel(out, past.data, past.num_elements(), size, args.team);
    const int64_t inner = past.shape.Product(axis + 1, past.shape.rank());
    const int64_t middle = past.shape.Product(1, axis);
    for (int64_t row = 0; row < batches * middle; ++row) {
      const int64_t at = args.Has(2) ? movement::ReadInt(args.in[2], row / middle) : 0;
      const int64_t first = std::min(n, max - at);  // the rest wraps around
      CopyElements(At(out, (row * max + at) * inner, size), At(update.data, row * n * inner, size), first * inner, size);
      CopyElements(At(out, row * max * inner, size), At(update.data, (row * n + first) * inner, size), (n - first) * inner, size);
    }
    return Status::Ok();
  }
  uint32_t InPlaceInputs() const override { return 1; }

 private:
  int64_t axis_;
  bool circular_;
};

}  // namespace

Status InferTrilu(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  if (in.has_rank() && in.rank() < 2) return BadInput("Trilu: the input has rank {}; at least 2 is needed", in.rank());
  SetTensor(&args.out[0], args.in[0].dtype, in);
  return Status::Ok();
}

Status InferReverseSequence(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  if (in.has_rank() && in.rank() < 2) return BadInput("ReverseSequence: the input has rank {}; at least 2 is needed", in.rank());
  SetTensor(&args.out[0], args.in[0].dtype, in);
  return Status::Ok();
}

Status InferTensorScatter(const ShapeArgs& args) {
  const SymShape& past = args.in[0].shape;
  if (past.has_rank()) TENON_RETURN_IF_ERROR(movement::NormalizeAxis(args.attrs.Int("axis", -2), past.rank()).status());
  SetTensor(&args.out[0], args.in[0].dtype, past);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeTrilu(const Problem& p) {
  return movement::Make<TriluKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeReverseSequence(const Problem& p) {
  return movement::Make<ReverseSequenceKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeTensorScatter(const Problem& p) {
  return movement::Make<TensorScatterKernel>(p);
}

}  // namespace tenon::kernels::shape_ops
