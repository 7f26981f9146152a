// Einsum in f32 as a chain of pairwise contractions, each a batch of matrix products: operands are laid out as [batch, m, k] and
// [batch, k, n] where they are not already, and the library of gemm/ does the sums. Planned once per shape.
#include <algorithm>
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "kernels/kernel_util.h"
#include "kernels/linalg/linalg.h"

namespace tenon::kernels::linalg {
namespace {

using LabelList = std::vector<int>;
using ExtentArray = std::array<int64_t, kMaxLabels>;

bool Contains(const LabelList& list, int label) {
  return std::find(list.begin(), list.end(), label) != list.end();
}

int64_t Count(const LabelList& list, const ExtentArray& extents) {
  int64_t n = 1;
  for (int l : list) n *= extents[static_cast<size_t>(l)];
  return n;
}

// A strided walk over some labels of an operand, outermost first; neighbours that lie together are merged.
struct Walk {
  struct Axis {
    int64_t extent, stride;
  };
  std::vector<Axis> axes;

  void Add(int64_t extent, int64_t stride) {
    if (extent == 1) return;
    if (!axes.empty() && axes.back().stride == extent * stride) {
      axes.back() = {axes.back().extent * extent, stride};
    } else {
      axes.push_back({extent, stride});
    }
  }
  bool Dense() const { return axes.empty() || (axes.size() == 1 && axes[0].stride == 1); }
};

// Copies the walk's elements one after the other; returns the end of what was written.
float* Gather(const Walk& w, size_t axis, const float* from, float* to) {
  if (axis == w.axes.size()) {
    *to = *from;
    return to + 1;
  }
  const Walk::Axis& a = w.axes[axis];
  if (axis + 1 == w.axes.size()) {
    if (a.stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(a.extent) * sizeof(float));
    } else {
      for (int64_t i = 0; i < a.extent; ++i) to[i] = from[i * a.stride];
    }
    return to + a.extent;
  }
  for (int64_t i = 0; i < a.extent; ++i) to = Gather(w, axis + 1, from + i * a.stride, to);
  return to;
}

// Sum of the walk's elements.
float Sum(const Walk& w, size_t axis, const float* from) {
  if (axis == w.axes.size()) return *from;
  float sum = 0;
  const Walk::Axis& a = w.axes[axis];
  for (int64_t i = 0; i < a.extent; ++i) sum += Sum(w, axis + 1, from + i * a.stride);
  return sum;
}

// out[i] = sum over the inner walk of the element at each place of the outer walk.
float* Reduce(const Walk& outer, size_t axis, const Walk& inner, const float* from, float* to) {
  if (axis == outer.axes.size()) {
    *to = Sum(inner, 0, from);
    return to + 1;
  }
  const Walk::Axis& a = outer.axes[axis];
  for (int64_t i = 0; i < a.extent; ++i) to = Reduce(outer, axis + 1, inner, from + i * a.stride, to);
  return to;
}

// A value during the contraction: an input (source >= 0) or a temporary at `offset` floats of the scratch.
struct Operand {
  int source = -1;
  int64_t offset = 0;
  LabelList labels;              // distinct, only those with an extent above 1
  std::vector<int64_t> strides;  // of each label

  int64_t Stride(int label) const {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == label) return strides[i];
    }
    return 0;
  }
};

// Lay out `from` in the order of some labels, summing over others.
struct Arrange {
  Operand from;
  Walk keep, sum;
  bool direct = false;  // already in place: use from's data
  int64_t to = 0;       // floats into the scratch; kToOutput for the result
};

struct Product {
  int64_t batch, m, n, k;
  size_t a, b;  // arrangements
  int64_t to;
  int64_t packed;  // per thread
};

constexpr int64_t kToOutput = -1;

struct Plan final : ShapeState {
  struct Step {
    bool product;
    size_t index;
  };
  std::vector<Step> steps;
  std::vector<Arrange> arranges;
  std::vector<Product> products;
  int64_t floats = 0;
};

class Planner {
 public:
  Planner(const Labels& labels, const ExtentArray& extents, std::span<const View> in, const gemm::MicroKernels& kernels,
          int threads)
      : labels_(labels), extents_(extents), in_(in), kernels_(kernels), threads_(threads), plan_(new Plan) {}

  std::unique_ptr<Plan> Build() {
    Operand acc = Input(0);
    for (size_t i = 1; i < in_.size(); ++i) acc = Contract(acc, Input(i), i);
    AddArrange(acc, labels_.output, kToOutput);
    return std::move(plan_);
  }

 private:
  int64_t Take(int64_t floats) {
    const int64_t at = plan_->floats;
    plan_->floats += (std::max<int64_t>(floats, 1) + 15) / 16 * 16;
    return at;
  }

  // Repeated labels become one with the strides added (a diagonal); extents of 1 vanish (they broadcast).
  Operand Input(size_t i) const {
    Operand o;
    o.source = static_cast<int>(i);
    int64_t step = 1;
    for (int a = in_[i].shape.rank() - 1; a >= 0; --a) {
      const int label = labels_.terms[i][static_cast<size_t>(a)];
      if (in_[i].shape[a] != 1) {
        auto it = std::find(o.labels.begin(), o.labels.end(), label);
        if (it == o.labels.end()) {
          o.labels.push_back(label);
          o.strides.push_back(step);
        } else {
          o.strides[static_cast<size_t>(it - o.labels.begin())] += step;
        }
      }
      step *= in_[i].shape[a];
    }
    std::reverse(o.labels.begin(), o.labels.end());
    std::reverse(o.strides.begin(), o.strides.end());
    return o;
  }

  // Whether a label is still needed after operand `i` was taken in.
  bool Needed(int label, size_t i) const {
    if (Contains(labels_.output, label)) return true;
    for (size_t k = i + 1; k < labels_.terms.size(); ++k) {
      if (Contains(labels_.terms[k], label)) return true;
    }
    return false;
  }

  size_t AddArrange(const Operand& from, const LabelList& order, int64_t to) {
    Arrange a;
    a.from = from;
    for (int l : order) a.keep.Add(extents_[static_cast<size_t>(l)], from.Stride(l));
    for (int l : from.labels) {
      if (!Contains(order, l)) a.sum.Add(extents_[static_cast<size_t>(l)], from.Stride(l));
    }
    a.to = to;
    if (to != kToOutput) {
      a.direct = a.sum.axes.empty() && a.keep.Dense();
      if (!a.direct) a.to = Take(Count(order, extents_));
    }
    plan_->steps.push_back({false, plan_->arranges.size()});
    plan_->arranges.push_back(std::move(a));
    return plan_->arranges.size() - 1;
  }

  Operand Contract(const Operand& a, const Operand& b, size_t i) {
    LabelList batch, m, n, k;
    for (int l : a.labels) {
      if (Contains(b.labels, l)) {
        (Needed(l, i) ? batch : k).push_back(l);
      } else if (Needed(l, i)) {
        m.push_back(l);
      }
    }
    for (int l : b.labels) {
      if (!Contains(a.labels, l) && Needed(l, i)) n.push_back(l);
    }
    const auto join = [](std::initializer_list<const LabelList*> lists) {
      LabelList out;
      for (const LabelList* l : lists) out.insert(out.end(), l->begin(), l->end());
      return out;
    };
    Product p;
    p.batch = Count(batch, extents_);
    p.m = Count(m, extents_);
    p.n = Count(n, extents_);
    p.k = Count(k, extents_);
    p.a = AddArrange(a, join({&batch, &m, &k}), 0);
    // A matrix of one row or column lies the same either way; the product of two vectors wants both along k.
    p.b = AddArrange(b, p.m == 1 && p.n == 1 ? join({&batch, &k}) : join({&batch, &k, &n}), 0);
    p.packed = Take(gemm::PackedFloats(kernels_, p.k, p.n) * threads_);
    p.to = Take(p.batch * p.m * p.n);
    plan_->steps.push_back({true, plan_->products.size()});
    plan_->products.push_back(p);
    Operand out;
    out.offset = p.to;
    out.labels = join({&batch, &m, &n});
    out.strides.resize(out.labels.size());
    int64_t step = 1;
    for (size_t j = out.labels.size(); j-- > 0;) {
      out.strides[j] = step;
      step *= extents_[static_cast<size_t>(out.labels[j])];
    }
    return out;
  }

  const Labels& labels_;
  const ExtentArray& extents_;
  std::span<const View> in_;
  const gemm::MicroKernels& kernels_;
  int threads_;
  std::unique_ptr<Plan> plan_;
};

class EinsumF32 final : public Kernel {
 public:
  EinsumF32(Equation e, hw::IsaMask isa, int threads) : equation_(std::move(e)), kernels_(gemm::Select(isa)), threads_(threads) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    std::vector<int> ranks;
    for (const View& v : in) ranks.push_back(v.shape.rank());
    TENON_ASSIGN_OR_RETURN(const Labels labels, NumberLabels(equation_, ranks));
    TENON_ASSIGN_OR_RETURN(const ExtentArray extents, Extents(labels, in));
    Configured c;
    auto plan = Planner(labels, extents, in, kernels_, threads_).Build();
    c.scratch_bytes = static_cast<size_t>(plan->floats) * sizeof(float);
    c.state = std::move(plan);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const auto& plan = *static_cast<const Plan*>(args.state);
    auto* scratch = reinterpret_cast<float*>(args.scratch);
    if (args.out[0].num_elements() == 0) return {};
    for (const View& v : args.in) {
      if (v.num_elements() == 0) {  // a sum over nothing
        std::memset(args.out[0].data, 0, args.out[0].bytes());
        return {};
      }
    }
    const auto data = [&](const Operand& o) {
      return o.source >= 0 ? args.in[static_cast<size_t>(o.source)].Data<float>() : scratch + o.offset;
    };
    const auto arranged = [&](size_t i) -> const float* {
      const Arrange& a = plan.arranges[i];
      return a.direct ? data(a.from) : scratch + a.to;
    };
    for (const Plan::Step& step : plan.steps) {
      if (step.product) {
        const Product& p = plan.products[step.index];
        Multiply(p, arranged(p.a), arranged(p.b), scratch + p.to, scratch + p.packed, args.team);
        continue;
      }
      const Arrange& a = plan.arranges[step.index];
      if (a.direct) continue;
      float* to = a.to == kToOutput ? args.out[0].Data<float>() : scratch + a.to;
      if (a.sum.axes.empty()) {
        Gather(a.keep, 0, data(a.from), to);
      } else {
        Reduce(a.keep, 0, a.sum, data(a.from), to);
      }
    }
    return {};
  }

 private:
  void Multiply(const Product& p, const float* a, const float* b, float* c, float* packed, hw::Team& team) const {
    if (p.m == 1 && p.n == 1) {
      for (int64_t i = 0; i < p.batch; ++i) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < p.k; ++j) sum += a[i * p.k + j] * b[i * p.k + j];
        c[i] = sum;
      }
      return;
    }
    const auto one = [&](int64_t i, float* to) {
      gemm::Pack(kernels_, b + i * p.k * p.n, p.k, p.n, p.n, 1, 1.0f, to);
      gemm::Gemm g;
      g.m = p.m;
      g.n = p.n;
      g.k = p.k;
      g.a = a + i * p.m * p.k;
      g.a_stride = p.k;
      g.b = to;
      g.c = c + i * p.m * p.n;
      g.c_stride = p.n;
      return g;
    };
    const int64_t panel = gemm::PackedFloats(kernels_, p.k, p.n);
    if (p.batch == 1 || team.size() > threads_) {
      for (int64_t i = 0; i < p.batch; ++i) gemm::RunParallel(kernels_, one(i, packed), team);
      return;
    }
    const int64_t grain = std::max<int64_t>(1, 20000 / std::max<int64_t>(1, p.m * p.n * p.k));
    team.ParallelFor(p.batch, grain, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) gemm::Run(kernels_, one(i, packed + panel * thread));
    });
  }

  Equation equation_;
  const gemm::MicroKernels& kernels_;
  int threads_;
};

}  // namespace

Refusal CanEinsumF32(const Problem& p) {
  return RequireF32(p);
}

Result<std::unique_ptr<Kernel>> MakeEinsumF32(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Equation e, ParseEquation(p.attrs.String("equation", ""), p.in.size()));
  return std::unique_ptr<Kernel>(new EinsumF32(std::move(e), p.isa, std::max(1, p.threads)));
}

}  // namespace tenon::kernels::linalg
