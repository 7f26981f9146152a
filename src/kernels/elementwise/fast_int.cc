// Typed loops for int64, int32 and bool: shape arithmetic with little overhead, masks and positions without the oracle's
// conversions.
#include "kernels/elementwise/blocks.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/f32_table.h"
#include "kernels/refusals.h"

namespace tenon::kernels::elementwise {
namespace {

using BinaryInt = void (*)(const void* a, const void* b, void* y, int64_t n);

template <typename T, BinaryOp kOp>
auto Apply(T a, T b) {
  using U = std::make_unsigned_t<T>;
  if constexpr (kOp == BinaryOp::kAdd) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  if constexpr (kOp == BinaryOp::kSub) return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  if constexpr (kOp == BinaryOp::kMul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  if constexpr (kOp == BinaryOp::kDiv)
    return b == 0 ? T{0} : b == -1 ? static_cast<T>(U{0} - static_cast<U>(a)) : static_cast<T>(a / b);
  if constexpr (kOp == BinaryOp::kMod) {
    if (b == 0 || b == -1) return T{0};
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
  }
  if constexpr (kOp == BinaryOp::kFmod) return b == 0 || b == -1 ? T{0} : static_cast<T>(a % b);
  if constexpr (kOp == BinaryOp::kMax) return a > b ? a : b;
  if constexpr (kOp == BinaryOp::kMin) return a < b ? a : b;
  if constexpr (kOp == BinaryOp::kAnd || kOp == BinaryOp::kBitwiseAnd) return static_cast<T>(a & b);
  if constexpr (kOp == BinaryOp::kOr || kOp == BinaryOp::kBitwiseOr) return static_cast<T>(a | b);
  if constexpr (kOp == BinaryOp::kXor || kOp == BinaryOp::kBitwiseXor) return static_cast<T>(a ^ b);
  if constexpr (kOp == BinaryOp::kEqual) return static_cast<uint8_t>(a == b);
  if constexpr (kOp == BinaryOp::kLess) return static_cast<uint8_t>(a < b);
  if constexpr (kOp == BinaryOp::kLessOrEqual) return static_cast<uint8_t>(a <= b);
  if constexpr (kOp == BinaryOp::kGreater) return static_cast<uint8_t>(a > b);
  if constexpr (kOp == BinaryOp::kGreaterOrEqual) return static_cast<uint8_t>(a >= b);
}

template <typename T, BinaryOp kOp, int kForm>
void Loop(const void* pa, const void* pb, void* py, int64_t n) {
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  auto* y = static_cast<decltype(Apply<T, kOp>(T{}, T{}))*>(py);
  if (n <= 0) return;
  const T sa = *a;
  const T sb = *b;
  for (int64_t i = 0; i < n; ++i) y[i] = Apply<T, kOp>(kForm == kFirstScalar ? sa : a[i], kForm == kSecondScalar ? sb : b[i]);
}

struct IntTable {
  BinaryInt binary[static_cast<int>(BinaryOp::kCount)][kForms] = {};

  template <typename T, BinaryOp... kOps>
  void Set() {
    ((binary[static_cast<int>(kOps)][kBothVectors] = Loop<T, kOps, kBothVectors>,
      binary[static_cast<int>(kOps)][kSecondScalar] = Loop<T, kOps, kSecondScalar>,
      binary[static_cast<int>(kOps)][kFirstScalar] = Loop<T, kOps, kFirstScalar>),
     ...);
  }
};

template <typename T>
IntTable MakeTable() {
  IntTable t;
  t.Set<T, BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFmod, BinaryOp::kMax,
        BinaryOp::kMin, BinaryOp::kBitwiseAnd, BinaryOp::kBitwiseOr, BinaryOp::kBitwiseXor, BinaryOp::kEqual, BinaryOp::kLess,
        BinaryOp::kLessOrEqual, BinaryOp::kGreater, BinaryOp::kGreaterOrEqual>();
  return t;
}

const IntTable* TableOf(DType t) {
  static const IntTable i64 = MakeTable<int64_t>();
  static const IntTable i32 = MakeTable<int32_t>();
  static const IntTable boolean = [] {
    IntTable b;
    b.Set<int8_t, BinaryOp::kAnd, BinaryOp::kOr, BinaryOp::kXor, BinaryOp::kEqual>();
    return b;
  }();
  switch (t) {
    case DType::kI64: return &i64;
    case DType::kI32: return &i32;
    case DType::kBool: return &boolean;
    default: return nullptr;
  }
}

class BinaryIntKernel final : public Kernel {
 public:
  BinaryIntKernel(const BinaryInt* forms, BinaryOp op, DType t) : forms_(forms), op_(op), width_(DTypeBits(t) / 8) {}
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

  const BinaryInt* forms_;
  BinaryOp op_;
  int64_t width_;
};

}  // namespace

Refusal CanBinaryInt(const Problem& problem) {
  const DType t = problem.in[0].dtype;
  const IntTable* table = TableOf(t);
  // Max and Min come here too when they have two inputs.
  if (table == nullptr || problem.in.size() != 2 || problem.in[1].dtype != t) return kRefuseDType;
  const auto op = ParseBinary(problem.op, problem.attrs);
  if (!op.ok() || table->binary[static_cast<int>(op.value())][0] == nullptr) return kRefuseAttribute;
  return nullptr;
}

KernelPtr MakeBinaryInt(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const BinaryOp op, ParseBinary(problem.op, problem.attrs));
  const DType t = problem.in[0].dtype;
  return std::unique_ptr<Kernel>(new BinaryIntKernel(TableOf(t)->binary[static_cast<int>(op)], op, t));
}

}  // namespace tenon::kernels::elementwise
