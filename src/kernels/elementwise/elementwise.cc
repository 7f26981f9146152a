// The table of elementwise operators.
#include "kernels/elementwise/elementwise.h"

#include "kernels/elementwise/chain.h"

#include <array>
#include <utility>
#include <vector>

namespace tenon::kernels::elementwise {
namespace {

enum class Group { Unary, Binary, Variadic, Clip, Where, Identity, Cast, Chain };

std::vector<Row> RowsOf(Group wanted) {
  std::vector<Row> rows;
#define KERNEL(group, name, needs, can, make) \
  if (wanted == Group::group) rows.push_back({name, needs, can, make});
#include "kernels/elementwise/kernels.inc"
#undef KERNEL
  return rows;
}

constexpr std::array kUnaryNames = {"Abs",     "Acos",        "Acosh",     "Asin",
                                    "Asinh",   "Atan",        "Atanh",     "BitwiseNot",
                                    "Ceil",    "Celu",        "Cos",       "Cosh",
                                    "Elu",     "Erf",         "Exp",       "Floor",
                                    "Gelu",    "HardSigmoid", "HardSwish", "IsInf",
                                    "IsNaN",   "LeakyRelu",   "Log",       "Mish",
                                    "Neg",     "Not",         "QuickGelu", "Reciprocal",
                                    "Relu",    "Round",       "Selu",      "Shrink",
                                    "Sigmoid", "Sign",        "Silu",      "Sin",
                                    "Sinh",    "Softplus",    "Softsign",  "Sqrt",
                                    "Swish",   "Tan",         "Tanh",      "ThresholdedRelu"};

constexpr std::array kBinaryNames = {"Add",        "And",         "BiasGelu", "BitShift", "BitwiseAnd", "BitwiseOr",
                                     "BitwiseXor", "Div",         "Equal",    "FastGelu", "Greater",    "GreaterOrEqual",
                                     "Less",       "LessOrEqual", "Mod",      "Mul",      "Or",         "PRelu",
                                     "Pow",        "Sub",         "Xor"};

constexpr std::array kVariadicNames = {"Max", "Mean", "Min", "Sum"};

// A shape rule does not get the operator's name, so each operator has one of its own.
template <size_t I>
Status UnaryRule(const ShapeArgs& args) {
  return InferUnary(kUnaryNames[I], args);
}
template <size_t I>
Status BinaryRule(const ShapeArgs& args) {
  return InferBinary(kBinaryNames[I], args);
}
template <size_t I>
Status VariadicRule(const ShapeArgs& args) {
  return InferVariadic(kVariadicNames[I], args);
}

struct Table {
  std::vector<Row> unary = RowsOf(Group::Unary);
  std::vector<Row> binary = RowsOf(Group::Binary);
  std::vector<Row> variadic = RowsOf(Group::Variadic);
  std::vector<Row> clip = RowsOf(Group::Clip);
  std::vector<Row> where = RowsOf(Group::Where);
  std::vector<Row> identity = RowsOf(Group::Identity);
  std::vector<Row> cast = RowsOf(Group::Cast);
  std::vector<Row> chain = RowsOf(Group::Chain);
  std::vector<OpKernels> ops;

  Table() {
    [&]<size_t... I>(std::index_sequence<I...>) {
      (ops.push_back({kUnaryNames[I], UnaryRule<I>, unary}), ...);
    }(std::make_index_sequence<kUnaryNames.size()>());
    [&]<size_t... I>(std::index_sequence<I...>) {
      (ops.push_back({kBinaryNames[I], BinaryRule<I>, binary, 2, 2}), ...);
    }(std::make_index_sequence<kBinaryNames.size()>());
    [&]<size_t... I>(std::index_sequence<I...>) {
      (ops.push_back({kVariadicNames[I], VariadicRule<I>, variadic, 1, kVariadic}), ...);
    }(std::make_index_sequence<kVariadicNames.size()>());
    for (OpKernels& op : ops) {
      if (op.op == "FastGelu") op.min_in = 1;  // its bias is optional
    }
    ops.push_back({"Cast", InferCast, cast});
    ops.push_back({"CastLike", InferCastLike, cast, 2, 2});
    ops.push_back({"ElementwiseChain", InferChain, chain, 1, kMaxChainInputs});
    ops.push_back({"Clip", InferClip, clip, 1, 3});
    ops.push_back({"Identity", InferIdentity, identity, 1, 1, 1, 1, true});
    ops.push_back({"Where", InferWhere, where, 3, 3});
  }
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const Table* table = new Table();
  return table->ops;
}

}  // namespace tenon::kernels::elementwise
