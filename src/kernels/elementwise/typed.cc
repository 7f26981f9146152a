// Rows over typed.h for int64, int32 and bool: shape arithmetic with little overhead, masks and positions without the oracle's
// conversions; and Where.
#include <cstring>

#include "kernels/elementwise/blocks.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/typed.h"
#include "kernels/refusals.h"

namespace tenon::kernels::elementwise {
namespace {

class BinaryIntKernel final : public Kernel {
 public:
  BinaryIntKernel(const TypedBinary* forms, BinaryOp op, DType t) : forms_(forms), op_(op), width_(DTypeBits(t) / 8) {}
  uint32_t InPlaceInputs() const override { return GivesBool(op_) && width_ != 1 ? 0 : 3; }

  Status Run(const RunArgs& args) const override {
    const View& a = args.in[0];
    const View& b = args.in[1];
    if (a.shape == b.shape) {
      TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, a.shape));
      RunFlat(args.team, a.data, b.data, out, a.num_elements());
      return Status::Ok();
    }
    TENON_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes("binary operator", a.shape, b.shape));
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, shape));
    const Shape* shapes[] = {&a.shape, &b.shape};
    BroadcastPlan plan;
    MakePlan(shapes, shape, &plan);
    if (plan.total == 0) return Status::Ok();
    args.team.ParallelFor(plan.total, kGrain, [&](int64_t begin, int64_t end, int) {
      switch (width_) {
        case 8: return RunBlocks<int64_t>(plan, a.data, b.data, out, begin, end);
        case 4: return RunBlocks<int32_t>(plan, a.data, b.data, out, begin, end);
        default: return RunBlocks<int8_t>(plan, a.data, b.data, out, begin, end);
      }
    });
    return Status::Ok();
  }

 private:
  int64_t OutWidth() const { return GivesBool(op_) ? 1 : width_; }

  void RunFlat(hw::Team& team, const void* a, const void* b, void* out, int64_t n) const {
    team.ParallelFor(n, kGrain, [&](int64_t begin, int64_t end, int) {
      forms_[kBothVectors](static_cast<const std::byte*>(a) + begin * width_, static_cast<const std::byte*>(b) + begin * width_,
                           static_cast<std::byte*>(out) + begin * OutWidth(), end - begin);
    });
  }

  template <typename T>
  void RunBlocks(const BroadcastPlan& plan, const void* a, const void* b, void* out, int64_t begin, int64_t end) const {
    const T* data[] = {static_cast<const T*>(a), static_cast<const T*>(b)};
    BlockPlan blocks;
    PlanBlocks(plan, 16, &blocks);
    const Form form = blocks.IsScalar(0) ? kFirstScalar : blocks.IsScalar(1) ? kSecondScalar : kBothVectors;
    T scratch[2 * kBlockScratch];
    ForEachBlock<T>(plan, blocks, data, begin, end, scratch, [&](int64_t at, int64_t n, const T* const* p) {
      forms_[form](p[0], p[1], static_cast<std::byte*>(out) + at * OutWidth(), n);
    });
  }

  const TypedBinary* forms_;
  BinaryOp op_;
  int64_t width_;
};

class UnaryIntKernel final : public Kernel {
 public:
  UnaryIntKernel(TypedUnary f, DType t) : f_(f), width_(DTypeBits(t) / 8) {}
  uint32_t InPlaceInputs() const override { return 1; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    args.team.ParallelFor(in.num_elements(), kGrain * 4, [&](int64_t begin, int64_t end, int) {
      f_(static_cast<const std::byte*>(in.data) + begin * width_, static_cast<std::byte*>(out) + begin * width_, end - begin);
    });
    return Status::Ok();
  }

 private:
  TypedUnary f_;
  int64_t width_;
};

class FloatTestKernel final : public Kernel {
 public:
  FloatTestKernel(FloatTest f, const UnaryFn& fn) : f_(f), negative_(fn.p0 != 0), positive_(fn.p1 != 0) {}
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    args.team.ParallelFor(in.num_elements(), kGrain * 2, [&](int64_t begin, int64_t end, int) {
      f_(in.Data<float>() + begin, static_cast<uint8_t*>(out) + begin, end - begin, negative_, positive_);
    });
    return Status::Ok();
  }

 private:
  FloatTest f_;
  bool negative_;
  bool positive_;
};

bool IsFloatTest(const Result<UnaryFn>& fn) {
  return fn.ok() && (fn.value().op == UnaryOp::kIsNaN || fn.value().op == UnaryOp::kIsInf);
}

// One flat pass when the shapes allow it, else rows.
class WhereKernel final : public Kernel {
 public:
  WhereKernel(const TypedSelect* forms, int64_t width) : forms_(forms), width_(width) {}
  uint32_t InPlaceInputs() const override { return 0b110; }
  Status Run(const RunArgs& args) const override {
    const View& c = args.in[0];
    const View& x = args.in[1];
    const View& y = args.in[2];
    TENON_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes("Where", x.shape, y.shape));
    TENON_ASSIGN_OR_RETURN(shape, BroadcastShapes("Where", c.shape, shape));
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, shape));
    const Shape* shapes[] = {&c.shape, &x.shape, &y.shape};
    BroadcastPlan plan;
    MakePlan(shapes, shape, &plan);
    const auto* conditions = static_cast<const uint8_t*>(c.data);
    args.team.ParallelFor(plan.total, kGrain, [&](int64_t begin, int64_t end, int) {
      ForEachRow(plan, begin, end, [&](int64_t at, int64_t n, const int64_t* offsets) {
        Row(conditions + offsets[0], plan.inner_stride(0), static_cast<const std::byte*>(x.data) + offsets[1] * width_,
            plan.inner_stride(1), static_cast<const std::byte*>(y.data) + offsets[2] * width_, plan.inner_stride(2),
            static_cast<std::byte*>(out) + at * width_, n);
      });
    });
    return Status::Ok();
  }

 private:
  // Steps are 0 or 1.
  void Row(const uint8_t* c, int64_t sc, const std::byte* x, int64_t sx, const std::byte* y, int64_t sy, std::byte* out,
           int64_t n) const {
    if (sc != 0) return forms_[(sx == 0 ? 1 : 0) + (sy == 0 ? 2 : 0)](c, x, y, out, n);
    const std::byte* from = *c != 0 ? x : y;
    if ((*c != 0 ? sx : sy) == 1) {
      if (out != from) std::memmove(out, from, static_cast<size_t>(n * width_));
      return;
    }
    for (int64_t i = 0; i < n; ++i) std::memmove(out + i * width_, from, static_cast<size_t>(width_));
  }

  const TypedSelect* forms_;
  int64_t width_;
};

int LogBytes(DType t) {
  switch (DTypeBits(t)) {
    case 8: return 0;
    case 16: return 1;
    case 32: return 2;
    case 64: return t == DType::kString ? -1 : 3;
    default: return -1;
  }
}

template <hw::IsaMask kIsa>
KernelPtr MakeUnaryTyped(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const UnaryFn fn, ParseUnary(problem.op, problem.attrs));
  const DType t = problem.in[0].dtype;
  if (t == DType::kF32) {
    const TypedTable& table = TypedTableFor(kIsa);
    return std::unique_ptr<Kernel>(new FloatTestKernel(fn.op == UnaryOp::kIsNaN ? table.is_nan : table.is_inf, fn));
  }
  return std::unique_ptr<Kernel>(new UnaryIntKernel(TypedTableFor(kIsa).Of(t)->unary[static_cast<int>(fn.op)], t));
}

template <hw::IsaMask kIsa>
KernelPtr MakeBinaryTyped(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const BinaryOp op, ParseBinary(problem.op, problem.attrs));
  const DType t = problem.in[0].dtype;
  return std::unique_ptr<Kernel>(new BinaryIntKernel(TypedTableFor(kIsa).Of(t)->binary[static_cast<int>(op)], op, t));
}

template <hw::IsaMask kIsa>
KernelPtr MakeWhereTyped(const Problem& problem) {
  const DType t = problem.in[1].dtype;
  return std::unique_ptr<Kernel>(new WhereKernel(TypedTableFor(kIsa).select[LogBytes(t)], DTypeBits(t) / 8));
}

}  // namespace

const TypedTable& TypedTableFor(hw::IsaMask isa) {
  const auto make = [](void (*fill)(TypedTable*)) {
    TypedTable t;
    fill(&t);
    return t;
  };
  static const TypedTable portable = make(FillTypedPortable);
  static const TypedTable avx2 = make(FillTypedAvx2);
  static const TypedTable avx512 = make(FillTypedAvx512);
  return hw::Covers(isa, hw::kAvx512) ? avx512 : hw::Covers(isa, hw::kAvx2) ? avx2 : portable;
}

Refusal CanUnaryInt(const Problem& problem) {
  const TypedTable::Ops* ops = TypedTableFor(hw::kBaseline).Of(problem.in[0].dtype);
  const auto fn = ParseUnary(problem.op, problem.attrs);
  if (problem.in[0].dtype == DType::kF32 && IsFloatTest(fn)) return nullptr;
  if (ops == nullptr) return kRefuseDType;
  return fn.ok() && ops->unary[static_cast<int>(fn.value().op)] != nullptr ? nullptr : kRefuseAttribute;
}

Refusal CanBinaryInt(const Problem& problem) {
  const DType t = problem.in[0].dtype;
  const TypedTable::Ops* ops = TypedTableFor(hw::kBaseline).Of(t);
  // Max and Min come here too when they have two inputs.
  if (ops == nullptr || problem.in.size() != 2 || problem.in[1].dtype != t) return kRefuseDType;
  const auto op = ParseBinary(problem.op, problem.attrs);
  if (!op.ok() || ops->binary[static_cast<int>(op.value())][0] == nullptr) return kRefuseAttribute;
  return nullptr;
}

Refusal CanWhere(const Problem& problem) {
  return problem.in[0].dtype == DType::kBool && LogBytes(problem.in[1].dtype) >= 0 ? nullptr : kRefuseDType;
}

#define TENON_ROWS(Name)                                      \
  KernelPtr Make##Name##Portable(const Problem& problem) {    \
    return Make##Name##Typed<hw::kBaseline>(problem);         \
  }                                                           \
  KernelPtr Make##Name##Avx2Typed(const Problem& problem) {   \
    return Make##Name##Typed<hw::kAvx2>(problem);             \
  }                                                           \
  KernelPtr Make##Name##Avx512Typed(const Problem& problem) { \
    return Make##Name##Typed<hw::kAvx512>(problem);           \
  }
TENON_ROWS(Unary)
TENON_ROWS(Binary)
TENON_ROWS(Where)
#undef TENON_ROWS

}  // namespace tenon::kernels::elementwise
