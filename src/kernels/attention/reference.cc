// Attention, plainly, in double: one query of one head at a time.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/float_io.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::attention {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// What positions and mask add to the score of key j: 0 or a number, or -inf where it is hidden.
double Bias(const Core& c, const View& mask, int64_t b, int64_t h, int64_t i, int64_t j, KeyRange visible) {
  if (j < visible.first || j >= visible.last) return kMinusInf;
  if (c.mask == nullptr) return 0;
  const int64_t at = b * c.mask_batch + h * c.mask_head + i * c.mask_seq + j * c.mask_key;
  if (c.mask_is_bool) return mask.Data<bool>()[at] ? 0 : kMinusInf;
  return LoadAt(mask, at);
}

template <typename T>
void Query(const AttentionParams& params, const Core& c, const View& mask, int64_t b, int64_t h, int64_t i,
           std::vector<double>& p, T* qk_out) {
  const int64_t g = h / (c.heads / c.kv_heads);
  const T* q = static_cast<const T*>(c.q) + b * c.q_step.batch + h * c.q_step.head + i * c.q_step.seq;
  const T* k = static_cast<const T*>(c.k) + b * c.k_step.batch + g * c.k_step.head;
  const T* v = static_cast<const T*>(c.v) + b * c.v_step.batch + g * c.v_step.head;
  T* y = static_cast<T*>(c.y) + b * c.y_step.batch + h * c.y_step.head + i * c.y_step.seq;
  const KeyRange visible = VisibleKeys(c, b, i);
  double max = kMinusInf;
  bool hidden = true;
  for (int64_t j = 0; j < c.k_len; ++j) {
    double s = 0;
    for (int64_t d = 0; d < c.dim; ++d) s += LoadF(q[d]) * LoadF(k[j * c.k_step.seq + d]);
    s *= static_cast<double>(c.scale);
    if (qk_out != nullptr && params.qk_output_mode == 0) qk_out[j] = StoreF<T>(s);
    if (c.softcap > 0) s = static_cast<double>(c.softcap) * std::tanh(s / static_cast<double>(c.softcap));
    if (qk_out != nullptr && params.qk_output_mode == 1) qk_out[j] = StoreF<T>(s);
    const double bias = Bias(c, mask, b, h, i, j, visible);
    if (bias != kMinusInf) hidden = false;
    s = bias == kMinusInf ? bias : s + bias;
    if (qk_out != nullptr && params.qk_output_mode == 2) qk_out[j] = StoreF<T>(s);
    p[static_cast<size_t>(j)] = s;
    if (s > max || std::isnan(s)) max = s;
  }
  if (max == kMinusInf) hidden = true;
  double sum = 0;
  for (double& s : p) {
    s = hidden ? 0 : std::exp(s - max);
    sum += s;
  }
  for (double& s : p) s = hidden ? 0 : s / sum;
  for (int64_t j = 0; qk_out != nullptr && params.qk_output_mode == 3 && j < c.k_len; ++j) {
    qk_out[j] = StoreF<T>(p[static_cast<size_t>(j)]);
  }
  for (int64_t e = 0; e < c.v_dim; ++e) {
    double acc = 0;
    for (int64_t j = 0; j < c.k_len; ++j) {
      // A hidden key does not count even where its value is not finite.
      if (p[static_cast<size_t>(j)] != 0) acc += p[static_cast<size_t>(j)] * LoadF(v[j * c.v_step.seq + e]);
    }
    y[e] = StoreF<T>(acc);
  }
}

}  // namespace

Status RunReference(const AttentionParams& params, const Core& core, const RunArgs& args) {
  const View mask = args.Has(3) ? args.in[3] : View{};
  void* qk = nullptr;
  if (Wants(std::span<const MutView>(args.out), 3)) {
    TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 3, {core.batch, core.heads, core.q_len, core.k_len}));
    qk = out.data;
  }
  std::vector<double> p(static_cast<size_t>(core.k_len));
  const bool known = DispatchDType<TENON_FLOAT_TYPES>(args.in[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t r = 0; r < core.batch * core.heads * core.q_len; ++r) {
      const int64_t b = r / core.q_len / core.heads, h = r / core.q_len % core.heads, i = r % core.q_len;
      Query<T>(params, core, mask, b, h, i, p, qk == nullptr ? nullptr : static_cast<T*>(qk) + r * core.k_len);
    }
  });
  return known ? Status() : Unsupported("attention of {}", DTypeName(args.in[0].dtype));
}

}  // namespace tenon::kernels::attention
