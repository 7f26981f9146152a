// Fast rows for f32, and for f16 and bf16 computed in f32 block by block: unary, Clip, binary, comparisons and variadic.
#include "kernels/elementwise/blocks.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/f32_table.h"
#include "kernels/refusals.h"

namespace tenon::kernels::elementwise {
namespace {

constexpr float kInfinity = __builtin_inff();

bool IsHalf(DType t) {
  return t == DType::kF16 || t == DType::kBF16;
}

/// Elements that make a thread worthwhile: functions with an exponential cost about ten times an addition.
int64_t GrainOf(UnaryOp op) {
  switch (op) {
    case UnaryOp::kAbs:
    case UnaryOp::kNeg:
    case UnaryOp::kRelu:
    case UnaryOp::kClip:
    case UnaryOp::kLeakyRelu: return kGrain * 2;
    default: return kGrain / 4;
  }
}

// Conversions of a 16-bit float type.
struct HalfCodec {
  void (*widen)(const uint16_t*, float*, int64_t);
  void (*narrow)(const float*, uint16_t*, int64_t);
};

HalfCodec CodecOf(const F32Table& table, DType t) {
  if (t == DType::kF16) return {table.f16_to_f32, table.f32_to_f16};
  return {table.bf16_to_f32, table.f32_to_bf16};
}

// y = f(x) over n elements of f32, f16 or bf16.
void RunUnary(const F32Table& table, DType t, UnaryF32 f, const void* x, void* y, int64_t begin, int64_t end, float p0,
              float p1) {
  if (t == DType::kF32) return f(static_cast<const float*>(x) + begin, static_cast<float*>(y) + begin, end - begin, p0, p1);
  const HalfCodec codec = CodecOf(table, t);
  float block[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    codec.widen(static_cast<const uint16_t*>(x) + at, block, n);
    f(block, block, n, p0, p1);
    codec.narrow(block, static_cast<uint16_t*>(y) + at, n);
  }
}

class UnaryFast final : public Kernel {
 public:
  UnaryFast(const F32Table& table, const UnaryFn& fn) : table_(table), fn_(fn) {}
  uint32_t InPlaceInputs() const override { return 1; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    const UnaryF32 f = table_.unary[static_cast<int>(fn_.op)];
    args.team.ParallelFor(in.num_elements(), GrainOf(fn_.op), [&](int64_t begin, int64_t end, int) {
      RunUnary(table_, in.dtype, f, in.data, out, begin, end, fn_.p0, fn_.p1);
    });
    return Status::Ok();
  }

 private:
  const F32Table& table_;
  UnaryFn fn_;
};

class ClipFast final : public Kernel {
 public:
  explicit ClipFast(const F32Table& table) : table_(table) {}
  uint32_t InPlaceInputs() const override { return 1; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    const float low = Bound(args, 1, -kInfinity);
    const float high = Bound(args, 2, kInfinity);
    const UnaryF32 f = table_.unary[static_cast<int>(UnaryOp::kClip)];
    args.team.ParallelFor(in.num_elements(), GrainOf(UnaryOp::kClip), [&](int64_t begin, int64_t end, int) {
      RunUnary(table_, in.dtype, f, in.data, out, begin, end, low, high);
    });
    return Status::Ok();
  }

 private:
  float Bound(const RunArgs& args, size_t i, float fallback) const {
    if (!args.Has(i)) return fallback;
    const View& v = args.in[i];
    if (v.dtype == DType::kF32) return *v.Data<float>();
    float value = 0;
    CodecOf(table_, v.dtype).widen(v.Data<uint16_t>(), &value, 1);
    return value;
  }
  const F32Table& table_;
};

// Two operands. One pass over flat memory when the shapes allow it, else rows or blocks.
class BinaryFast final : public Kernel {
 public:
  BinaryFast(const F32Table& table, BinaryOp op) : table_(table), op_(op) {}
  uint32_t InPlaceInputs() const override { return GivesBool(op_) ? 0 : 3; }

  Status Run(const RunArgs& args) const override {
    const View& a = args.in[0];
    const View& b = args.in[1];
    Shape shape = a.shape;
    BroadcastPlan plan;
    const bool same = a.shape == b.shape;
    if (!same) {
      TENON_ASSIGN_OR_RETURN(shape, BroadcastShapes("binary operator", a.shape, b.shape));
    }
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, shape));
    if (same) {
      plan.operands = 2;
      plan.rank = 1;
      plan.total = plan.dims[0] = shape.num_elements();
      plan.stride[0][0] = plan.stride[1][0] = 1;
    } else {
      const Shape* shapes[] = {&a.shape, &b.shape};
      MakePlan(shapes, shape, &plan);
    }
    if (plan.total == 0) return Status::Ok();
    const int64_t grain = op_ == BinaryOp::kPow || op_ >= BinaryOp::kGeluErfAdd ? kGrain / 4 : kGrain;
    args.team.ParallelFor(plan.total, grain, [&](int64_t begin, int64_t end, int) {
      if (a.dtype == DType::kF32) {
        RunF32(plan, a.Data<float>(), b.Data<float>(), out, begin, end);
      } else {
        RunHalf(plan, a.dtype, a.Data<uint16_t>(), b.Data<uint16_t>(), out, begin, end);
      }
    });
    return Status::Ok();
  }

 private:
  static Form FormOf(bool first_scalar, bool second_scalar) {
    return first_scalar ? kFirstScalar : second_scalar ? kSecondScalar : kBothVectors;
  }

  // out[at, at + n)
  void Apply(Form form, const float* a, const float* b, void* out, int64_t at, int64_t n) const {
    if (GivesBool(op_)) {
      table_.compare[static_cast<int>(op_)][form](a, b, static_cast<bool*>(out) + at, n);
    } else {
      table_.binary[static_cast<int>(op_)][form](a, b, static_cast<float*>(out) + at, n);
    }
  }

  void RunF32(const BroadcastPlan& plan, const float* a, const float* b, void* out, int64_t begin, int64_t end) const {
    const float* data[] = {a, b};
    if (plan.rank == 1) {
      const Form form = FormOf(plan.stride[0][0] == 0, plan.stride[1][0] == 0);
      return Apply(form, a + begin * plan.stride[0][0], b + begin * plan.stride[1][0], out, begin, end - begin);
    }
    BlockPlan blocks;
    PlanBlocks(plan, 32, &blocks);
    // Rows in which both operands stand still come from inner extents of 1, which the plan has folded away.
    const Form form = FormOf(blocks.IsScalar(0), blocks.IsScalar(1));
    if (blocks.by_rows) {
      ForEachRow(plan, begin, end,
                 [&](int64_t at, int64_t n, const int64_t* offsets) { Apply(form, a + offsets[0], b + offsets[1], out, at, n); });
      return;
    }
    float scratch[2 * kBlockScratch];
    ForEachBlock<float>(plan, blocks, data, begin, end, scratch,
                        [&](int64_t at, int64_t n, const float* const* p) { Apply(form, p[0], p[1], out, at, n); });
  }

  void RunHalf(const BroadcastPlan& plan, DType t, const uint16_t* a, const uint16_t* b, void* out, int64_t begin,
               int64_t end) const {
    const HalfCodec codec = CodecOf(table_, t);
    const uint16_t* data[] = {a, b};
    BlockPlan blocks;
    PlanBlocks(plan, 128, &blocks);
    const Form form = FormOf(blocks.IsScalar(0), blocks.IsScalar(1));
    uint16_t scratch[2 * kBlockScratch];
    ForEachBlock<uint16_t>(plan, blocks, data, begin, end, scratch, [&](int64_t at, int64_t n, const uint16_t* const* p) {
      float wa[kBlock];
      float wb[kBlock];
      codec.widen(p[0], wa, blocks.IsScalar(0) ? 1 : n);
      codec.widen(p[1], wb, blocks.IsScalar(1) ? 1 : n);
      if (GivesBool(op_)) return Apply(form, wa, wb, out, at, n);
      table_.binary[static_cast<int>(op_)][form](wa, wb, form == kFirstScalar ? wb : wa, n);
      codec.narrow(form == kFirstScalar ? wb : wa, static_cast<uint16_t*>(out) + at, n);
    });
  }

  const F32Table& table_;
  BinaryOp op_;
};

// Any number of operands up to kMaxOperands, accumulated block by block in f32.
class VariadicFast final : public Kernel {
 public:
  VariadicFast(const F32Table& table, BinaryOp op, bool mean) : table_(table), op_(op), mean_(mean) {}
  uint32_t InPlaceInputs() const override { return (1u << kMaxOperands) - 1; }

  Status Run(const RunArgs& args) const override {
    Shape shape = args.in[0].shape;
    const Shape* shapes[kMaxOperands];
    for (size_t i = 0; i < args.in.size(); ++i) {
      shapes[i] = &args.in[i].shape;
      TENON_ASSIGN_OR_RETURN(shape, BroadcastShapes("variadic operator", shape, args.in[i].shape));
    }
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, shape));
    BroadcastPlan plan;
    MakePlan({shapes, args.in.size()}, shape, &plan);
    if (plan.total == 0) return Status::Ok();
    BlockPlan blocks;
    PlanBlocks(plan, 128, &blocks);
    args.team.ParallelFor(plan.total, kGrain, [&](int64_t begin, int64_t end, int) {
      if (args.out[0].dtype == DType::kF32) {
        RunBlocks<float>(plan, blocks, args, out, begin, end);
      } else {
        RunBlocks<uint16_t>(plan, blocks, args, out, begin, end);
      }
    });
    return Status::Ok();
  }

 private:
  template <typename T>
  void RunBlocks(const BroadcastPlan& plan, const BlockPlan& blocks, const RunArgs& args, void* out, int64_t begin,
                 int64_t end) const {
    const T* data[kMaxOperands];
    for (size_t i = 0; i < args.in.size(); ++i) data[i] = args.in[i].Data<T>();
    const HalfCodec codec = CodecOf(table_, args.out[0].dtype);
    const BinaryF32* forms = table_.binary[static_cast<int>(op_)];
    T scratch[kMaxOperands * kBlockScratch];
    ForEachBlock<T>(plan, blocks, data, begin, end, scratch, [&](int64_t at, int64_t n, const T* const* p) {
      float sum[kBlock];
      float wide[kBlock];
      for (int i = 0; i < plan.operands; ++i) {
        const int64_t m = blocks.IsScalar(i) ? 1 : n;
        const float* next = wide;
        if constexpr (std::is_same_v<T, float>) {
          next = p[i];
        } else {
          codec.widen(p[i], wide, m);
        }
        if (i == 0) {
          for (int64_t k = 0; k < n; ++k) sum[k] = next[m == 1 ? 0 : k];
        } else {
          forms[m == 1 ? kSecondScalar : kBothVectors](sum, next, sum, n);
        }
      }
      if (mean_) {
        const auto count = static_cast<float>(plan.operands);
        table_.binary[static_cast<int>(BinaryOp::kDiv)][kSecondScalar](sum, &count, sum, n);
      }
      T* to = static_cast<T*>(out) + at;
      if constexpr (std::is_same_v<T, float>) {
        std::memcpy(to, sum, static_cast<size_t>(n) * sizeof(float));
      } else {
        codec.narrow(sum, to, n);
      }
    });
  }

  const F32Table& table_;
  BinaryOp op_;
  bool mean_;
};

bool ServesType(DType t) {
  return t == DType::kF32 || IsHalf(t);
}

}  // namespace

Refusal CanUnaryFast(const Problem& problem) {
  if (!ServesType(problem.in[0].dtype)) return kRefuseDType;
  const auto fn = ParseUnary(problem.op, problem.attrs);
  const F32Table* table = TableFor(problem.isa);
  if (!fn.ok() || table == nullptr || table->unary[static_cast<int>(fn.value().op)] == nullptr) return kRefuseAttribute;
  return nullptr;
}

Refusal CanClipFast(const Problem& problem) {
  return ServesType(problem.in[0].dtype) ? nullptr : kRefuseDType;
}

Refusal CanBinaryFast(const Problem& problem) {
  if (!problem.Has(1)) return CanUnaryFast(problem);
  if (!ServesType(problem.in[0].dtype) || problem.in[1].dtype != problem.in[0].dtype) return kRefuseDType;
  const auto op = ParseBinary(problem.op, problem.attrs);
  const F32Table* table = TableFor(problem.isa);
  if (!op.ok() || table == nullptr) return kRefuseAttribute;
  const auto i = static_cast<int>(op.value());
  const bool served = GivesBool(op.value()) ? table->compare[i][0] != nullptr : table->binary[i][0] != nullptr;
  return served ? nullptr : kRefuseAttribute;
}

Refusal CanVariadicFast(const Problem& problem) {
  if (!ServesType(problem.in[0].dtype)) return kRefuseDType;
  return problem.in.size() <= kMaxOperands ? nullptr : kRefuseSize;
}

namespace {

template <hw::IsaMask kIsa>
const F32Table& Table() {
  return *TableFor(kIsa);
}

template <hw::IsaMask kIsa>
KernelPtr Unary(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const UnaryFn fn, ParseUnary(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new UnaryFast(Table<kIsa>(), fn));
}

template <hw::IsaMask kIsa>
KernelPtr Binary(const Problem& problem) {
  if (!problem.Has(1)) return Unary<kIsa>(problem);
  TENON_ASSIGN_OR_RETURN(const BinaryOp op, ParseBinary(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new BinaryFast(Table<kIsa>(), op));
}

template <hw::IsaMask kIsa>
KernelPtr Variadic(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const BinaryOp op, ParseBinary(problem.op, problem.attrs));
  if (problem.in.size() == 2 && problem.op != "Mean") return std::unique_ptr<Kernel>(new BinaryFast(Table<kIsa>(), op));
  return std::unique_ptr<Kernel>(new VariadicFast(Table<kIsa>(), op, problem.op == "Mean"));
}

}  // namespace

KernelPtr MakeUnaryAvx2(const Problem& problem) {
  return Unary<hw::kAvx2>(problem);
}
KernelPtr MakeUnaryAvx512(const Problem& problem) {
  return Unary<hw::kAvx512>(problem);
}
KernelPtr MakeClipAvx2(const Problem&) {
  return std::unique_ptr<Kernel>(new ClipFast(Table<hw::kAvx2>()));
}
KernelPtr MakeClipAvx512(const Problem&) {
  return std::unique_ptr<Kernel>(new ClipFast(Table<hw::kAvx512>()));
}
KernelPtr MakeBinaryAvx2(const Problem& problem) {
  return Binary<hw::kAvx2>(problem);
}
KernelPtr MakeBinaryAvx512(const Problem& problem) {
  return Binary<hw::kAvx512>(problem);
}
KernelPtr MakeVariadicAvx2(const Problem& problem) {
  return Variadic<hw::kAvx2>(problem);
}
KernelPtr MakeVariadicAvx512(const Problem& problem) {
  return Variadic<hw::kAvx512>(problem);
}

}  // namespace tenon::kernels::elementwise
