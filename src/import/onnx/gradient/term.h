// Values of a graph under construction with the signs of arithmetic, so that a derivative reads as its formula.
#ifndef TENON_IMPORT_ONNX_GRADIENT_TERM_H_
#define TENON_IMPORT_ONNX_GRADIENT_TERM_H_

#include <vector>

#include "import/onnx/emit.h"

namespace tenon::import::onnx_format::gradient {

using ir::ValueId;

struct Term {
  Builder* b = nullptr;
  ValueId id = ir::kNone;
};

inline Term Call(const char* op, std::vector<Term> inputs, Attrs attrs = {}) {
  std::vector<ValueId> ids;
  for (const Term& t : inputs) ids.push_back(t.id);
  return {inputs[0].b, inputs[0].b->Emit(op, std::move(ids), std::move(attrs))};
}
inline Term Call(const char* op, Term x) {
  return Call(op, std::vector<Term>{x});
}
inline Term Scalar(Term like, double value) {
  return {like.b, like.b->ScalarLike(value, like.id)};
}

inline Term operator+(Term x, Term y) {
  return Call("Add", {x, y});
}
inline Term operator-(Term x, Term y) {
  return Call("Sub", {x, y});
}
inline Term operator*(Term x, Term y) {
  return Call("Mul", {x, y});
}
inline Term operator/(Term x, Term y) {
  return Call("Div", {x, y});
}
inline Term operator-(Term x) {
  return Call("Neg", x);
}
inline Term operator+(Term x, double c) {
  return x + Scalar(x, c);
}
inline Term operator*(Term x, double c) {
  return c == 1 ? x : x * Scalar(x, c);
}
inline Term operator/(Term x, double c) {
  return x / Scalar(x, c);
}
inline Term operator-(double c, Term x) {
  return Scalar(x, c) - x;
}
inline Term operator/(double c, Term x) {
  return Scalar(x, c) / x;
}
/// Element by element: bool.
inline Term Less(Term x, Term y) {
  return Call("Less", {x, y});
}
inline Term Less(Term x, double c) {
  return Less(x, Scalar(x, c));
}
inline Term Less(double c, Term x) {
  return Less(Scalar(x, c), x);
}
inline Term Equal(Term x, Term y) {
  return Call("Equal", {x, y});
}
inline Term And(Term x, Term y) {
  return Call("And", {x, y});
}
inline Term Select(Term condition, Term x, Term y) {
  return Call("Where", {condition, x, y});
}

/// 1 and 0 of x's type for true and false.
inline Term Count(Term condition, Term x) {
  return Call("CastLike", {condition, x});
}
inline Term ShapeOf(Term x) {
  return Call("Shape", x);
}
/// x in the shape of `like`, with as many elements.
Term ReshapeLike(Term x, Term like);
/// g summed over the axes along which `x` was broadcast to its shape.
Term ReduceLike(Term g, Term x);
Term ReduceSum(Term x, std::vector<int64_t> axes, bool keepdims);

}  // namespace tenon::import::onnx_format::gradient

#endif  // TENON_IMPORT_ONNX_GRADIENT_TERM_H_
