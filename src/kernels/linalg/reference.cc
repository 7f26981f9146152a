// Einsum as one loop over all labels, and determinants by elimination in double (the oracles).
#include <cmath>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/linalg/linalg.h"

namespace tenon::kernels::linalg {
namespace {

// Element offset of an operand per step of each label; 0 where it broadcasts.
std::array<int64_t, kMaxLabels> Strides(const std::vector<int>& axes, const Shape& shape) {
  std::array<int64_t, kMaxLabels> s{};
  int64_t step = 1;
  for (int a = shape.rank() - 1; a >= 0; --a) {
    if (shape[a] != 1) s[static_cast<size_t>(axes[static_cast<size_t>(a)])] += step;
    step *= shape[a];
  }
  return s;
}

// Integers multiply and add as unsigned words, so that they wrap; floats in double.
template <typename T>
using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

template <typename T>
Wide<T> Widen(T v) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(v);
  } else if constexpr (std::is_same_v<T, double>) {
    return v;
  } else {
    return static_cast<double>(static_cast<float>(v));
  }
}

template <typename T>
T Narrow(Wide<T> v) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) {
    return static_cast<T>(v);
  } else {
    return T(static_cast<float>(v));
  }
}

template <typename T>
void Contract(const Labels& labels, const std::array<int64_t, kMaxLabels>& extents, std::span<const View> in, MutView& out) {
  std::vector<int> order = labels.output;
  for (int l = 0; l < labels.count; ++l) {
    if (std::find(order.begin(), order.end(), l) == order.end()) order.push_back(l);
  }
  std::vector<std::array<int64_t, kMaxLabels>> strides;
  for (size_t i = 0; i < in.size(); ++i) strides.push_back(Strides(labels.terms[i], in[i].shape));
  int64_t outer = 1, inner = 1;
  for (size_t k = 0; k < order.size(); ++k) (k < labels.output.size() ? outer : inner) *= extents[static_cast<size_t>(order[k])];
  std::vector<int64_t> at(order.size(), 0);
  for (int64_t o = 0; o < outer; ++o) {
    Wide<T> sum = 0;
    for (int64_t n = 0; n < inner; ++n) {
      Wide<T> product = 1;
      for (size_t i = 0; i < in.size(); ++i) {
        int64_t offset = 0;
        for (size_t k = 0; k < order.size(); ++k) offset += at[k] * strides[i][static_cast<size_t>(order[k])];
        product *= Widen(in[i].Data<T>()[offset]);
      }
      sum += product;
      for (size_t k = order.size(); k-- > 0 && ++at[k] == extents[static_cast<size_t>(order[k])];) at[k] = 0;
    }
    if (inner == 0) {
      for (size_t k = labels.output.size(); k-- > 0 && ++at[k] == extents[static_cast<size_t>(order[k])];) at[k] = 0;
    }
    out.Data<T>()[o] = Narrow<T>(sum);
  }
}

class EinsumReference final : public Kernel {
 public:
  explicit EinsumReference(Equation e) : equation_(std::move(e)) {}
  Status Run(const RunArgs& args) const override {
    std::vector<int> ranks;
    for (const View& v : args.in) ranks.push_back(v.shape.rank());
    TENON_ASSIGN_OR_RETURN(const Labels labels, NumberLabels(equation_, ranks));
    TENON_ASSIGN_OR_RETURN(const auto extents, Extents(labels, args.in));
    const bool known = DispatchDType<TENON_NUMERIC_TYPES>(
        args.in[0].dtype, [&](auto tag) { Contract<typename decltype(tag)::type>(labels, extents, args.in, args.out[0]); });
    return known ? Status::Ok() : Unsupported("Einsum of {}", DTypeName(args.in[0].dtype));
  }

 private:
  Equation equation_;
};

double Determinant(std::vector<double>& a, int64_t m) {
  double det = 1;
  const auto at = [&](int64_t i, int64_t j) -> double& { return a[static_cast<size_t>(i * m + j)]; };
  for (int64_t c = 0; c < m; ++c) {
    int64_t pivot = c;
    for (int64_t i = c + 1; i < m; ++i) {
      if (std::abs(at(i, c)) > std::abs(at(pivot, c))) pivot = i;
    }
    if (at(pivot, c) == 0) return 0;
    if (pivot != c) {
      for (int64_t j = 0; j < m; ++j) std::swap(at(pivot, j), at(c, j));
      det = -det;
    }
    det *= at(c, c);
    for (int64_t i = c + 1; i < m; ++i) {
      const double f = at(i, c) / at(c, c);
      for (int64_t j = c; j < m; ++j) at(i, j) -= f * at(c, j);
    }
  }
  return det;
}

class DetKernel final : public Kernel {
 public:
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t m = x.shape.dim(-1);
    std::vector<double> a(static_cast<size_t>(m * m));
    for (int64_t b = 0; b < args.out[0].num_elements(); ++b) {
      for (int64_t i = 0; i < m * m; ++i) a[static_cast<size_t>(i)] = LoadDouble(x.dtype, x.data, b * m * m + i);
      StoreDouble(x.dtype, args.out[0].data, b, Determinant(a, m));
    }
    return {};
  }
};

}  // namespace

Status InferDet(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && !IsPlainFloat(t)) return BadInput("X is {}; a float type needed", DTypeName(t));
  const SymShape& x = args.in[0].shape;
  if (!x.has_rank()) {
    SetOutput(args, 0, t, SymShape());
    return {};
  }
  const int r = x.rank();
  if (r < 2 || (x[r - 1].is_const() && x[r - 2].is_const() && !(x[r - 1] == x[r - 2]))) {
    return BadInput("X has shape {}; square matrices on the last two axes needed", x.ToString());
  }
  SetOutput(args, 0, t, SymShape(std::vector<Dim>(x.dims().begin(), x.dims().end() - 2)));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeEinsumReference(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Equation e, ParseEquation(p.attrs.String("equation", ""), p.in.size()));
  return std::unique_ptr<Kernel>(new EinsumReference(std::move(e)));
}

Result<std::unique_ptr<Kernel>> MakeDet(const Problem& /*p*/) {
  return std::unique_ptr<Kernel>(new DetKernel());
}

}  // namespace tenon::kernels::linalg
