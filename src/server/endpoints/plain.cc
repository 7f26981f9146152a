// POST /infer[/{model}]: for people with curl. A picture, or JSON with one nested list for each input; types follow from the
// model.
#include <nlohmann/json.hpp>

#include "media/decode.h"
#include "media/preprocess.h"
#include "runtime/host_tensor.h"
#include "server/context.h"
#include "server/model_json.h"
#include "server/plain_tensors.h"
#include "server/submit.h"

namespace tenon::server {
namespace {

using Json = nlohmann::json;

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

Result<std::vector<HostTensor>> ReadLists(const Call& call, const ModelDescription& model) {
  TENON_ASSIGN_OR_RETURN(const Json body, ReadObject(call.request->body));
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
