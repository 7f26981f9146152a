// MaxPool of bytes in channels-last pictures: what quantised models have. The baseline's 16 bytes a step are enough: it waits for
// memory.
#include <algorithm>
#include <cstring>

#include "kernels/kernel_util.h"
#include "kernels/pool/pool.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tenon::kernels::pool {
namespace {

constexpr int64_t kGrain = 64 * 1024;  // taps worth a thread

// Signed bytes compare like unsigned ones with the highest bit flipped.
inline void MaxInto(const uint8_t* x, uint8_t flip, uint8_t* y, int64_t n) {
  int64_t i = 0;
#if defined(__SSE2__)
  const __m128i f = _mm_set1_epi8(static_cast<char>(flip));
  for (; i + 16 <= n; i += 16) {
    const __m128i a = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)), f);
    const __m128i b = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(y + i)), f);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), _mm_xor_si128(_mm_max_epu8(a, b), f));
  }
#endif
  for (; i < n; ++i) {
    if (static_cast<uint8_t>(x[i] ^ flip) > static_cast<uint8_t>(y[i] ^ flip)) y[i] = x[i];
  }
}

}  // namespace

Refusal CanNhwcBytes(const Problem& p) {
  if (p.in[0].dtype != DType::kI8 && p.in[0].dtype != DType::kU8) return kRefuseDType;
  if (p.op != "MaxPool") return kRefuseAttribute;
  if (Wants(p.out, 1)) return "Indices are not served";
  if (p.attrs.String("data_layout", "NCHW") != "NHWC") return kRefuseLayout;
  return p.attrs.Ints("kernel_shape").size() <= 2 ? nullptr : kRefuseRank;
}

Status RunNhwcBytes(const PoolParams& params, const RunArgs& args) {
  Axis axes[2];
  const Shape& shape = args.in[0].shape;
  TENON_RETURN_IF_ERROR(ResolveAxes(params, shape, axes + 2 - params.spatial));
  TENON_ASSIGN_OR_RETURN(MutView out, TakeOutput(args, 0, PooledShape(params, shape, axes + 2 - params.spatial)));
  if (out.num_elements() == 0) return {};
  const Axis &h = axes[0], &w = axes[1];
  const int64_t c = shape.dim(-1);
  const uint8_t flip = args.in[0].dtype == DType::kI8 ? 0x80 : 0;
  const int64_t taps = w.out * h.kernel * w.kernel * c;
  args.team.ParallelFor(shape[0] * h.out, 1 + kGrain / taps, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t oh = r % h.out;
      const uint8_t* x = args.in[0].Data<uint8_t>() + r / h.out * h.in * w.in * c;
      uint8_t* y = out.Data<uint8_t>() + r * w.out * c;
      int64_t h0, h1, w0, w1;
      h.Taps(oh, &h0, &h1);
      for (int64_t ow = 0; ow < w.out; ++ow, y += c) {
        w.Taps(ow, &w0, &w1);
        bool first = true;
        for (int64_t kh = h0; kh < h1; ++kh) {
          for (int64_t kw = w0; kw < w1; ++kw) {
            const uint8_t* tap = x + ((h.start(oh) + kh * h.dilation) * w.in + w.start(ow) + kw * w.dilation) * c;
            if (first)
              std::memcpy(y, tap, static_cast<size_t>(c));
            else
              MaxInto(tap, flip, y, c);
            first = false;
          }
        }
        if (first) std::memset(y, flip, static_cast<size_t>(c));  // nothing but padding: the least value
      }
    }
  });
  return {};
}

}  // namespace tenon::kernels::pool
