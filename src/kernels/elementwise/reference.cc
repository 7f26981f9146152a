// Reference kernels: plain, slow, right for every type; the oracle of the fast rows.
#include <array>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scalar.h"

namespace tenon::kernels::elementwise {

Result<void*> OutputData(const RunArgs& args, const Shape& shape) {
  MutView& out = args.out[0];
  if (out.data == nullptr && args.allocator != nullptr) {
    TENON_ASSIGN_OR_RETURN(out, args.allocator->Allocate(0, shape));
  }
  return out.data;
}

namespace {

constexpr int64_t kBlock = 256;

class UnaryReference final : public Kernel {
 public:
  explicit UnaryReference(UnaryFn fn) : fn_(fn) {}
  uint32_t InPlaceInputs() const override { return GivesBool(fn_.op) ? 0 : 1; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    const DType out_type = args.out[0].dtype;
    args.team.ParallelFor(in.num_elements(), kGrain / 8, [&](int64_t begin, int64_t end, int) {
      Word block[kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        Load(in.dtype, in.data, at, 1, n, block);
        ApplyUnary(fn_, KindOf(in.dtype), n, block);
        Store(out_type, out, at, n, block);
      }
    });
    return Status::Ok();
  }

 private:
  UnaryFn fn_;
};

class ClipReference final : public Kernel {
 public:
  uint32_t InPlaceInputs() const override { return 1; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    const Kind kind = KindOf(in.dtype);
    const int bits = DTypeBits(in.dtype);
    std::array<std::array<Word, kBlock>, 2> bounds;
    for (size_t i = 0; i < 2; ++i) {
      if (args.Has(i + 1)) Load(in.dtype, args.in[i + 1].data, 0, 0, kBlock, bounds[i].data());
    }
    args.team.ParallelFor(in.num_elements(), kGrain / 8, [&](int64_t begin, int64_t end, int) {
      Word block[kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        Load(in.dtype, in.data, at, 1, n, block);
        if (args.Has(1)) ApplyBinary(BinaryOp::kMax, kind, bits, n, block, bounds[0].data(), block);
        if (args.Has(2)) ApplyBinary(BinaryOp::kMin, kind, bits, n, block, bounds[1].data(), block);
        Store(in.dtype, out, at, n, block);
      }
    });
    return Status::Ok();
  }
};

// Pow of mixed types: reals if either is real, else integers of the base's kind.
class BinaryReference final : public Kernel {
 public:
  BinaryReference(BinaryOp op, bool same_types) : op_(op), same_types_(same_types) {}
  uint32_t InPlaceInputs() const override { return GivesBool(op_) ? 0 : same_types_ ? 3 : 1; }
  Status Run(const RunArgs& args) const override {
    const View& a = args.in[0];
    const View& b = args.in[1];
    TENON_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes("binary operator", a.shape, b.shape));
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, shape));
    const DType out_type = args.out[0].dtype;
    const Shape* shapes[] = {&a.shape, &b.shape};
    BroadcastPlan plan;
    MakePlan(shapes, shape, &plan);
    const Kind ka = KindOf(a.dtype);
    const Kind kb = KindOf(b.dtype);
    const Kind kind = ka == Kind::kReal || kb == Kind::kReal ? Kind::kReal : ka;
    const int bits = DTypeBits(a.dtype);
    args.team.ParallelFor(plan.total, kGrain / 8, [&](int64_t begin, int64_t end, int) {
      Word wa[kBlock];
      Word wb[kBlock];
      ForEachRow(plan, begin, end, [&](int64_t at, int64_t n, const int64_t* offsets) {
        for (int64_t done = 0; done < n; done += kBlock) {
          const int64_t m = std::min(kBlock, n - done);
          Load(a.dtype, a.data, offsets[0] + done * plan.inner_stride(0), plan.inner_stride(0), m, wa);
          Load(b.dtype, b.data, offsets[1] + done * plan.inner_stride(1), plan.inner_stride(1), m, wb);
          if (kind == Kind::kReal && ka != kind) ConvertKind(ka, DType::kF64, m, wa);
          if (kind == Kind::kReal && kb != kind) ConvertKind(kb, DType::kF64, m, wb);
          ApplyBinary(op_, kind, bits, m, wa, wb, wa, kb == Kind::kSigned);
          if (kind == Kind::kReal && ka != kind && !GivesBool(op_)) ConvertKind(kind, out_type, m, wa);
          Store(out_type, out, at + done, m, wa);
        }
      });
    });
    return Status::Ok();
  }

 private:
  BinaryOp op_;
  bool same_types_;
};

class StringEqual final : public Kernel {
 public:
  Status Run(const RunArgs& args) const override {
    const View& a = args.in[0];
    const View& b = args.in[1];
    TENON_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes("Equal", a.shape, b.shape));
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, shape));
    const Shape* shapes[] = {&a.shape, &b.shape};
    BroadcastPlan plan;
    MakePlan(shapes, shape, &plan);
    ForEachRow(plan, 0, plan.total, [&](int64_t at, int64_t n, const int64_t* offsets) {
      const std::string* pa = a.Data<std::string>() + offsets[0];
      const std::string* pb = b.Data<std::string>() + offsets[1];
      bool* p = static_cast<bool*>(out) + at;
      for (int64_t k = 0; k < n; ++k) p[k] = pa[k * plan.inner_stride(0)] == pb[k * plan.inner_stride(1)];
    });
    return Status::Ok();
  }
};

class VariadicReference final : public Kernel {
 public:
  VariadicReference(BinaryOp op, bool mean) : op_(op), mean_(mean) {}
  // Input 0 alone: all others are read block by block, too, but may be broadcast views of other sizes.
  uint32_t InPlaceInputs() const override { return 1; }
  Status Run(const RunArgs& args) const override {
    Shape shape = args.in[0].shape;
    for (const View& v : args.in.subspan(1)) {
      TENON_ASSIGN_OR_RETURN(shape, BroadcastShapes("variadic operator", shape, v.shape));
    }
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, shape));
    const DType t = args.out[0].dtype;
    const Kind kind = KindOf(t);
    const int bits = DTypeBits(t);
    const auto count = static_cast<double>(args.in.size());
    args.team.ParallelFor(shape.num_elements(), kGrain / 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t at = begin; at < end; at += kWide) {
        const int64_t n = std::min(kWide, end - at);
        Word sum[kWide];
        Word next[kWide];
        for (size_t i = 0; i < args.in.size(); ++i) {
          Gather(args.in[i], shape, at, n, i == 0 ? sum : next);
          if (i > 0) ApplyBinary(op_, kind, bits, n, sum, next, sum);
        }
        if (mean_) {
          for (int64_t k = 0; k < n; ++k) sum[k].f /= count;
        }
        Store(t, out, at, n, sum);
      }
    });
    return Status::Ok();
  }

 private:
  static constexpr int64_t kWide = 1024;

  static void Gather(const View& v, const Shape& shape, int64_t begin, int64_t n, Word* out) {
    const Shape* shapes[] = {&v.shape};
    BroadcastPlan plan;
    MakePlan(shapes, shape, &plan);
    ForEachRow(plan, begin, begin + n, [&](int64_t at, int64_t m, const int64_t* offsets) {
      Load(v.dtype, v.data, offsets[0], plan.inner_stride(0), m, out + (at - begin));
    });
  }

  BinaryOp op_;
  bool mean_;
};

}  // namespace

KernelPtr MakeUnaryReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const UnaryFn fn, ParseUnary(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new UnaryReference(fn));
}

KernelPtr MakeClipReference(const Problem& /*problem*/) {
  return std::unique_ptr<Kernel>(new ClipReference());
}

KernelPtr MakeBinaryReference(const Problem& problem) {
  if (!problem.Has(1)) return MakeUnaryReference(problem);
  TENON_ASSIGN_OR_RETURN(const BinaryOp op, ParseBinary(problem.op, problem.attrs));
  if (problem.in[0].dtype == DType::kString) return std::unique_ptr<Kernel>(new StringEqual());
  return std::unique_ptr<Kernel>(new BinaryReference(op, problem.in[0].dtype == problem.in[1].dtype));
}

KernelPtr MakeVariadicReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const BinaryOp op, ParseBinary(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new VariadicReference(op, problem.op == "Mean"));
}

}  // namespace tenon::kernels::elementwise
