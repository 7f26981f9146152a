#include "kernels/elementwise/ops.h"

namespace tenon::kernels::elementwise {
namespace {

// A parameter that comes from an attribute; no name: `fallback` always.
struct Parameter {
  const char* attribute = nullptr;
  float fallback = 0;
};

struct UnaryRow {
  std::string_view name;
  UnaryOp op;
  Parameter p0{};
  Parameter p1{};
};

constexpr UnaryRow kUnary[] = {
    {"Abs", UnaryOp::kAbs},
    {"Acos", UnaryOp::kAcos},
    {"Acosh", UnaryOp::kAcosh},
    {"Asin", UnaryOp::kAsin},
    {"Asinh", UnaryOp::kAsinh},
    {"Atan", UnaryOp::kAtan},
    {"Atanh", UnaryOp::kAtanh},
    {"BitwiseNot", UnaryOp::kBitwiseNot},
    {"Ceil", UnaryOp::kCeil},
    {"Celu", UnaryOp::kCelu, {"alpha", 1.0f}},
    {"Clip", UnaryOp::kClip},
    {"Cos", UnaryOp::kCos},
    {"Cosh", UnaryOp::kCosh},
    {"Elu", UnaryOp::kElu, {"alpha", 1.0f}},
    {"Erf", UnaryOp::kErf},
    {"Exp", UnaryOp::kExp},
    {"Floor", UnaryOp::kFloor},
    {"HardSigmoid", UnaryOp::kHardSigmoid, {"alpha", 0.2f}, {"beta", 0.5f}},
    {"HardSwish", UnaryOp::kHardSwish},
    {"LeakyRelu", UnaryOp::kLeakyRelu, {"alpha", 0.01f}},
    {"Log", UnaryOp::kLog},
    {"IsNaN", UnaryOp::kIsNaN},
    {"Mish", UnaryOp::kMish},
    {"Neg", UnaryOp::kNeg},
    {"Not", UnaryOp::kNot},
    {"QuickGelu", UnaryOp::kSwish, {"alpha", 1.702f}},
    {"Reciprocal", UnaryOp::kReciprocal},
    {"Relu", UnaryOp::kRelu},
    {"Round", UnaryOp::kRound},
    {"Selu", UnaryOp::kSelu, {"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}},
    {"Shrink", UnaryOp::kShrink, {"lambd", 0.5f}, {"bias", 0.0f}},
    {"Sigmoid", UnaryOp::kSigmoid},
    {"Sign", UnaryOp::kSign},
    {"Silu", UnaryOp::kSwish, {nullptr, 1.0f}},
    {"Sin", UnaryOp::kSin},
    {"Sinh", UnaryOp::kSinh},
    {"Softplus", UnaryOp::kSoftplus},
    {"Softsign", UnaryOp::kSoftsign},
    {"Sqrt", UnaryOp::kSqrt},
    {"Swish", UnaryOp::kSwish, {"alpha", 1.0f}},
    {"Tan", UnaryOp::kTan},
    {"Tanh", UnaryOp::kTanh},
    {"ThresholdedRelu", UnaryOp::kThresholdedRelu, {"alpha", 1.0f}},
};

struct BinaryRow {
  std::string_view name;
  BinaryOp op;
};

constexpr BinaryRow kBinary[] = {
    {"Add", BinaryOp::kAdd},
    {"And", BinaryOp::kAnd},
    {"BiasGelu", BinaryOp::kGeluErfAdd},
    {"BitwiseAnd", BinaryOp::kBitwiseAnd},
    {"BitwiseOr", BinaryOp::kBitwiseOr},
    {"BitwiseXor", BinaryOp::kBitwiseXor},
    {"Div", BinaryOp::kDiv},
    {"Equal", BinaryOp::kEqual},
    {"FastGelu", BinaryOp::kGeluTanhAdd},
    {"Greater", BinaryOp::kGreater},
    {"GreaterOrEqual", BinaryOp::kGreaterOrEqual},
    {"Less", BinaryOp::kLess},
    {"LessOrEqual", BinaryOp::kLessOrEqual},
    {"Max", BinaryOp::kMax},
    {"Mean", BinaryOp::kAdd},
    {"Min", BinaryOp::kMin},
    {"Mul", BinaryOp::kMul},
    {"Or", BinaryOp::kOr},
    {"PRelu", BinaryOp::kPRelu},
    {"Pow", BinaryOp::kPow},
    {"Sub", BinaryOp::kSub},
    {"Sum", BinaryOp::kAdd},
    {"Xor", BinaryOp::kXor},
};

float Value(const Attrs& attrs, const Parameter& p) {
  return p.attribute == nullptr ? p.fallback : attrs.Float(p.attribute, p.fallback);
}

Result<UnaryFn> ParseGelu(const Attrs& attrs) {
  const std::string form = attrs.String("approximate", "none");
  if (form == "none") return UnaryFn{UnaryOp::kGeluErf};
  if (form == "tanh") return UnaryFn{UnaryOp::kGeluTanh};
  return BadInput("Gelu: attribute approximate is \"{}\"; allowed are \"none\" and \"tanh\"", form);
}

}  // namespace

Result<UnaryFn> ParseUnary(std::string_view op, const Attrs& attrs) {
  if (op == "Gelu") return ParseGelu(attrs);
  if (op == "FastGelu") return UnaryFn{UnaryOp::kGeluTanh};
  if (op == "IsInf") {
    const bool negative = attrs.Int("detect_negative", 1) != 0;
    const bool positive = attrs.Int("detect_positive", 1) != 0;
    return UnaryFn{UnaryOp::kIsInf, negative ? 1.0f : 0.0f, positive ? 1.0f : 0.0f};
  }
  for (const UnaryRow& row : kUnary) {
    if (row.name != op) continue;
    UnaryFn fn{row.op, Value(attrs, row.p0), Value(attrs, row.p1)};
    if (fn.op == UnaryOp::kCelu && fn.p0 == 0.0f) return BadInput("Celu: attribute alpha is 0; any other number is allowed");
    return fn;
  }
  return Internal("{} is no unary elementwise operator", op);
}

Result<BinaryOp> ParseBinary(std::string_view op, const Attrs& attrs) {
  if (op == "Mod") {
    const int64_t fmod = attrs.Int("fmod", 0);
    if (fmod != 0 && fmod != 1) return BadInput("Mod: attribute fmod is {}; allowed are 0 and 1", fmod);
    return fmod == 1 ? BinaryOp::kFmod : BinaryOp::kMod;
  }
  if (op == "BitShift") {
    const std::string direction = attrs.String("direction", "");
    if (direction == "LEFT") return BinaryOp::kShiftLeft;
    if (direction == "RIGHT") return BinaryOp::kShiftRight;
    return BadInput("BitShift: attribute direction is \"{}\"; allowed are \"LEFT\" and \"RIGHT\"", direction);
  }
  for (const BinaryRow& row : kBinary) {
    if (row.name == op) return row.op;
  }
  return Internal("{} is no binary elementwise operator", op);
}

}  // namespace tenon::kernels::elementwise
