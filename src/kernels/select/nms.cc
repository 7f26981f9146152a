// NonMaxSuppression.
#include <algorithm>

#include "kernels/movement/element.h"
#include "kernels/select/internal.h"

namespace tenon::kernels::select {
namespace {

struct Box {
  float y1, x1, y2, x2;
  float Area() const { return (y2 - y1) * (x2 - x1); }
};

// Corners in order, whichever way the model gave them.
Box ReadBox(const float* b, bool center) {
  if (center) {  // x, y, width, height
    const float w = b[2] / 2;
    const float h = b[3] / 2;
    return {std::min(b[1] - h, b[1] + h), std::min(b[0] - w, b[0] + w), std::max(b[1] - h, b[1] + h),
            std::max(b[0] - w, b[0] + w)};
  }
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

bool Overlaps(const Box& a, const Box& b, float threshold) {
  const float h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (!(h > 0) || !(w > 0)) return false;
  const float area_a = a.Area();
  const float area_b = b.Area();
  if (!(area_a > 0) || !(area_b > 0)) return false;
  const float common = h * w;
  return common / (area_a + area_b - common) > threshold;
}

struct Candidate {
  float score;
  int64_t box;
};

struct Limits {
  int64_t most = 0;  // boxes a class
  float iou = 0;
  float score = 0;
  bool has_score = false;
};

template <typename T>
Result<T> Scalar(const RunArgs& args, size_t i, T fallback) {
  if (!args.Has(i)) return fallback;
  const View& v = args.in[i];
  if (v.dtype != DTypeOf<T>::value || v.num_elements() != 1) {
    return BadInput("NonMaxSuppression: input {} must be one {}, not {} of shape {}", i, DTypeName(DTypeOf<T>::value),
                    DTypeName(v.dtype), v.shape.ToString());
  }
  return *v.Data<T>();
}

Result<Limits> ReadLimits(const RunArgs& args, int64_t boxes) {
  Limits l;
  TENON_ASSIGN_OR_RETURN(const int64_t most, Scalar<int64_t>(args, 2, 0));
  l.most = std::clamp<int64_t>(most, 0, boxes);
  TENON_ASSIGN_OR_RETURN(l.iou, Scalar<float>(args, 3, 0));
  if (!(l.iou >= 0 && l.iou <= 1)) return BadInput("NonMaxSuppression: iou_threshold {} is outside [0, 1]", l.iou);
  l.has_score = args.Has(4);
  TENON_ASSIGN_OR_RETURN(l.score, Scalar<float>(args, 4, 0));
  return l;
}

class NmsKernel final : public Kernel {
 public:
  explicit NmsKernel(const Problem& p) : center_(p.attrs.Int("center_point_box", 0) != 0) {}

  Status Run(const RunArgs& args) const override {
    const View& boxes = args.in[0];
    const View& scores = args.in[1];
    const Shape& b = boxes.shape;
    const Shape& s = scores.shape;
    if (boxes.dtype != DType::kF32 || scores.dtype != DType::kF32)
      return BadInput("NonMaxSuppression: boxes and scores must be float32");
    if (b.rank() != 3 || s.rank() != 3 || b[2] != 4 || b[0] != s[0] || b[1] != s[2]) {
      return BadInput(
          "NonMaxSuppression: boxes of shape {} and scores of shape {}; allowed are [batch, n, 4] and [batch, classes, n]",
          b.ToString(), s.ToString());
    }
    TENON_ASSIGN_OR_RETURN(const Limits limits, ReadLimits(args, b[1]));
    std::vector<int64_t> selected;
    std::vector<Box> normal(static_cast<size_t>(b[1]));
    std::vector<Candidate> candidates;
    for (int64_t batch = 0; batch < b[0] && limits.most > 0; ++batch) {
      for (int64_t i = 0; i < b[1]; ++i) {
        normal[static_cast<size_t>(i)] = ReadBox(boxes.Data<float>() + (batch * b[1] + i) * 4, center_);
      }
      for (int64_t c = 0; c < s[1]; ++c) {
        const float* score = scores.Data<float>() + (batch * s[1] + c) * s[2];
        candidates.clear();
        for (int64_t i = 0; i < s[2]; ++i) {
          // A NaN is no score: it would break the order below.
          if (score[i] == score[i] && (!limits.has_score || score[i] > limits.score)) candidates.push_back({score[i], i});
        }
        SelectClass(normal, limits, batch, c, &candidates, &selected);
      }
    }
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, Shape({static_cast<int64_t>(selected.size()) / 3, 3})));
    std::copy(selected.begin(), selected.end(), args.out[0].Data<int64_t>());
    return Status::Ok();
  }

 private:
  static void SelectClass(const std::vector<Box>& boxes, const Limits& limits, int64_t batch, int64_t c,
                          std::vector<Candidate>* candidates, std::vector<int64_t>* selected) {
    std::sort(candidates->begin(), candidates->end(),
              [](const Candidate& x, const Candidate& y) { return x.score > y.score || (x.score == y.score && x.box < y.box); });
    const size_t begin = selected->size();
    for (const Candidate& candidate : *candidates) {
      if (static_cast<int64_t>(selected->size() - begin) / 3 >= limits.most) return;
      const Box& box = boxes[static_cast<size_t>(candidate.box)];
      bool keep = true;
      for (size_t k = begin + 2; keep && k < selected->size(); k += 3) {
        keep = !Overlaps(box, boxes[static_cast<size_t>((*selected)[k])], limits.iou);
      }
      if (keep) selected->insert(selected->end(), {batch, c, candidate.box});
    }
  }

  bool center_;
};

}  // namespace

Status InferNonMaxSuppression(const ShapeArgs& args) {
  for (size_t i = 0; i < 2; ++i) {
    const SymShape& s = args.in[i].shape;
    if (s.has_rank() && s.rank() != 3) return BadInput("NonMaxSuppression: input {} has rank {}, not 3", i, s.rank());
    if (args.in[i].dtype != DType::kUndefined && args.in[i].dtype != DType::kF32) {
      return BadInput("NonMaxSuppression: input {} must be float32, not {}", i, DTypeName(args.in[i].dtype));
    }
  }
  movement::SetTensor(&args.out[0], DType::kI64, SymShape({Dim::Unknown(), Dim(3)}));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeNonMaxSuppression(const Problem& p) {
  return movement::Make<NmsKernel>(p);
}

}  // namespace tenon::kernels::select
