// Short-hands for tests of operators that move elements.
#ifndef TENON_KERNELS_MOVEMENT_TESTING_H_
#define TENON_KERNELS_MOVEMENT_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/kernel.h"

namespace tenon::kernels::testing {

inline Tensor I64(std::vector<int64_t> v) {
  return Tensor::FromVector<int64_t>(Shape({static_cast<int64_t>(v.size())}), v);
}
template <typename T>
Tensor Of(std::initializer_list<int64_t> shape, const std::vector<T>& v) {
  return Tensor::FromVector<T>(Shape(shape), v);
}
/// 0, 1, 2, ... as T.
template <typename T = float>
Tensor Iota(const Shape& shape) {
  std::vector<T> v(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(i);
  return Tensor::FromVector<T>(shape, v);
}
template <typename T>
std::vector<T> Values(const Tensor& t) {
  EXPECT_EQ(t.dtype(), DTypeOf<T>::value);
  if (t.dtype() != DTypeOf<T>::value) return {};
  return std::vector<T>(t.Data<T>(), t.Data<T>() + t.shape().num_elements());
}

/// An undefined tensor stands for an absent input.
inline Result<std::vector<Tensor>> TryEval(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& in,
                                           int outputs = 1, std::string_view row = {}, int threads = 2) {
  std::vector<View> views;
  for (const Tensor& t : in) views.push_back(t.defined() ? t.view() : View{});
  hw::Team team(threads);
  return Evaluate(op, attrs, views, outputs, hw::DetectIsa(), team, row);
}

inline std::vector<Tensor> Eval(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& in, int outputs = 1,
                                std::string_view row = {}) {
  auto r = TryEval(op, attrs, in, outputs, row);
  EXPECT_TRUE(r.ok()) << op << ": " << r.status().message();
  if (!r.ok()) return std::vector<Tensor>(static_cast<size_t>(outputs));
  return *std::move(r);
}

/// The attributes named one after another.
inline Attrs A() {
  return {};
}
template <typename V, typename... Rest>
Attrs A(std::string name, V value, Rest... rest) {
  Attrs a = A(rest...);
  if constexpr (std::is_integral_v<V>) {
    a.Set(std::move(name), static_cast<int64_t>(value));
  } else {
    a.Set(std::move(name), AttrValue(std::move(value)));
  }
  return a;
}

/// What a rule sees of a value with symbolic extents.
inline ValueInfo Sym(DType dtype, std::vector<Dim> dims) {
  ValueInfo v;
  v.dtype = dtype;
  v.present = true;
  v.shape = SymShape(std::move(dims));
  return v;
}
inline ValueInfo Symbols(std::vector<Dim> elements) {
  ValueInfo v = Sym(DType::kI64, {Dim(static_cast<int64_t>(elements.size()))});
  v.elements = std::move(elements);
  return v;
}

inline std::vector<ValueInfo> Infer(std::string_view op, const Attrs& attrs, const std::vector<ValueInfo>& in,
                                    size_t outputs = 1) {
  std::vector<ValueInfo> out(outputs);
  for (auto& o : out) o.present = true;
  const Status s = InferShapes(op, {attrs, in, out});
  EXPECT_TRUE(s.ok()) << op << ": " << s.message();
  return out;
}

inline std::string ElementText(const ValueInfo& v) {
  return v.elements ? SymShape(*v.elements).ToString() : std::string("unknown");
}

#define EXPECT_BAD_INPUT(result, text)                                            \
  do {                                                                            \
    const auto& bad_input_result = (result);                                      \
    EXPECT_EQ(bad_input_result.status().code(), Code::kBadInput);                 \
    EXPECT_THAT(bad_input_result.status().message(), ::testing::HasSubstr(text)); \
  } while (0)

}  // namespace tenon::kernels::testing

#endif  // TENON_KERNELS_MOVEMENT_TESTING_H_
