// Which fields of a ModelConfig are served, are without effect here, or must not be left out: kserve.proto says it of each.
#ifndef TENON_SERVER_CONFIG_FIELDS_H_
#define TENON_SERVER_CONFIG_FIELDS_H_

#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "kserve.pb.h"

namespace tenon::server {

/// Fields without effect, once each. kUnsupported names a field that asks for what is not done here.
Result<std::vector<std::string>> FieldsWithoutEffect(const inference::ModelConfig& m);

/// A message whose content nobody here reads, as this one has no fields for it.
bool IsUnread(const google::protobuf::Descriptor& type);

/// kBadInput: a key of this text of a ModelConfig that is no field, or an unknown name of a kind. (protobuf's own reader takes
/// all or none of what it does not know.)
Status CheckJsonFields(const std::string& text);

/// kUndefined for types that have no name there; TYPE_INVALID for those that have none here.
DType DTypeOf(inference::DataType type);
inference::DataType ConfigTypeOf(DType type);

/// The message as JSON with the names of config.pbtxt, numbers of 64 bits as numbers.
std::string ToJson(const inference::ModelConfig& m);

}  // namespace tenon::server

#endif  // TENON_SERVER_CONFIG_FIELDS_H_
