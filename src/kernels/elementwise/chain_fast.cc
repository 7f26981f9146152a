// ElementwiseChain in one pass: blocks of kBlock elements go through all steps while they are in L1; those of 16-bit types become
// f32 first.
#include "kernels/elementwise/blocks.h"
#include "kernels/elementwise/chain_program.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/f32_table.h"

namespace tenon::kernels::elementwise {
namespace {

class ChainFast final : public Kernel {
 public:
  ChainFast(const F32Table& table, const ChainProgram& program) : table_(table), program_(program) {
    AssignSlots();
    // A transcendental step counts about ten simple ones.
    int cost = 0;
    for (int j = 0; j < program_.count; ++j) cost += IsCostly(program_.steps[j]) ? 10 : 1;
    grain_ = std::max<int64_t>(kBlock, 2 * kGrain / (1 + cost) / kBlock * kBlock);
  }

  uint32_t InPlaceInputs() const override { return (1u << program_.inputs) - 1; }

  Status Run(const RunArgs& args) const override {
    const size_t k = args.in.size();
    Shape shape = args.in[0].shape;
    const Shape* shapes[kMaxChainInputs];
    for (size_t i = 0; i < k; ++i) {
      shapes[i] = &args.in[i].shape;
      TENON_ASSIGN_OR_RETURN(shape, BroadcastShapes("ElementwiseChain", shape, args.in[i].shape));
    }
    TENON_ASSIGN_OR_RETURN(void* memory, OutputData(args, shape));
    BroadcastPlan plan;
    MakePlan({shapes, k}, shape, &plan);
    if (plan.total == 0) return Status::Ok();
    BlockPlan blocks;
    PlanBlocks(plan, 192, &blocks);
    bool scalar[kMaxChainInputs + kMaxChainSteps];
    SpreadScalars(blocks, scalar);
    args.team.ParallelFor(plan.total, grain_, [&](int64_t begin, int64_t end, int) {
      if (args.in[0].dtype == DType::kF32) {
        RunF32(args, plan, blocks, scalar, begin, end, static_cast<float*>(memory));
      } else {
        RunHalf(args, plan, blocks, scalar, begin, end, static_cast<uint16_t*>(memory));
      }
    });
    return Status::Ok();
  }

 private:
  void RunF32(const RunArgs& args, const BroadcastPlan& plan, const BlockPlan& blocks, const bool* scalar, int64_t begin,
              int64_t end, float* out) const {
    const float* data[kMaxChainInputs];
    for (size_t i = 0; i < args.in.size(); ++i) data[i] = args.in[i].Data<float>();
    alignas(64) float scratch[kMaxChainInputs * kBlockScratch];
    ForEachBlock<float>(plan, blocks, data, begin, end, scratch,
                        [&](int64_t at, int64_t n, const float* const* inputs) { RunBlock(inputs, scalar, n, out + at); });
  }

  void RunHalf(const RunArgs& args, const BroadcastPlan& plan, const BlockPlan& blocks, const bool* scalar, int64_t begin,
               int64_t end, uint16_t* out) const {
    const bool f16 = args.in[0].dtype == DType::kF16;
    const auto widen = f16 ? table_.f16_to_f32 : table_.bf16_to_f32;
    const auto narrow = f16 ? table_.f32_to_f16 : table_.f32_to_bf16;
    const uint16_t* data[kMaxChainInputs];
    for (size_t i = 0; i < args.in.size(); ++i) data[i] = args.in[i].Data<uint16_t>();
    alignas(64) uint16_t scratch[kMaxChainInputs * kBlockScratch];
    alignas(64) float wide[kMaxChainInputs + 1][kBlock];
    const float* inputs[kMaxChainInputs];
    for (int i = 0; i < program_.inputs; ++i) inputs[i] = wide[i];
    ForEachBlock<uint16_t>(plan, blocks, data, begin, end, scratch, [&](int64_t at, int64_t n, const uint16_t* const* halves) {
      for (int i = 0; i < program_.inputs; ++i) widen(halves[i], wide[i], scalar[i] ? 1 : n);
      float* result = wide[kMaxChainInputs];
      RunBlock(inputs, scalar, n, result);
      narrow(result, out + at, n);
    });
  }

  static bool IsCostly(const ChainStep& s) {
    if (s.kind != ChainStep::Kind::kUnary) return s.binary == BinaryOp::kPow || s.binary == BinaryOp::kMod;
    switch (s.unary) {
      case UnaryOp::kAbs:
      case UnaryOp::kCeil:
      case UnaryOp::kClip:
      case UnaryOp::kFloor:
      case UnaryOp::kHardSigmoid:
      case UnaryOp::kHardSwish:
      case UnaryOp::kLeakyRelu:
      case UnaryOp::kNeg:
      case UnaryOp::kRelu:
      case UnaryOp::kRound:
      case UnaryOp::kSign: return false;
      default: return true;
    }
  }

  // Slots of scratch for step results, reused as soon as their last reader has run; a reader may write over what it reads last.
  void AssignSlots() {
    int last_use[kMaxChainSteps];
    for (int j = 0; j < program_.count; ++j) {
      last_use[j] = j;
      for (int r : program_.steps[j].args) {
        if (r >= program_.inputs) last_use[r - program_.inputs] = j;
      }
    }
    bool busy[kMaxChainSteps] = {};
    for (int j = 0; j < program_.count; ++j) {
      for (int r = 0; r < j; ++r) {
        if (last_use[r] == j) busy[slot_[r]] = false;
      }
      int s = 0;
      while (busy[s]) ++s;
      busy[s] = true;
      slot_[j] = s;
    }
    for (int j = 0; j + 1 < program_.count; ++j) {
      const ChainStep& mul = program_.steps[j];
      const ChainStep& add = program_.steps[j + 1];
      const int product = program_.inputs + j;
      mul_add_[j] = mul.kind == ChainStep::Kind::kBinary && mul.binary == BinaryOp::kMul &&
                    add.kind == ChainStep::Kind::kBinary && add.binary == BinaryOp::kAdd && last_use[j] == j + 1 &&
                    (add.args[0] == product) != (add.args[1] == product);
    }
  }

  // x * scale + shift in one pass, where the block's scale and shift are one element each: a normalisation by channel.
  bool MulAdd(int j, const float* const* registers, const bool* scalar, int64_t n, float* to) const {
    const ChainStep& mul = program_.steps[j];
    const ChainStep& add = program_.steps[j + 1];
    const int factor = scalar[mul.args[1]] ? 1 : 0;
    const int term = add.args[0] == program_.inputs + j ? add.args[1] : add.args[0];
    if (!scalar[mul.args[factor]] || scalar[mul.args[1 - factor]] || !scalar[term]) return false;
    table_.mul_add(registers[mul.args[1 - factor]], to, n, *registers[mul.args[factor]], *registers[term]);
    return true;
  }

  // Which registers hold one element for a whole block: a step of such operands only does too, except the last, which fills the
  // output.
  void SpreadScalars(const BlockPlan& blocks, bool* scalar) const {
    const int k = program_.inputs;
    for (int i = 0; i < k; ++i) scalar[i] = blocks.IsScalar(i);
    for (int j = 0; j < program_.count; ++j) {
      const ChainStep& s = program_.steps[j];
      scalar[k + j] = scalar[s.args[0]] && (s.kind != ChainStep::Kind::kBinary || scalar[s.args[1]]);
    }
  }

  void RunBlock(const float* const* inputs, const bool* scalar, int64_t n, float* out) const {
    alignas(64) float results[kMaxChainSteps][kBlock];
    const float* registers[kMaxChainInputs + kMaxChainSteps];
    const int k = program_.inputs;
    for (int i = 0; i < k; ++i) registers[i] = inputs[i];
    for (int j = 0; j < program_.count; ++j) {
      if (mul_add_[j]) {
        float* sum = j + 2 == program_.count ? out : results[slot_[j + 1]];
        if (MulAdd(j, registers, scalar, n, sum)) {
          registers[k + ++j] = sum;
          continue;
        }
      }
      const bool last = j + 1 == program_.count;
      const bool single = scalar[k + j];
      float* to = last && !single ? out : results[slot_[j]];
      Step(program_.steps[j], registers, scalar, single ? 1 : n, to);
      registers[k + j] = to;
      if (last && single) {
        for (int64_t i = 0; i < n; ++i) out[i] = *to;
      }
    }
  }

  void Step(const ChainStep& s, const float* const* registers, const bool* scalar, int64_t n, float* to) const {
    const float* a = registers[s.args[0]];
    switch (s.kind) {
      case ChainStep::Kind::kUnary: return table_.unary[static_cast<int>(s.unary)](a, to, n, s.p0, s.p1);
      case ChainStep::Kind::kMulAdd: return table_.mul_add(a, to, n, s.p0, s.p1);
      case ChainStep::Kind::kConstSecond: return table_.binary[static_cast<int>(s.binary)][kSecondScalar](a, &s.p0, to, n);
      case ChainStep::Kind::kConstFirst: return table_.binary[static_cast<int>(s.binary)][kFirstScalar](&s.p0, a, to, n);
      case ChainStep::Kind::kBinary: {
        const Form form = scalar[s.args[1]] ? kSecondScalar : scalar[s.args[0]] ? kFirstScalar : kBothVectors;
        return table_.binary[static_cast<int>(s.binary)][form](a, registers[s.args[1]], to, n);
      }
    }
  }

  const F32Table& table_;
  ChainProgram program_;
  int slot_[kMaxChainSteps] = {};
  bool mul_add_[kMaxChainSteps] = {};  // this step and the next are a product and the sum that alone reads it
  int64_t grain_ = kGrain;
};

template <hw::IsaMask kIsa>
KernelPtr Make(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const ChainProgram program, ParseChain(problem.attrs, static_cast<int>(problem.in.size())));
  return std::unique_ptr<Kernel>(new ChainFast(*TableFor(kIsa), program));
}

}  // namespace

KernelPtr MakeChainAvx2(const Problem& problem) {
  return Make<hw::kAvx2>(problem);
}
KernelPtr MakeChainAvx512(const Problem& problem) {
  return Make<hw::kAvx512>(problem);
}

}  // namespace tenon::kernels::elementwise
