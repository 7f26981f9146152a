#include "generate/model_settings.h"

#include <charconv>

namespace tenon::generate {
namespace {

template <typename T>
Status Take(const std::map<std::string, std::string>& metadata, const char* name, T* to) {
  const auto it = metadata.find(fmt::format("tenon.sampling.{}", name));
  if (it == metadata.end()) return {};
  const std::string& text = it->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *to);
  if (error != std::errc() || end != text.data() + text.size())
    return BadInput("metadata '{}' is '{}'; a number needed", it->first, text);
  return {};
}

}  // namespace

Status TakeModelSettings(const std::map<std::string, std::string>& metadata, SamplerOptions* options) {
  SamplerOptions asked;   // alone, so that an error is the model's own
  TENON_RETURN_IF_ERROR(Take(metadata, "temperature", &asked.temperature));
  TENON_RETURN_IF_ERROR(Take(metadata, "top_k", &asked.top_k));
  TENON_RETURN_IF_ERROR(Take(metadata, "top_p", &asked.top_p));
  TENON_RETURN_IF_ERROR(Take(metadata, "min_p", &asked.min_p));
  TENON_RETURN_IF_ERROR(Take(metadata, "typical_p", &asked.typical_p));
  TENON_RETURN_IF_ERROR(Take(metadata, "repetition_penalty", &asked.repetition_penalty));
  if (const Status fine = asked.Check(); !fine.ok()) return BadInput("the model's metadata asks for {}", fine.message());
  options->temperature = asked.temperature, options->top_k = asked.top_k, options->top_p = asked.top_p;
  options->min_p = asked.min_p, options->typical_p = asked.typical_p, options->repetition_penalty = asked.repetition_penalty;
  return {};
}

}  // namespace tenon::generate
