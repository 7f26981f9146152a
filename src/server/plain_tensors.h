// Tensors as nested lists of JSON without type or shape: these follow from the model.
#ifndef TENON_SERVER_PLAIN_TENSORS_H_
#define TENON_SERVER_PLAIN_TENSORS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tenon/session.h"

namespace tenon::server {

/// An object of JSON, of bounded size and depth. kResourceLimit, kUsage.
Result<nlohmann::json> ReadObject(const std::string& text);

/// `list` as the input `info`, with the shape that the nesting has. kUsage names the input and what is expected.
Result<HostTensor> FromLists(const TensorInfo& info, const nlohmann::json& list);

}  // namespace tenon::server

#endif  // TENON_SERVER_PLAIN_TENSORS_H_
