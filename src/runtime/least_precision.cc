#include "runtime/least_precision.h"

namespace tenon::runtime {

std::string LeastPrecision(const Session& session) {
  std::string least = "f32";
  for (const KernelReport& k : session.kernels()) {
    if (k.precision == "int8" || k.precision == "uint8") return "int8";
    if (k.precision == "bfloat16") least = "bf16";
  }
  return least;
}

}  // namespace tenon::runtime
