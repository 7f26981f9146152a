// Models as the KServe protocol describes them.
#ifndef TENON_SERVER_MODEL_JSON_H_
#define TENON_SERVER_MODEL_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/server.h"

namespace tenon::server {

inline constexpr const char* kPlatform = "tenon";
/// The index, in statistics, of the response to a request.
inline constexpr const char* kOnlyResponse = "0";
/// "ensemble" for one.
const char* PlatformOf(const ModelConfig& config);
/// A part as the protocol names it: its model, or "tenon.STEP".
std::string PartName(const EnsemblePart& part);
/// What the server reports to speak beyond the core protocol.
const std::vector<std::string>& Extensions();

/// Extents with -1 for every one that is no number.
std::vector<int64_t> WireShape(const TensorInfo& info);
/// The same without the leading extent where requests are joined along it, as configurations have it.
std::vector<int64_t> WireDims(const TensorInfo& info, const ModelConfig& config);
/// "TYPE_FP32", "TYPE_STRING", ...
std::string ConfigType(DType type);

/// Of the only response that a request has: ran well, and failed otherwise than by being cancelled.
DurationSum ResponseSuccess(const ModelStatistics& s);
DurationSum ResponseFailure(const ModelStatistics& s);

std::string MetadataJson(const ModelDescription& model);
std::string StatisticsJson(const std::vector<ModelStatistics>& all);

}  // namespace tenon::server

#endif  // TENON_SERVER_MODEL_JSON_H_
