#include "serve/steps/step.h"

#include <fmt/ranges.h>
#include <array>

#include "base/dtype.h"

namespace tenon::serve {

#define STEP(name) const StepKind& Kind_##name();
#include "serve/steps/steps.inc"
#undef STEP

namespace {

using KindOf = const StepKind& (*)();
constexpr KindOf kKinds[] = {
#define STEP(name) Kind_##name,
#include "serve/steps/steps.inc"
#undef STEP
};

}  // namespace

const StepKind* FindStepKind(std::string_view name) {
  for (const KindOf kind : kKinds) {
    if (kind().name == name) return &kind();
  }
  return nullptr;
}

std::string StepKindNames() {
  std::string names;
  for (const KindOf kind : kKinds) names += (names.empty() ? "" : ", ") + std::string(kind().name);
  return names;
}

Result<std::unique_ptr<Step>> MakeStep(const StepKind& kind, const std::map<std::string, std::string>& parameters,
                                       const std::map<std::string, std::string>& metadata) {
  Parameters reader(parameters, metadata);
  auto step = kind.make(reader);
  Status status = reader.Finish();
  if (status.ok()) status = step.status();
  if (!status.ok()) return std::move(status).Within(fmt::format("step {}", kind.name));
  return step;
}

Status StepContext::Take(uint64_t bytes, const char* what) {
  if (bytes > bytes_left) return ResourceLimit("{}; {} bytes; {} are left for this request", what, bytes, bytes_left);
  bytes_left -= bytes;
  return Status::Ok();
}

Result<HostTensor> NewTensor(DType dtype, std::vector<int64_t> shape, StepContext& context) {
  double elements = 1;
  for (int64_t extent : shape) elements *= static_cast<double>(extent);
  constexpr double kMost = 1e15;
  if (elements > kMost) return ResourceLimit("a tensor of [{}]", fmt::join(shape, ","));
  HostTensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.bytes = DTypeBytes(dtype, static_cast<int64_t>(elements));
  TENON_RETURN_IF_ERROR(context.Take(t.bytes, "a tensor"));
  const auto memory = std::shared_ptr<char[]>(new char[std::max<size_t>(t.bytes, 1)]());
  t.data = memory.get();
  t.owner = memory;
  return t;
}

Result<HostTensor> FromPicture(Picture picture, StepContext& context) {
  TENON_RETURN_IF_ERROR(context.Take(picture.pixels.size(), "a picture"));
  const auto kept = std::make_shared<Picture>(std::move(picture));
  HostTensor t;
  t.dtype = DType::kU8;
  t.shape = {kept->height, kept->width, 3};
  t.data = kept->pixels.data();
  t.bytes = kept->pixels.size();
  t.owner = kept;
  return t;
}

Result<media::PictureView> AsPicture(const HostTensor& t, const char* what) {
  TENON_RETURN_IF_ERROR(ExpectShape(t, {-1, -1, 3}, what));
  constexpr int64_t kMostSide = 1 << 16;
  if (t.shape[0] < 1 || t.shape[1] < 1 || t.shape[0] > kMostSide || t.shape[1] > kMostSide)
    return Usage("{}; a picture of {}x{}; sides of 1..{} are allowed", what, t.shape[1], t.shape[0], kMostSide);
  return media::PictureView(static_cast<int>(t.shape[1]), static_cast<int>(t.shape[0]), Data<uint8_t>(t));
}

HostTensor FromStrings(std::vector<std::string> strings) {
  HostTensor t;
  t.dtype = DType::kString;
  t.shape = {static_cast<int64_t>(strings.size())};
  t.strings = std::move(strings);
  return t;
}

HostTensor FromList(std::vector<HostTensor> list) {
  HostTensor t;
  t.dtype = list.empty() ? DType::kUndefined : list[0].dtype;
  t.is_sequence = true;
  t.sequence = std::move(list);
  return t;
}

std::span<const HostTensor> AsList(const HostTensor& t) {
  if (t.is_sequence) return t.sequence;
  return {&t, 1};
}

Status ExpectShape(const HostTensor& t, const std::vector<int64_t>& shape, const char* what) {
  bool fits = !t.is_sequence && t.shape.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = shape[d] < 0 || shape[d] == t.shape[d];
  if (fits) return Status::Ok();
  return Usage("{}; shape [{}]; [{}] is expected, -1 being any", what, fmt::join(t.shape, ","), fmt::join(shape, ","));
}

}  // namespace tenon::serve
