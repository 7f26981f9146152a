// Reading and checking of ElementwiseChain programs; their shape rule and oracle.
#include "kernels/elementwise/chain.h"

#include <algorithm>

#include "kernels/elementwise/chain_program.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scalar.h"
#include "kernels/float_io.h"

namespace tenon::kernels::elementwise {
namespace {

struct StepRow {
  std::string_view name;
  ChainStep step;
};

constexpr ChainStep One(UnaryOp op) {
  return {.kind = ChainStep::Kind::kUnary, .unary = op};
}
constexpr ChainStep Two(BinaryOp op) {
  return {.kind = ChainStep::Kind::kBinary, .binary = op};
}
// `first`: the constant is the first operand.
constexpr ChainStep Const(BinaryOp op, bool first = false) {
  return {.kind = first ? ChainStep::Kind::kConstFirst : ChainStep::Kind::kConstSecond, .binary = op};
}

constexpr StepRow kSteps[] = {
    {"Add", Two(BinaryOp::kAdd)},
    {"Sub", Two(BinaryOp::kSub)},
    {"Mul", Two(BinaryOp::kMul)},
    {"Div", Two(BinaryOp::kDiv)},
    {"Pow", Two(BinaryOp::kPow)},
    {"Max", Two(BinaryOp::kMax)},
    {"Min", Two(BinaryOp::kMin)},
    {"PRelu", Two(BinaryOp::kPRelu)},
    {"Mod", Two(BinaryOp::kMod)},
    {"Abs", One(UnaryOp::kAbs)},
    {"Acos", One(UnaryOp::kAcos)},
    {"Acosh", One(UnaryOp::kAcosh)},
    {"Asin", One(UnaryOp::kAsin)},
    {"Asinh", One(UnaryOp::kAsinh)},
    {"Atan", One(UnaryOp::kAtan)},
    {"Atanh", One(UnaryOp::kAtanh)},
    {"Ceil", One(UnaryOp::kCeil)},
    {"Celu", One(UnaryOp::kCelu)},
    {"Clip", One(UnaryOp::kClip)},
    {"Cos", One(UnaryOp::kCos)},
    {"Cosh", One(UnaryOp::kCosh)},
    {"Elu", One(UnaryOp::kElu)},
    {"Erf", One(UnaryOp::kErf)},
    {"Exp", One(UnaryOp::kExp)},
    {"Floor", One(UnaryOp::kFloor)},
    {"Gelu", One(UnaryOp::kGeluErf)},
    {"GeluTanh", One(UnaryOp::kGeluTanh)},
    {"HardSigmoid", One(UnaryOp::kHardSigmoid)},
    {"HardSwish", One(UnaryOp::kHardSwish)},
    {"LeakyRelu", One(UnaryOp::kLeakyRelu)},
    {"Log", One(UnaryOp::kLog)},
    {"Mish", One(UnaryOp::kMish)},
    {"Neg", One(UnaryOp::kNeg)},
    {"QuickGelu", One(UnaryOp::kSwish)},
    {"Reciprocal", One(UnaryOp::kReciprocal)},
    {"Relu", One(UnaryOp::kRelu)},
    {"Round", One(UnaryOp::kRound)},
    {"Selu", One(UnaryOp::kSelu)},
    {"Shrink", One(UnaryOp::kShrink)},
    {"Sigmoid", One(UnaryOp::kSigmoid)},
    {"Sign", One(UnaryOp::kSign)},
    {"Silu", {.kind = ChainStep::Kind::kUnary, .unary = UnaryOp::kSwish, .fixed_p0 = 1.0f}},
    {"Sin", One(UnaryOp::kSin)},
    {"Sinh", One(UnaryOp::kSinh)},
    {"Softplus", One(UnaryOp::kSoftplus)},
    {"Softsign", One(UnaryOp::kSoftsign)},
    {"Sqrt", One(UnaryOp::kSqrt)},
    {"Swish", One(UnaryOp::kSwish)},
    {"Tan", One(UnaryOp::kTan)},
    {"Tanh", One(UnaryOp::kTanh)},
    {"ThresholdedRelu", One(UnaryOp::kThresholdedRelu)},
    {"AddConst", Const(BinaryOp::kAdd)},
    {"SubFromConst", Const(BinaryOp::kSub, true)},
    {"MulConst", Const(BinaryOp::kMul)},
    {"DivConst", Const(BinaryOp::kDiv)},
    {"DivFromConst", Const(BinaryOp::kDiv, true)},
    {"PowConst", Const(BinaryOp::kPow)},
    {"MaxConst", Const(BinaryOp::kMax)},
    {"MinConst", Const(BinaryOp::kMin)},
    {"MulAddConst", {.kind = ChainStep::Kind::kMulAdd}},
};

const ChainStep* FindStep(std::string_view name) {
  for (const StepRow& row : kSteps) {
    if (row.name == name) return &row.step;
  }
  return nullptr;
}

}  // namespace

int ChainArity(std::string_view step) {
  const ChainStep* s = FindStep(step);
  if (s == nullptr) return 0;
  return s->kind == ChainStep::Kind::kBinary ? 2 : 1;
}

Result<ChainProgram> ParseChain(const Attrs& attrs, int inputs) {
  const auto ops = attrs.Strings("ops");
  const auto args = attrs.Ints("args");
  const auto params = attrs.Floats("params");
  const auto steps = ops.size();
  if (inputs < 1 || inputs > kMaxChainInputs) {
    return BadInput("ElementwiseChain: {} inputs; 1 to {} are allowed", inputs, kMaxChainInputs);
  }
  if (steps < 1 || steps > kMaxChainSteps)
    return BadInput("ElementwiseChain: {} ops; 1 to {} are allowed", steps, kMaxChainSteps);
  if (args.size() != steps * kChainArgs || params.size() != steps * kChainParams) {
    return BadInput("ElementwiseChain: {} args and {} params for {} ops; there must be {} and {}", args.size(), params.size(),
                    steps, steps * kChainArgs, steps * kChainParams);
  }
  ChainProgram program;
  program.inputs = inputs;
  uint64_t read = 0;
  for (size_t j = 0; j < steps; ++j) {
    const ChainStep* found = FindStep(ops[j]);
    if (found == nullptr)
      return BadInput("ElementwiseChain: op {} is \"{}\", which a chain cannot hold", j, ops[j].substr(0, 64));
    ChainStep step = *found;
    const int arity = step.kind == ChainStep::Kind::kBinary ? 2 : 1;
    for (int i = 0; i < kChainArgs; ++i) {
      const int64_t r = args[j * kChainArgs + static_cast<size_t>(i)];
      const int64_t limit = inputs + static_cast<int64_t>(j);
      if (i < arity ? r < 0 || r >= limit : r != -1) {
        return BadInput("ElementwiseChain: argument {} of step {} ({}) is {}; {}", i, j, ops[j], r,
                        i < arity ? fmt::format("registers 0 to {} are allowed", limit - 1) : std::string("it must be -1"));
      }
      step.args[i] = static_cast<int>(r);
      if (r >= 0) read |= uint64_t{1} << r;
    }
    step.p0 = step.fixed_p0 != 0 ? step.fixed_p0 : params[j * kChainParams];
    step.p1 = params[j * kChainParams + 1];
    program.steps[program.count++] = step;
  }
  const int registers = inputs + program.count;
  for (int r = 0; r + 1 < registers; ++r) {
    if ((read >> r & 1) == 0) {
      return BadInput("ElementwiseChain: register {} ({}) is never read", r, r < inputs ? "an input" : "a step's result");
    }
  }
  return program;
}

Status InferChain(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(ParseChain(args.attrs, static_cast<int>(args.in.size())).status());
  ValueInfo& out = args.out[0];
  const DType type = args.in[0].dtype;
  out.dtype = type == DType::kUndefined ? DType::kF32 : type;
  out.shape = args.in[0].shape;
  for (size_t i = 0; i < args.in.size(); ++i) {
    const ValueInfo& v = args.in[i];
    if (!v.present) return BadInput("ElementwiseChain: input {} is missing", i);
    const bool served = v.dtype == DType::kF32 || v.dtype == DType::kBF16 || v.dtype == DType::kF16;
    if (v.dtype != DType::kUndefined && (!served || (type != DType::kUndefined && v.dtype != type))) {
      return BadInput("ElementwiseChain: input {} has type {}, input 0 {}; allowed: float32, float16, bfloat16, all the same", i,
                      DTypeName(v.dtype), DTypeName(type));
    }
    if (i == 0) continue;
    TENON_ASSIGN_OR_RETURN(out.shape, BroadcastSym("ElementwiseChain", out.shape, v.shape));
  }
  return Status::Ok();
}

namespace {

// One element at a time in double, rounded to float after each step as the separate operators would; 16-bit types are rounded to
// at the end only.
class ChainReference final : public Kernel {
 public:
  explicit ChainReference(const ChainProgram& program) : program_(program) {}

  Status Run(const RunArgs& args) const override {
    Shape shape = args.in[0].shape;
    const Shape* shapes[kMaxChainInputs];
    for (size_t i = 0; i < args.in.size(); ++i) {
      shapes[i] = &args.in[i].shape;
      TENON_ASSIGN_OR_RETURN(shape, BroadcastShapes("ElementwiseChain", shape, args.in[i].shape));
    }
    TENON_ASSIGN_OR_RETURN(void* data, OutputData(args, shape));
    const MutView out{args.in[0].dtype, shape, data, nullptr};
    BroadcastPlan plan;
    MakePlan({shapes, args.in.size()}, shape, &plan);
    ForEachRow(plan, 0, plan.total, [&](int64_t at, int64_t n, const int64_t* offsets) {
      for (int64_t k = 0; k < n; ++k) {
        Word registers[kMaxChainInputs + kMaxChainSteps];
        for (size_t i = 0; i < args.in.size(); ++i) {
          const auto operand = static_cast<int>(i);
          registers[i].f = LoadAt(args.in[i], offsets[operand] + k * plan.inner_stride(operand));
        }
        StoreAt(out, at + k, static_cast<double>(Evaluate(registers)));
      }
    });
    return Status::Ok();
  }

 private:
  float Evaluate(Word* registers) const {
    Word* result = registers + program_.inputs;
    for (int j = 0; j < program_.count; ++j, ++result) {
      const ChainStep& s = program_.steps[j];
      Word a = registers[s.args[0]];
      Word constant;
      constant.f = s.p0;
      switch (s.kind) {
        case ChainStep::Kind::kUnary: ApplyUnary({s.unary, s.p0, s.p1}, Kind::kReal, 1, &a); break;
        case ChainStep::Kind::kBinary: ApplyBinary(s.binary, Kind::kReal, 0, 1, &a, registers + s.args[1], &a); break;
        case ChainStep::Kind::kConstSecond: ApplyBinary(s.binary, Kind::kReal, 0, 1, &a, &constant, &a); break;
        case ChainStep::Kind::kConstFirst: ApplyBinary(s.binary, Kind::kReal, 0, 1, &constant, &a, &a); break;
        case ChainStep::Kind::kMulAdd: a.f = static_cast<float>(a.f * s.p0) + static_cast<double>(s.p1); break;
      }
      result->f = static_cast<float>(a.f);
    }
    return static_cast<float>((result - 1)->f);
  }

  ChainProgram program_;
};

}  // namespace

KernelPtr MakeChainReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const ChainProgram program, ParseChain(problem.attrs, static_cast<int>(problem.in.size())));
  return std::unique_ptr<Kernel>(new ChainReference(program));
}

}  // namespace tenon::kernels::elementwise
