// The table of resizing, and how its f32 rows cut the work for the team.
#include "kernels/resize/resize.h"

#include <algorithm>
#include <cstring>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/movement/element.h"
#include "kernels/through_f32.h"

namespace tenon::kernels::resize {
namespace {

constexpr int64_t kGrain = 16384;  // output elements worth a thread

Refusal CanResize(const Problem& p) {
  const DType t = p.in[0].dtype;
  if (IsPlainFloat(t) || (IsInteger(t) && DTypeBits(t) >= 8)) return nullptr;
  const bool moved = t == DType::kBool || t == DType::kString || t == DType::kC64 || t == DType::kC128;
  return moved && p.attrs.String("mode", "nearest") == "nearest" ? nullptr : kRefuseDType;
}
Refusal CanFloat(const Problem& p) {
  return IsPlainFloat(p.in[0].dtype) ? nullptr : kRefuseDType;
}
Refusal CanGrid(const Problem& p) {
  return IsPlainNumeric(p.in[0].dtype) ? nullptr : kRefuseDType;
}
Refusal CanCrop(const Problem& p) {
  return DTypeBits(p.in[0].dtype) >= 8 ? nullptr : kRefuseDType;
}

// The plan that Configure made, or one for the shape that only this run knows, which `fresh` then owns.
Result<const Plan*> PlanOf(const ResizeParams& params, const RunArgs& args, const Shape& shape, std::unique_ptr<Plan>* fresh) {
  if (args.state != nullptr) return static_cast<const Plan*>(args.state);
  TENON_ASSIGN_OR_RETURN(*fresh, MakePlan(params, args.in, shape));
  return fresh->get();
}

// With null `inner`: the reference. Tables are made in Configure when roi, scales and sizes are constants.
class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(ResizeParams params, const ResizeInner* inner, int threads)
      : params_(std::move(params)), inner_(inner), threads_(std::max(1, threads)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    Configured c;
    TENON_ASSIGN_OR_RETURN(auto plan, PlanAhead(params_, in, out[0].shape));
    if (plan == nullptr) return c;
    c.scratch_bytes = ScratchFloats(in[0].shape, *plan) * sizeof(float);
    c.state = std::move(plan);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Shape shape, ResizedShape(params_, args.in));
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
    std::unique_ptr<Plan> fresh;
    TENON_ASSIGN_OR_RETURN(const Plan* plan, PlanOf(params_, args, shape, &fresh));
    std::shared_ptr<Buffer> spare;
    auto* scratch = reinterpret_cast<float*>(args.scratch);
    if (fresh != nullptr) {
      spare = Buffer::Allocate(ScratchFloats(args.in[0].shape, *plan) * sizeof(float));
      if (spare == nullptr) return ResourceLimit("Resize: no memory for its scratch");
      scratch = static_cast<float*>(spare->data());
    }
    Planes p;
    if (inner_ == nullptr || !FitPlanes(args.in[0].shape, *plan, &p)) return RunResizeReference(params_, *plan, args, y);
    if (y.num_elements() == 0) return {};
    RunFast(p, args.in[0].Data<float>(), y.Data<float>(), scratch, args.team);
    return {};
  }

 private:
  size_t ScratchFloats(const Shape& x, const Plan& plan) const {
    Planes p;
    if (inner_ == nullptr || !FitPlanes(x, plan, &p)) return 0;
    return static_cast<size_t>(threads_ * RowFloats(p));
  }
  static int64_t RowFloats(const Planes& p) { return (p.width->in * p.inner + 15) / 16 * 16; }

  void RunFast(const Planes& p, const float* x, float* y, float* scratch, hw::Team& team) const {
    const AxisTable &h = *p.height, &w = *p.width;
    const int64_t x_row = w.in * p.inner, y_row = w.out * p.inner, rows = p.count * h.out;
    const int shift = RepeatShift(w);
    // Scratch was sized for the threads that make() was told of.
    const int64_t grain = team.size() > threads_ ? rows : 1 + kGrain / (y_row * std::max(h.taps, w.taps));
    team.ParallelFor(rows, grain, [&](int64_t begin, int64_t end, int thread) {
      float* tmp = scratch + thread * RowFloats(p);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t o = r % h.out;
        const float* plane = x + r / h.out * h.in * x_row;
        float* to = y + r * y_row;
        const float* row = tmp;
        if (h.identity) {
          row = plane + o * x_row;
        } else if (params_.mode == Mode::kNearest) {
          row = plane + h.index[static_cast<size_t>(o)] * x_row;
          if (r > begin && o > 0 && h.index[static_cast<size_t>(o)] == h.index[static_cast<size_t>(o - 1)]) {
            std::memcpy(to, to - y_row, static_cast<size_t>(y_row) * sizeof(float));
            continue;
          }
        } else {
          inner_->blend(plane, x_row, &h.index[static_cast<size_t>(o * h.taps)], &h.weight_f32[static_cast<size_t>(o * h.taps)],
                        h.taps, tmp, x_row);
        }
        Row(w, p.inner, shift, row, to);
      }
    });
  }

  void Row(const AxisTable& w, int64_t channels, int shift, const float* row, float* to) const {
    if (w.identity) {
      std::memcpy(to, row, static_cast<size_t>(w.in * channels) * sizeof(float));
    } else if (channels == 1 && params_.mode == Mode::kNearest) {
      if (shift > 0) {
        inner_->repeat(row, shift, to, w.out);
      } else {
        inner_->pick(row, w.index.data(), to, w.out);
      }
    } else if (channels == 1) {
      inner_->gather(row, w.in, w.index_by_tap.data(), w.weight_by_tap.data(), w.taps, to, w.out);
    } else {
      for (int64_t o = 0; o < w.out; ++o) {
        const auto at = static_cast<size_t>(o * w.taps);
        if (params_.mode == Mode::kNearest) {
          std::memcpy(to + o * channels, row + w.index[at] * channels, static_cast<size_t>(channels) * sizeof(float));
        } else {
          inner_->blend(row, channels, &w.index[at], &w.weight_f32[at], w.taps, to + o * channels, channels);
        }
      }
    }
  }

  // k when the axis repeats every element 2^k times, k in 1..3; else 0.
  int RepeatShift(const AxisTable& t) const {
    if (t.identity || params_.mode != Mode::kNearest) return 0;
    for (int shift = 1; shift <= 3; ++shift) {
      if (t.out != t.in << shift) continue;
      for (int64_t o = 0; o < t.out; ++o) {
        if (t.index[static_cast<size_t>(o)] != o >> shift) return 0;
      }
      return shift;
    }
    return 0;
  }

  ResizeParams params_;
  const ResizeInner* inner_;
  int threads_;
};

Result<std::unique_ptr<Kernel>> MakeWith(const Problem& problem, const ResizeInner* inner) {
  TENON_ASSIGN_OR_RETURN(ResizeParams params, ParseResize(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<ResizeKernel>(std::move(params), inner, problem.threads));
}
template <const ResizeInner* kInner>
Result<std::unique_ptr<Kernel>> MakeFast(const Problem& problem) {
  return MakeWith(problem, kInner);
}
// Picks elements of any type where they lie.
class NearestKernel final : public Kernel {
 public:
  explicit NearestKernel(ResizeParams params) : params_(std::move(params)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    Configured c;
    TENON_ASSIGN_OR_RETURN(c.state, PlanAhead(params_, in, out[0].shape));
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Shape shape, ResizedShape(params_, args.in));
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
    std::unique_ptr<Plan> fresh;
    TENON_ASSIGN_OR_RETURN(const Plan* plan, PlanOf(params_, args, shape, &fresh));
    Planes p;
    if (!FitPlanes(args.in[0].shape, *plan, &p)) return RunResizeReference(params_, *plan, args, y);
    if (y.num_elements() == 0) return {};
    movement::DispatchSize(movement::ElementSize(y.dtype), [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      Pick(p, static_cast<const T*>(args.in[0].data), static_cast<T*>(y.data), args.team);
    });
    return {};
  }

 private:
  template <typename T>
  static void Pick(const Planes& p, const T* x, T* y, hw::Team& team) {
    const AxisTable &h = *p.height, &w = *p.width;
    const int64_t x_row = w.in * p.inner, y_row = w.out * p.inner;
    team.ParallelFor(p.count * h.out, 1 + kGrain / y_row, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const auto o = static_cast<size_t>(r % h.out);
        T* to = y + r * y_row;
        if (!h.identity && r > begin && o > 0 && h.index[o] == h.index[o - 1]) {
          std::copy(to - y_row, to, to);
          continue;
        }
        const T* from = x + (r / h.out * h.in + (h.identity ? static_cast<int64_t>(o) : h.index[o])) * x_row;
        if (w.identity) {
          std::copy(from, from + x_row, to);
        } else if (p.inner == 1) {
          for (int64_t c = 0; c < w.out; ++c) to[c] = from[w.index[static_cast<size_t>(c)]];
        } else {
          for (int64_t c = 0; c < w.out; ++c) {
            const T* pixel = from + w.index[static_cast<size_t>(c)] * p.inner;
            std::copy(pixel, pixel + p.inner, to + c * p.inner);
          }
        }
      }
    });
  }

  ResizeParams params_;
};

// f32 has rows of its own.
Refusal CanNearest(const Problem& p) {
  const DType t = p.in[0].dtype;
  return t != DType::kF32 && p.attrs.String("mode", "nearest") == "nearest" ? CanResize(p) : kRefuseDType;
}
Result<std::unique_ptr<Kernel>> MakeNearest(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(ResizeParams params, ParseResize(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<NearestKernel>(std::move(params)));
}

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem) {
  return MakeWith(problem, nullptr);
}
constexpr auto MakeGrid = MakeParam<GridParams, ParseGrid, RunGridReference>;
constexpr auto MakeGridAvx2 = MakeParam<GridParams, ParseGrid, RunGridFast<&kResizeAvx2>>;
constexpr auto MakeGridAvx512 = MakeParam<GridParams, ParseGrid, RunGridFast<&kResizeAvx512>>;
constexpr auto MakeAffine = MakeParam<AffineParams, ParseAffine, RunAffineReference>;
constexpr auto MakeCrop = MakeParam<CropParams, ParseCrop, RunCropReference>;

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, isa, can, make) {group, {name, isa, can, make}},
#include "kernels/resize/kernels.inc"
#undef KERNEL
};

}  // namespace

Result<std::unique_ptr<Plan>> PlanAhead(const ResizeParams& params, std::span<const View> in, const Shape& out) {
  for (size_t i = 1; i < in.size(); ++i) {
    const bool used = i > 1 || params.transform == Transform::kTfCropAndResize;
    if (used && in[i].present() && in[i].num_elements() > 0 && in[i].data == nullptr) return std::unique_ptr<Plan>();
  }
  if (out.rank() != in[0].shape.rank()) return std::unique_ptr<Plan>();
  TENON_ASSIGN_OR_RETURN(const Shape shape, ResizedShape(params, in));
  return MakePlan(params, in, shape);
}

bool FitPlanes(const Shape& x, const Plan& plan, Planes* p) {
  if (plan.any_outside || x.rank() < 1) return false;
  static const AxisTable kOne = [] {
    AxisTable t;
    t.in = t.out = 1;
    return t;
  }();
  int first = x.rank() - 1, last = -1;
  for (int i = 0; i < x.rank(); ++i) {
    if (plan.axes[static_cast<size_t>(i)].identity) continue;
    first = std::min(first, i);
    last = i;
  }
  if (last > first + 1) return false;
  // One axis alone is the height when something stands behind it: then whole rows are blended.
  const bool row = first == x.rank() - 1;
  const int w = row ? first : first + 1;
  p->height = row ? &kOne : &plan.axes[static_cast<size_t>(first)];
  p->width = &plan.axes[static_cast<size_t>(w)];
  p->count = x.Product(0, first);
  p->inner = x.Product(w + 1, x.rank());
  return true;
}

std::span<const OpKernels> Operators() {
  static const std::vector<Row> resize = RowsOf(kTable, "Resize"), grid = RowsOf(kTable, "GridSample"),
                                affine = RowsOf(kTable, "AffineGrid"), crop = RowsOf(kTable, "CenterCropPad");
  static const OpKernels ops[] = {
      {"Resize", InferResize, resize, 1, 4},
      {"GridSample", InferGrid, grid, 2, 2},
      {"AffineGrid", InferAffine, affine, 2, 2},
      {"CenterCropPad", InferCrop, crop, 2, 2},
  };
  return ops;
}

}  // namespace tenon::kernels::resize
