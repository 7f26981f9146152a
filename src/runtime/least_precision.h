// What a model computes in, told by its kernels.
#ifndef TENON_RUNTIME_LEAST_PRECISION_H_
#define TENON_RUNTIME_LEAST_PRECISION_H_

#include <string>

#include "tenon/session.h"

namespace tenon::runtime {

/// The least that some operator computes in: "f32", "bf16" or "int8".
std::string LeastPrecision(const Session& session);

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_LEAST_PRECISION_H_
