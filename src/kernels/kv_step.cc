#include "kernels/kv_step.h"

namespace tenon::kernels {

const char* KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF16: return "f16";
    case KvType::kBf16: return "bf16";
    case KvType::kF32: return "f32";
    case KvType::kQ8_0: return "q8_0";
  }
  return "?";
}

Result<KvType> ParseKvType(std::string_view name, int64_t head_dim) {
  for (int i = 0; i < kKvTypes; ++i) {
    const auto type = static_cast<KvType>(i);
    if (name != KvTypeName(type)) continue;
    if (type == KvType::kQ8_0 && head_dim % kQ8Block != 0) {
      return Usage("kv_cache q8_0 has blocks of {}, and the heads of this model have {} elements; allowed: f16, bf16, f32",
                   kQ8Block, head_dim);
    }
    return type;
  }
  return Usage("kv_cache '{}'; allowed: f16, bf16, f32, q8_0", name);
}

}  // namespace tenon::kernels
