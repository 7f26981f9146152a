// Cast between all types: strings, packed 4- and 2-bit integers and small floats included. The common pairs have typed loops in
// cast_fast.cc.
#include <cmath>
#include <cstdlib>

#include "base/small_float.h"
#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/text.h"

namespace tenon::kernels::elementwise {
namespace {

constexpr int64_t kBlock = 256;

struct CastParams {
  bool saturate = true;
  E8M0Round round = E8M0Round::kUp;
};

class CastReference final : public Kernel {
 public:
  CastReference(CastParams params, bool same_width) : params_(params), same_width_(same_width) {}
  uint32_t InPlaceInputs() const override { return same_width_ ? 1 : 0; }

  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    const DType to = args.out[0].dtype;
    const int64_t n = in.num_elements();
    if (in.dtype == DType::kString) return FromStrings(in, to, out);
    if (to == DType::kString) {
      ToStrings(in, static_cast<std::string*>(out));
      return Status::Ok();
    }
    // Blocks are whole bytes of every sub-byte type, and so are the threads' parts.
    args.team.ParallelFor(n, kGrain / 8, [&](int64_t begin, int64_t end, int) {
      Word block[kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t m = std::min(kBlock, end - at);
        Load(in.dtype, in.data, at, 1, m, block);
        Put(in.dtype, to, out, at, m, block);
      }
    });
    return Status::Ok();
  }

 private:
  void Put(DType from, DType to, void* out, int64_t at, int64_t n, Word* block) const {
    ConvertKind(KindOf(from), to, n, block);
    if (IsFloat(to) && DTypeBits(to) == 8) {
      auto* p = static_cast<uint8_t*>(out) + at;
      for (int64_t k = 0; k < n; ++k) p[k] = F32ToSmallFloat(to, static_cast<float>(block[k].f), params_.saturate, params_.round);
    } else {
      Store(to, out, at, n, block);
    }
  }

  Status FromStrings(const View& in, DType to, void* out) const {
    const auto* strings = in.Data<std::string>();
    const int64_t n = in.num_elements();
    if (to == DType::kString) {
      for (int64_t k = 0; k < n; ++k) static_cast<std::string*>(out)[k] = strings[k];
      return Status::Ok();
    }
    for (int64_t at = 0; at < n; at += kBlock) {
      Word block[kBlock];
      const int64_t m = std::min(kBlock, n - at);
      for (int64_t k = 0; k < m; ++k) {
        TENON_RETURN_IF_ERROR(ParseNumber(strings[at + k], to, &block[k]));
      }
      // Already of the target's kind.
      Put(to, to, out, at, m, block);
    }
    return Status::Ok();
  }

  static void ToStrings(const View& in, std::string* out) {
    Word block[kBlock];
    for (int64_t at = 0; at < in.num_elements(); at += kBlock) {
      const int64_t n = std::min(kBlock, in.num_elements() - at);
      Load(in.dtype, in.data, at, 1, n, block);
      for (int64_t k = 0; k < n; ++k) out[at + k] = FormatNumber(in.dtype, block[k]);
    }
  }

  CastParams params_;
  bool same_width_;
};

}  // namespace

KernelPtr MakeCastReference(const Problem& problem) {
  const DType from = problem.in[0].dtype;
  const DType to = problem.out[0].dtype;
  if (from == to) return MakeIdentity(problem);
  CastParams params;
  params.saturate = problem.attrs.Int("saturate", 1) != 0;
  const std::string mode = problem.attrs.String("round_mode", "up");
  params.round = mode == "up" ? E8M0Round::kUp : mode == "down" ? E8M0Round::kDown : E8M0Round::kNearest;
  return std::unique_ptr<Kernel>(new CastReference(params, DTypeBits(from) == DTypeBits(to) && DTypeBits(to) != 0));
}

}  // namespace tenon::kernels::elementwise
