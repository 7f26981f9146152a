// A served model as a ModelConfig: what clients are told, and what they may send back with a load.
#ifndef TENON_SERVER_CONFIG_MESSAGE_H_
#define TENON_SERVER_CONFIG_MESSAGE_H_

#include <string>

#include "kserve.pb.h"
#include "tenon/server.h"

namespace tenon::server {

inference::ModelConfig ConfigMessage(const ModelDescription& model);

/// The same as JSON.
std::string ConfigJson(const ModelDescription& model);

}  // namespace tenon::server

#endif  // TENON_SERVER_CONFIG_MESSAGE_H_
