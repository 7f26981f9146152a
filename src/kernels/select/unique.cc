// Unique: distinct elements, or distinct slices along an axis.
#include <algorithm>
#include <numeric>

#include "kernels/movement/element.h"
#include "kernels/select/internal.h"

namespace tenon::kernels::select {
namespace {

using movement::HasOutput;
using movement::PrepareOutput;
using movement::SetTensor;

// -1, 0, 1 for the elements at `a` and `b`; NaN are equal to each other and larger than all else, as in NumPy.
template <typename T>
int CompareElements(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return CompareElements(static_cast<float>(a), static_cast<float>(b));
  } else {
    if (a < b) return -1;
    if (b < a) return 1;
    if constexpr (std::is_floating_point_v<T>) return (a != a ? 1 : 0) - (b != b ? 1 : 0);
    return 0;
  }
}

// Slice i of `count` has elements base[(o * count + i) * inner + k] for o < outer, k < inner.
template <typename T>
struct Slices {
  const T* base;
  int64_t count, outer, inner;
  int Compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t k = 0; k < inner; ++k) {
        const int c = CompareElements(base[(o * count + a) * inner + k], base[(o * count + b) * inner + k]);
        if (c != 0) return c;
      }
    }
    return 0;
  }
};

struct Groups {
  std::vector<int64_t> first;    // first occurrence of each distinct slice, in output order
  std::vector<int64_t> inverse;  // group of each slice
  std::vector<int64_t> counts;
};

template <typename T>
Groups Group(const Slices<T>& slices, bool sorted) {
  const auto n = static_cast<size_t>(slices.count);
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slices.Compare(a, b) < 0; });
  Groups g;
  g.inverse.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (i == 0 || slices.Compare(order[i - 1], order[i]) != 0) {
      g.first.push_back(order[i]);
      g.counts.push_back(0);
    }
    g.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(g.first.size()) - 1;
    ++g.counts.back();
  }
  if (sorted) return g;
  // By first occurrence instead of by value.
  std::vector<size_t> by_first(g.first.size());
  std::iota(by_first.begin(), by_first.end(), size_t{0});
  std::sort(by_first.begin(), by_first.end(), [&](size_t a, size_t b) { return g.first[a] < g.first[b]; });
  Groups out;
  out.inverse = std::move(g.inverse);
  std::vector<int64_t> rank(g.first.size());
  for (size_t i = 0; i < by_first.size(); ++i) {
    rank[by_first[i]] = static_cast<int64_t>(i);
    out.first.push_back(g.first[by_first[i]]);
    out.counts.push_back(g.counts[by_first[i]]);
  }
  for (int64_t& i : out.inverse) i = rank[static_cast<size_t>(i)];
  return out;
}

Status StoreList(const RunArgs& args, size_t output, const std::vector<int64_t>& list) {
  if (!HasOutput(args, output)) return Status::Ok();
  TENON_RETURN_IF_ERROR(PrepareOutput(args, output, Shape({static_cast<int64_t>(list.size())})));
  std::copy(list.begin(), list.end(), args.out[output].Data<int64_t>());
  return Status::Ok();
}

class UniqueKernel final : public Kernel {
 public:
  explicit UniqueKernel(const Problem& p)
      : flat_(!p.attrs.Has("axis")), axis_(p.attrs.Int("axis", 0)), sorted_(p.attrs.Int("sorted", 1) != 0) {}

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const Shape in = flat_ ? Shape({x.num_elements()}) : x.shape;
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, in.rank()));
    Groups g;
    const bool known = DispatchDType<TENON_NUMERIC_TYPES, bool, std::string>(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      g = Group<T>({x.Data<T>(), in[axis], in.Product(0, axis), in.Product(axis + 1, in.rank())}, sorted_);
    });
    if (!known) return Unsupported("Unique of {}", DTypeName(x.dtype));
    if (HasOutput(args, 0)) {
      Shape shape = in;
      shape[axis] = static_cast<int64_t>(g.first.size());
      TENON_RETURN_IF_ERROR(PrepareOutput(args, 0, shape));
      const int64_t inner = in.Product(axis + 1, in.rank());
      const int size = movement::ElementSize(x.dtype);
      int64_t at = 0;
      for (int64_t o = 0; o < in.Product(0, axis); ++o) {
        for (int64_t i : g.first) {
          movement::CopyElements(movement::At(args.out[0].data, at * inner, size),
                                 movement::At(x.data, (o * in[axis] + i) * inner, size), inner, size);
          ++at;
        }
      }
    }
    TENON_RETURN_IF_ERROR(StoreList(args, 1, g.first));
    TENON_RETURN_IF_ERROR(StoreList(args, 2, g.inverse));
    return StoreList(args, 3, g.counts);
  }

 private:
  bool flat_;
  int64_t axis_;
  bool sorted_;
};

}  // namespace

Status InferUnique(const ShapeArgs& args) {
  const SymShape& x = args.in[0].shape;
  SymShape shape = x;
  Dim slices = x.NumElements();
  if (!args.attrs.Has("axis")) {
    shape = SymShape::OfRank(1);
  } else if (x.has_rank()) {
    auto axis = movement::NormalizeAxis(args.attrs.Int("axis", 0), x.rank());
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("Unique");
    slices = x[*axis];
    shape[*axis] = Dim::Unknown();
  }
  for (size_t i = 0; i < args.out.size(); ++i) {
    if (!args.out[i].present) continue;
    if (i == 0) {
      SetTensor(&args.out[i], args.in[0].dtype, shape);
    } else {
      SetTensor(&args.out[i], DType::kI64, SymShape({i == 2 ? slices : Dim::Unknown()}));
    }
  }
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeUnique(const Problem& p) {
  return movement::Make<UniqueKernel>(p);
}

}  // namespace tenon::kernels::select
