// Functions of one operand, element by element: dx = g * slope, with the slope said by x and y.
#include <cmath>
#include <numbers>

#include "import/onnx/gradient/gradient.h"

namespace tenon::import::onnx_format::gradient {

namespace {

Term One(Term like) {
  return Scalar(like, 1);
}
Term Zero(Term like) {
  return Scalar(like, 0);
}
Term Square(Term x) {
  return x * x;
}

}  // namespace

#define SLOPE(op, slope)                                 \
  Status op##Gradient(Backward* s) {                     \
    [[maybe_unused]] const Term x = s->X(0), y = s->Y(); \
    [[maybe_unused]] const Attrs& a = s->attrs();        \
    s->Set(0, s->G() * (slope));                         \
    return Status::Ok();                                 \
  }

SLOPE(Abs, Call("Sign", x))
SLOPE(Acos, -1.0 / Call("Sqrt", 1 - Square(x)))
SLOPE(Acosh, 1 / Call("Sqrt", Square(x) + -1.0))
SLOPE(Asin, 1 / Call("Sqrt", 1 - Square(x)))
SLOPE(Asinh, 1 / Call("Sqrt", Square(x) + 1))
SLOPE(Atan, 1 / (Square(x) + 1))
SLOPE(Atanh, 1 / (1 - Square(x)))
SLOPE(Celu, Select(Less(x, 0.0), Call("Exp", x / a.Float("alpha", 1)), One(x)))
SLOPE(Cos, -Call("Sin", x))
SLOPE(Cosh, Call("Sinh", x))
SLOPE(Elu, Select(Less(x, 0.0), y + a.Float("alpha", 1), One(x)))
SLOPE(Erf, Call("Exp", -Square(x)) * (2 * std::numbers::inv_sqrtpi))
SLOPE(Exp, y)
SLOPE(HardSigmoid, Select(And(Less(0.0, y), Less(y, 1.0)), Scalar(x, a.Float("alpha", 0.2F)), Zero(x)))
SLOPE(LeakyRelu, Select(Less(x, 0.0), Scalar(x, a.Float("alpha", 0.01F)), One(x)))
SLOPE(Log, Call("Reciprocal", x))
SLOPE(Reciprocal, -Square(y))
SLOPE(Relu, Select(Less(0.0, x), One(x), Zero(x)))
SLOPE(Selu, Select(Less(0.0, x), Scalar(x, a.Float("gamma", 1.05070102214813232F)),
                   y + a.Float("gamma", 1.05070102214813232F) * a.Float("alpha", 1.67326319217681884F)))
SLOPE(Sigmoid, y * (1 - y))
SLOPE(Sin, Call("Cos", x))
SLOPE(Sinh, Call("Cosh", x))
SLOPE(Softplus, Call("Sigmoid", x))
SLOPE(Softsign, Square(Call("Reciprocal", Call("Abs", x) + 1)))
SLOPE(Sqrt, 0.5 / y)
SLOPE(Tan, Square(y) + 1)
SLOPE(Tanh, 1 - Square(y))
SLOPE(ThresholdedRelu, Select(Less(a.Float("alpha", 1), x), One(x), Zero(x)))

#undef SLOPE

Status NegGradient(Backward* s) {
  s->Set(0, -s->G());
  return Status::Ok();
}

Status ZeroGradient(Backward* /*s*/) {
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format::gradient
