#include "server/plain_tensors.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/status.h"

namespace tenon::server {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxJson = 16 << 20;
constexpr int kMaxDepth = 16;

Status Flatten(const Json& list, size_t depth, std::vector<int64_t>* shape, std::vector<const Json*>* leaves) {
  if (!list.is_array()) {
    if (depth != shape->size()) return Usage("lists of different depth");
    leaves->push_back(&list);
    return Status::Ok();
  }
  const auto n = static_cast<int64_t>(list.size());
  if (depth == shape->size()) {
    if (!leaves->empty()) return Usage("lists of different depth");
    shape->push_back(n);
  }
  if ((*shape)[depth] != n) return Usage("lists of different length, {} and {}", (*shape)[depth], n);
  for (const Json& item : list) TENON_RETURN_IF_ERROR(Flatten(item, depth + 1, shape, leaves));
  return Status::Ok();
}

template <typename T>
Status Fill(const std::vector<const Json*>& leaves, HostTensor* t) {
  auto values = std::make_shared<std::vector<T>>();
  for (const Json* leaf : leaves) {
    if (!leaf->is_number() && !leaf->is_boolean()) return Usage("a number is expected");
    const double d = leaf->is_boolean() ? leaf->get<bool>() : leaf->get<double>();
    if constexpr (std::is_integral_v<T>) {
      if (leaf->is_number_float() || d < static_cast<double>(std::numeric_limits<T>::min()) ||
          d > static_cast<double>(std::numeric_limits<T>::max())) {
        return Usage("an integer of {} is expected", DTypeName(t->dtype));
      }
      values->push_back(leaf->is_boolean() ? static_cast<T>(d) : leaf->get<T>());
    } else {
      values->push_back(static_cast<T>(d));
    }
  }
  t->data = values->data();
  t->bytes = values->size() * sizeof(T);
  t->owner = values;
  return Status::Ok();
}

}  // namespace

Result<Json> ReadObject(const std::string& text) {
  if (text.size() > kMaxJson) return ResourceLimit("{} bytes of JSON; {} are allowed here", text.size(), kMaxJson);
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  Json body = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep) return Usage("the body is nested deeper than {} levels", kMaxDepth);
  if (!body.is_object()) return Usage("the body is no JSON object");
  return body;
}

Result<HostTensor> FromLists(const TensorInfo& info, const Json& list) {
  HostTensor t;
  t.name = info.name;
  t.dtype = info.dtype;
  std::vector<const Json*> leaves;
  const auto within = [&](Status status) { return std::move(status).Within(fmt::format("input '{}'", info.name)); };
  TENON_RETURN_IF_ERROR(within(Flatten(list, 0, &t.shape, &leaves)));
  switch (info.dtype) {
    case DType::kBool:
    case DType::kU8: TENON_RETURN_IF_ERROR(within(Fill<uint8_t>(leaves, &t))); break;
    case DType::kI8: TENON_RETURN_IF_ERROR(within(Fill<int8_t>(leaves, &t))); break;
    case DType::kI32: TENON_RETURN_IF_ERROR(within(Fill<int32_t>(leaves, &t))); break;
    case DType::kI64: TENON_RETURN_IF_ERROR(within(Fill<int64_t>(leaves, &t))); break;
    case DType::kF32: TENON_RETURN_IF_ERROR(within(Fill<float>(leaves, &t))); break;
    case DType::kF64: TENON_RETURN_IF_ERROR(within(Fill<double>(leaves, &t))); break;
    case DType::kString:
      for (const Json* leaf : leaves) {
        if (!leaf->is_string()) return Usage("input '{}'; a string is expected", info.name);
        t.strings.push_back(leaf->get<std::string>());
      }
      break;
    default:
      return Unsupported("input '{}'; {} has no plain form; use /v2/models/{{name}}/infer", info.name, DTypeName(info.dtype));
  }
  return t;
}

}  // namespace tenon::server
