// How a model asks to be sampled, in its metadata.
#ifndef TENON_GENERATE_MODEL_SETTINGS_H_
#define TENON_GENERATE_MODEL_SETTINGS_H_

#include <map>
#include <string>

#include "generate/sampler.h"

namespace tenon::generate {

/// "tenon.sampling.temperature", and likewise top_k, top_p, min_p, typical_p and repetition_penalty, over those of `options`.
/// kBadInput names what is no number or out of range.
Status TakeModelSettings(const std::map<std::string, std::string>& metadata, SamplerOptions* options);

}  // namespace tenon::generate

#endif  // TENON_GENERATE_MODEL_SETTINGS_H_
