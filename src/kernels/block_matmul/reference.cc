// The plain forms: weights unpacked row by row, sums in double.
#include <algorithm>
#include <cstring>

#include "kernels/block_matmul/block_matmul.h"
#include "kernels/kernel_util.h"
#include "kernels/kv_step.h"

namespace tenon::kernels::block_matmul {
namespace {

class Reference final : public Kernel {
 public:
  Reference(Params p, int threads) : p_(std::move(p)), threads_(std::max(1, threads)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    Configured c;
    c.scratch_bytes = static_cast<size_t>(threads_ * Depth(in)) * sizeof(float);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t k = Depth(args.in), m = k == 0 ? 0 : x.num_elements() / k;
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, OutShape(args.in)));
    const int64_t width = y.shape[y.shape.rank() - 1];
    auto* scratch = reinterpret_cast<float*>(args.scratch);
    int64_t column = 0;
    for (size_t p = 0; p < p_.formats.size(); ++p) {
      const View& w = args.in[WeightInput(p)];
      const float* bias = args.Has(BiasInput(p)) ? args.in[BiasInput(p)].Data<float>() : nullptr;
      const bool second = p_.gate != Gate::kNone && p == 1;
      const int64_t base = second ? 0 : column;
      const int64_t grain = args.team.size() > threads_ ? w.shape[0] : 16;   // scratch was sized for the threads of make()
      args.team.ParallelFor(w.shape[0], grain, [&](int64_t begin, int64_t end, int thread) {
        float* row = scratch + thread * k;
        for (int64_t n = begin; n < end; ++n) {
          UnpackRow(*p_.formats[p], w.Data<uint8_t>() + n * w.shape[1], k, row);
          for (int64_t i = 0; i < m; ++i) {
            double sum = bias != nullptr ? bias[n] : 0;
            for (int64_t d = 0; d < k; ++d) sum += static_cast<double>(x.Data<float>()[i * k + d]) * row[d];
            float& to = y.Data<float>()[i * width + base + n];
            const auto v = static_cast<float>(sum);
            to = second ? to * v : ApplyGate(p_.gate, v);
          }
        }
      });
      column += w.shape[0];
    }
    if (args.Has(1)) {
      for (int64_t i = 0; i < y.num_elements(); ++i) y.Data<float>()[i] += args.in[1].Data<float>()[i];
    }
    return {};
  }

 private:
  int64_t Depth(std::span<const View> in) const { return p_.formats[0]->RowElements(in[WeightInput(0)].shape[1]); }
  Shape OutShape(std::span<const View> in) const {
    int64_t n = 0;
    for (size_t p = 0; p < p_.formats.size(); ++p) n += in[WeightInput(p)].shape[0];
    Shape shape = in[0].shape;
    shape[shape.rank() - 1] = p_.gate != Gate::kNone ? n / 2 : n;
    return shape;
  }

  Params p_;
  int threads_;
};

class Gather final : public Kernel {
 public:
  Gather(const BlockFormat* format, float scale, bool from_end) : format_(format), scale_(scale), from_end_(from_end) {}
  Status Run(const RunArgs& args) const override {
    const View &w = args.in[0], &ids = args.in[1];
    const int64_t k = format_->RowElements(w.shape[1]), n = ids.num_elements();
    Shape shape = ids.shape;
    shape.push_back(k);
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
    const auto id = [&](int64_t i) -> int64_t {
      const int64_t at = ids.dtype == DType::kI64 ? ids.Data<int64_t>()[i] : ids.Data<int32_t>()[i];
      return from_end_ && at < 0 ? at + w.shape[0] : at;
    };
    for (int64_t i = 0; i < n; ++i) {
      if (id(i) < 0 || id(i) >= w.shape[0])
        return BadInput("id {} at {}; allowed: {} to {}", id(i) < 0 && from_end_ ? id(i) - w.shape[0] : id(i), i,
                        from_end_ ? -w.shape[0] : 0, w.shape[0] - 1);
    }
    args.team.ParallelFor(n, std::max<int64_t>(1, 16384 / k), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float* to = y.Data<float>() + i * k;
        UnpackRow(*format_, w.Data<uint8_t>() + id(i) * w.shape[1], k, to);
        if (scale_ == 1) continue;
        for (int64_t d = 0; d < k; ++d) to[d] *= scale_;
      }
    });
    return {};
  }

 private:
  const BlockFormat* format_;
  float scale_;
  bool from_end_;
};

Status RunSelect(const std::monostate& /*none*/, const RunArgs& args) {
  const View& x = args.in[0];
  if (args.kv == nullptr) {
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, x.shape));
    std::memcpy(y.data, x.data, x.bytes());
    return {};
  }
  const int64_t d = x.shape[x.shape.rank() - 1], n = d == 0 ? 0 : x.num_elements() / d;
  const std::span<const int32_t> rows = args.kv->output_rows;
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, Shape({static_cast<int64_t>(rows.size()), d})));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= n) return Internal("row {} of {}", rows[i], n);
    std::memcpy(y.Data<float>() + static_cast<int64_t>(i) * d, x.Data<float>() + rows[i] * d,
                static_cast<size_t>(d) * sizeof(float));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<Reference>(std::move(p), problem.threads));
}

Result<std::unique_ptr<Kernel>> MakeGather(const Problem& problem) {
  const BlockFormat* f = FindBlockFormat(problem.attrs.String("format", ""));
  if (f == nullptr) return BadInput("attribute format is missing");
  return std::unique_ptr<Kernel>(
      std::make_unique<Gather>(f, problem.attrs.Float("scale", 1), problem.attrs.Int("from_end", 0) != 0));
}

Result<std::unique_ptr<Kernel>> MakeSelectRows(const Problem&) {
  return std::unique_ptr<Kernel>(std::make_unique<ParamKernel<std::monostate, RunSelect>>(std::monostate{}));
}

}  // namespace tenon::kernels::block_matmul
