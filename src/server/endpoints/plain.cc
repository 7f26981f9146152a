// POST /infer[/{model}]: for people with curl. A picture, or JSON with one nested list for each input; types follow from the
// model.
#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>

#include "base/dtype.h"
#include "media/decode.h"
#include "media/preprocess.h"
#include "runtime/host_tensor.h"
#include "server/context.h"
#include "server/model_json.h"
#include "server/submit.h"

namespace tenon::server {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxJson = 16 << 20;
constexpr int kMaxDepth = 16;

// The model named, or the only one there is that is no part of another: people want the whole.
Result<ModelDescription> ModelOf(const Call& call) {
  if (!call.args.empty()) return call.context.models.Describe(call.args[0]);
  std::string names, only;
  int count = 0;
  for (const ModelState& m : call.context.models.Index()) {
    if (m.state != "READY" || m.name == only || m.part) continue;
    ++count;
    only = m.name;
    names += (names.empty() ? "" : ", ") + m.name;
  }
  if (count == 1) return call.context.models.Describe(only);
  return Usage("which model? POST /infer/NAME with one of: {}", names.empty() ? "(none is loaded)" : names);
}

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

Result<std::vector<HostTensor>> ReadLists(const Call& call, const ModelDescription& model) {
  if (call.request->body.size() > kMaxJson)
    return ResourceLimit("{} bytes of JSON; {} are allowed here", call.request->body.size(), kMaxJson);
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  const Json body = Json::parse(call.request->body, watch, /*allow_exceptions=*/false);
  if (too_deep) return Usage("the body is nested deeper than {} levels", kMaxDepth);
  if (!body.is_object()) return Usage("the body is neither a picture nor a JSON object of inputs");
  const Json& inputs = body.contains("inputs") && body["inputs"].is_object() ? body["inputs"] : body;
  std::vector<HostTensor> tensors;
  for (const auto& [name, list] : inputs.items()) {
    const auto it =
        std::find_if(model.inputs.begin(), model.inputs.end(), [&, n = name](const TensorInfo& i) { return i.name == n; });
    if (it == model.inputs.end()) return Usage("unknown input '{}'", name);
    TENON_ASSIGN_OR_RETURN(HostTensor t, FromLists(*it, list));
    tensors.push_back(std::move(t));
  }
  return tensors;
}

// Without settings of the model's own: RGB, resized to what the model takes (multiples of 32 where it takes any size), levels /
// 255 for floating point.
Result<media::Preprocess> StepsOf(const ModelDescription& model, const TensorInfo& input, const Picture& picture) {
  const auto own = model.config.parameters.find("preprocess");
  if (own != model.config.parameters.end()) return media::ParsePreprocess(own->second);
  media::Preprocess steps;
  const std::vector<int64_t> shape = WireShape(input);
  if (shape.size() != 4) return Usage("the model takes no picture: input '{}' has {} dimensions", input.name, shape.size());
  steps.channels_last = shape[3] == 3 && shape[1] != 3;
  const int64_t height = steps.channels_last ? shape[1] : shape[2], width = steps.channels_last ? shape[2] : shape[3];
  constexpr int kStride = 32;
  const auto fitted = [](int64_t extent, int own_extent) {
    return extent > 0 ? static_cast<int>(std::min<int64_t>(extent, 1 << 14))
                      : std::max(1, (own_extent + kStride / 2) / kStride) * kStride;
  };
  steps.resize_height = fitted(height, picture.height);
  steps.resize_width = fitted(width, picture.width);
  if (input.dtype != DType::kU8) steps.scale = 1.0 / 255;
  return steps;
}

Result<std::vector<HostTensor>> ReadPictureInput(const Call& call, const ModelDescription& model) {
  if (model.inputs.size() != 1) return Usage("the model takes {} inputs; a picture is one", model.inputs.size());
  const std::string& body = call.request->body;
  const TensorInfo& input = model.inputs[0];
  if (input.dtype == DType::kU8 && input.has_rank && input.dims.size() == 1) {   // it decodes the file itself
    HostTensor file;
    file.name = input.name;
    file.dtype = DType::kU8;
    file.shape = {static_cast<int64_t>(body.size())};
    file.data = body.data();
    file.bytes = body.size();
    file.owner = call.request;
    return std::vector<HostTensor>{std::move(file)};
  }
  constexpr int64_t kMostPixels = 40000000;
  TENON_ASSIGN_OR_RETURN(const Picture picture,
                         media::DecodePicture({reinterpret_cast<const uint8_t*>(body.data()), body.size()}, kMostPixels));
  TENON_ASSIGN_OR_RETURN(const media::Preprocess steps, StepsOf(model, model.inputs[0], picture));
  TENON_ASSIGN_OR_RETURN(const Tensor prepared, media::Prepare(picture, steps, model.inputs[0].dtype));
  return std::vector<HostTensor>{runtime::ToHost(model.inputs[0].name, prepared)};
}

}  // namespace

void PlainInfer(Call& call) {
  const auto model = ModelOf(call);
  if (!model.ok())
    return call.ReplyError(call.args.empty() ? Outcome::kBadRequest : Outcome::kNotFound, model.status().message());
  const std::string& body = call.request->body;
  const bool picture = media::IsKnownPicture({reinterpret_cast<const uint8_t*>(body.data()), body.size()});
  auto inputs = picture ? ReadPictureInput(call, *model) : ReadLists(call, *model);
  if (!inputs.ok()) return RefuseInfer(call, model->name, inputs.status());
  InferCall infer;
  infer.request.model = model->name;
  infer.request.inputs = std::move(inputs).value();
  Submit(call, std::move(infer));
}

}  // namespace tenon::server
