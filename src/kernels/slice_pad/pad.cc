// Pad: rule and kernel.
#include <algorithm>

#include "kernels/movement/element.h"
#include "kernels/slice_pad/internal.h"

namespace tenon::kernels::slice_pad {
namespace {

using movement::At;
using movement::CopyElements;
using movement::FillElements;

enum class Mode { kConstant, kReflect, kEdge, kWrap };

Result<Mode> ParseMode(const Attrs& attrs) {
  const std::string mode = attrs.String("mode", "constant");
  if (mode == "constant") return Mode::kConstant;
  if (mode == "reflect") return Mode::kReflect;
  if (mode == "edge") return Mode::kEdge;
  if (mode == "wrap") return Mode::kWrap;
  return BadInput("Pad: mode '{}'; allowed are constant, reflect, edge and wrap", mode);
}

// One axis: `length` elements from `start` on are kept, `before` and `after` are put around them.
struct AxisPad {
  int64_t start = 0;
  int64_t length = 0;
  int64_t before = 0;
  int64_t after = 0;
  int64_t extent() const { return before + length + after; }
};

Result<AxisPad> MakeAxisPad(int axis, int64_t extent, int64_t before, int64_t after, Mode mode) {
  constexpr int64_t kLimit = int64_t{1} << 48;
  if (before > kLimit || after > kLimit) return BadInput("Pad: pads {}, {} of axis {} are too large", before, after, axis);
  const int64_t crop_front = before < 0 ? (before < -kLimit ? kLimit : -before) : 0;
  const int64_t crop_back = after < 0 ? (after < -kLimit ? kLimit : -after) : 0;
  if (crop_front + crop_back > extent) {
    return BadInput("Pad: pads {}, {} crop more than the {} elements of axis {}", before, after, extent, axis);
  }
  const AxisPad p{crop_front, extent - crop_front - crop_back, std::max<int64_t>(0, before), std::max<int64_t>(0, after)};
  const int64_t most = std::max(p.before, p.after);
  if (mode == Mode::kReflect && most > 0 && most > p.length - 1) {
    return BadInput("Pad: reflect pads {}, {} of axis {} go beyond its extent {}; at most {} is allowed", before, after, axis,
                    p.length, std::max<int64_t>(0, p.length - 1));
  }
  if (mode != Mode::kConstant && most > 0 && p.length == 0) {
    return BadInput("Pad: axis {} is empty, so there is nothing to pad it with", axis);
  }
  return p;
}

// Index into the input of output position `i`, or -1 in a constant border.
int64_t SourceIndex(const AxisPad& p, int64_t i, Mode mode) {
  int64_t k = i - p.before;
  if (k < 0 || k >= p.length) {
    switch (mode) {
      case Mode::kConstant: return -1;
      case Mode::kReflect: k = k < 0 ? -k : 2 * (p.length - 1) - k; break;
      case Mode::kEdge: k = k < 0 ? 0 : p.length - 1; break;
      case Mode::kWrap: k = (k % p.length + p.length) % p.length; break;
    }
  }
  return p.start + k;
}

class PadKernel final : public movement::MoveKernel {
 public:
  static Status Check(const Problem& p) { return ParseMode(p.attrs).status(); }
  explicit PadKernel(const Problem& p) : mode_(*ParseMode(p.attrs)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    const int rank = in.shape.rank();
    if (args.Has(2) && (args.in[2].dtype != in.dtype || args.in[2].num_elements() != 1)) {
      return BadInput("Pad: constant_value must be one {}, not {} of shape {}", DTypeName(in.dtype), DTypeName(args.in[2].dtype),
                      args.in[2].shape.ToString());
    }
    AxisPad pads[kMaxRank];
    TENON_RETURN_IF_ERROR(ReadPads(args, pads));
    Shape wanted;
    for (int i = 0; i < rank; ++i) wanted.push_back(pads[i].extent());
    TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(wanted.dims()));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    // Inner axes that are kept whole are one block; the last other axis is walked in three parts.
    int inner = rank - 1;
    while (inner > 0 && pads[inner].length == in.shape[inner] && pads[inner].extent() == in.shape[inner]) --inner;
    const int size = movement::ElementSize(in.dtype);
    const void* value = args.Has(2) ? args.in[2].data : nullptr;
    if (rank == 0) {
      CopyElements(args.out[0].data, in.data, 1, size);
      return Status::Ok();
    }
    const int64_t block = in.shape.Product(inner + 1, rank);
    const int64_t row = shape[inner] * block;
    if (row == 0) return Status::Ok();
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 17) / (row * movement::StrideBytes(size)));
    args.team.ParallelFor(shape.Product(0, inner), grain, [&](int64_t begin, int64_t end, int) {
      // The axis before `inner` counts along; what lies before it is worked out once for each of its rounds.
      const int64_t round = inner > 0 ? shape[inner - 1] : 1;
      int64_t at = begin % round;
      int64_t base = 0;
      for (int64_t r = begin; r < end; ++r) {
        if (inner > 0 && (r == begin || at == 0)) base = SourceRow(r / round, inner - 1, shape, in.shape, pads);
        int64_t source = inner > 0 ? SourceIndex(pads[inner - 1], at, mode_) : 0;
        if (inner > 0) source = base < 0 || source < 0 ? -1 : base * in.shape[inner - 1] + source;
        if (++at == round) at = 0;
        void* out = At(args.out[0].data, r * row, size);
        if (source < 0) {
          FillElements(out, value, row, size);
        } else {
          Row(out, At(in.data, source * in.shape[inner] * block, size), pads[inner], block, value, size);
        }
      }
    });
    return Status::Ok();
  }

 private:
  Status ReadPads(const RunArgs& args, AxisPad* pads) const {
    const Shape& in = args.in[0].shape;
    const int rank = in.rank();
    movement::SmallInts list, axes;
    TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[1], "Pad: pads", &list));
    const bool some = args.Has(3);
    if (some) TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[3], "Pad: axes", &axes));
    const int n = some ? axes.count : rank;
    if (list.count != 2 * n) return BadInput("Pad: {} pads for {} axes", list.count, n);
    for (int i = 0; i < rank; ++i) pads[i] = {0, in[i], 0, 0};
    uint32_t seen = 0;
    for (int i = 0; i < n; ++i) {
      TENON_ASSIGN_OR_RETURN(const int a, movement::NormalizeAxis(some ? axes[i] : i, rank));
      if ((seen >> a & 1) != 0) return BadInput("Pad: axis {} is given twice", a);
      seen |= 1u << a;
      TENON_ASSIGN_OR_RETURN(pads[a], MakeAxisPad(a, in[a], list[i], list[n + i], mode_));
    }
    return Status::Ok();
  }

  // Row of the input (over the axes before `inner`) behind row `r` of the output; -1 in a constant border.
  int64_t SourceRow(int64_t r, int inner, const Shape& out, const Shape& in, const AxisPad* pads) const {
    int64_t source = 0;
    int64_t stride = 1;
    for (int i = inner - 1; i >= 0; --i) {
      const int64_t k = SourceIndex(pads[i], r % out[i], mode_);
      if (k < 0) return -1;
      r /= out[i];
      source += k * stride;
      stride *= in[i];
    }
    return source;
  }

  void Row(void* out, const void* in, const AxisPad& p, int64_t block, const void* value, int size) const {
    CopyElements(At(out, p.before * block, size), At(in, p.start * block, size), p.length * block, size);
    if (block == 1 && size != movement::kStringSize) {  // single elements: no call for each
      return movement::DispatchSize(size, [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        const T v = value == nullptr ? T{} : *static_cast<const T*>(value);
        Border(static_cast<T*>(out), static_cast<const T*>(in), p, v, 0, p.before);
        Border(static_cast<T*>(out), static_cast<const T*>(in), p, v, p.before + p.length, p.extent());
      });
    }
    if (mode_ == Mode::kConstant) {
      FillElements(out, value, p.before * block, size);
      FillElements(At(out, (p.before + p.length) * block, size), value, p.after * block, size);
      return;
    }
    const auto border = [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        CopyElements(At(out, i * block, size), At(in, SourceIndex(p, i, mode_) * block, size), block, size);
      }
    };
    border(0, p.before);
    border(p.before + p.length, p.extent());
  }

  template <typename T>
  void Border(T* out, const T* in, const AxisPad& p, T value, int64_t from, int64_t to) const {
    if (mode_ == Mode::kConstant) {
      for (int64_t i = from; i < to; ++i) out[i] = value;
    } else {
      for (int64_t i = from; i < to; ++i) out[i] = in[SourceIndex(p, i, mode_)];
    }
  }

  Mode mode_;
};

}  // namespace

Status InferPad(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Mode mode, ParseMode(args.attrs));
  const SymShape& in = args.in[0].shape;
  movement::SetTensor(&args.out[0], args.in[0].dtype, {});
  if (args.Has(2) && args.in[2].dtype != DType::kUndefined && args.in[0].dtype != DType::kUndefined &&
      args.in[2].dtype != args.in[0].dtype) {
    return BadInput("Pad: constant_value is {}, data is {}", DTypeName(args.in[2].dtype), DTypeName(args.in[0].dtype));
  }
  if (!in.has_rank()) return Status::Ok();
  SymShape shape = SymShape::OfRank(in.rank());
  auto pads = movement::SmallElements(args.in[1]);
  if (!pads && args.in[1].data != nullptr) return BadInput("Pad: pads must be a list of integers, two an axis");
  std::vector<int64_t> axes;
  if (args.Has(3)) {
    auto given = movement::SmallKnownInts(args.in[3]);
    if (!given && args.in[3].data != nullptr) return BadInput("Pad: axes must be a list of at most {} integers", kMaxRank);
    if (!given) {
      args.out[0].shape = std::move(shape);
      return Status::Ok();
    }
    axes = *std::move(given);
  } else {
    for (int i = 0; i < in.rank(); ++i) axes.push_back(i);
  }
  if (pads && pads->size() != 2 * axes.size()) return BadInput("Pad: {} pads for {} axes", pads->size(), axes.size());
  shape = in;
  std::vector<bool> seen(static_cast<size_t>(in.rank()), false);
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = movement::NormalizeAxis(axes[i], in.rank());
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("Pad");
    if (seen[static_cast<size_t>(*axis)]) return BadInput("Pad: axis {} is given twice", axes[i]);
    seen[static_cast<size_t>(*axis)] = true;
    const Dim before = pads ? (*pads)[i] : Dim::Unknown();
    const Dim after = pads ? (*pads)[axes.size() + i] : Dim::Unknown();
    if (in[*axis].is_const() && before.is_const() && after.is_const()) {
      TENON_RETURN_IF_ERROR(MakeAxisPad(*axis, in[*axis].value(), before.value(), after.value(), mode).status());
    }
    shape[*axis] = in[*axis] + before + after;
  }
  TENON_RETURN_IF_ERROR(movement::CheckDims(shape));
  args.out[0].shape = std::move(shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakePad(const Problem& problem) {
  return movement::Make<PadKernel>(problem);
}

}  // namespace tenon::kernels::slice_pad
