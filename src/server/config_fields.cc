#include "server/config_fields.h"

#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "server/model_json.h"

namespace tenon::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Status Collect(const Message& m, const std::string& path, std::vector<std::string>* without_effect) {
  const google::protobuf::Reflection& reflection = *m.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(m, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = path + field->name();
    const inference::Effect effect = field->options().GetExtension(inference::effect);
    if (effect == inference::REFUSED) return Unsupported("{}; it is not supported; the model would answer otherwise", name);
    if (effect == inference::NO_EFFECT) {
      if (std::find(without_effect->begin(), without_effect->end(), name) == without_effect->end())
        without_effect->push_back(name);
      continue;
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) TENON_RETURN_IF_ERROR(Collect(reflection.GetMessage(m, field), name + ".", without_effect));
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(m, field); ++i)
      TENON_RETURN_IF_ERROR(Collect(reflection.GetRepeatedMessage(m, field, i), name + ".", without_effect));
  }
  return Status::Ok();
}

// Calls `visit` with each value of `json` that belongs to a field, and the field: elements of lists and of maps one by one.
template <typename Visit>
Status ForEachValue(Json& value, const FieldDescriptor& field, const Visit& visit) {
  if (!value.is_array() && !(field.is_map() && value.is_object())) return visit(value, field);
  for (auto& element : value) {
    TENON_RETURN_IF_ERROR(visit(element, field.is_map() ? *field.message_type()->map_value() : field));
  }
  return Status::Ok();
}

Status CheckFields(Json& json, const Descriptor& type, const std::string& path);

Status CheckField(Json& value, const FieldDescriptor& field, const std::string& path) {
  const auto* names = field.enum_type();
  if (names != nullptr && value.is_string() && names->FindValueByName(value.get<std::string>()) == nullptr)
    return BadInput("{}; unknown value '{}'", path, value.get<std::string>());
  return field.message_type() == nullptr ? Status::Ok() : CheckFields(value, *field.message_type(), path + ".");
}

Status CheckFields(Json& json, const Descriptor& type, const std::string& path) {
  if (!json.is_object() || IsUnread(type)) return Status::Ok();
  for (auto& [key, value] : json.items()) {
    const FieldDescriptor* field = type.FindFieldByName(key);
    if (field == nullptr) field = type.FindFieldByCamelcaseName(key);
    if (field == nullptr) return BadInput("unknown field '{}'", path + key);
    TENON_RETURN_IF_ERROR(
        ForEachValue(value, *field, [&](Json& one, const FieldDescriptor& of) { return CheckField(one, of, path + key); }));
  }
  return Status::Ok();
}

// protobuf writes numbers of 64 bits as texts.
Status UnquoteNumbers(Json& json, const Descriptor& type) {
  for (auto& [key, value] : json.items()) {
    const FieldDescriptor* field = type.FindFieldByName(key);
    if (field == nullptr) continue;
    TENON_RETURN_IF_ERROR(ForEachValue(value, *field, [](Json& one, const FieldDescriptor& of) {
      if (of.message_type() != nullptr) return UnquoteNumbers(one, *of.message_type());
      const bool wide = of.cpp_type() == FieldDescriptor::CPPTYPE_INT64 || of.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
      if (wide && one.is_string()) one = Json::parse(one.get<std::string>());
      return Status::Ok();
    }));
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<std::string>> FieldsWithoutEffect(const inference::ModelConfig& m) {
  std::vector<std::string> names;
  TENON_RETURN_IF_ERROR(Collect(m, "", &names));
  return names;
}

bool IsUnread(const Descriptor& type) {
  return type.field_count() == 0 && type.containing_type() == nullptr;
}

Status CheckJsonFields(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return BadInput("no valid JSON");
  return CheckFields(json, *inference::ModelConfig::descriptor(), "");
}

DType DTypeOf(inference::DataType type) {
  for (const auto dtype : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16, DType::kU32,
                           DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kString}) {
    if (ConfigTypeOf(dtype) == type) return dtype;
  }
  return DType::kUndefined;
}

inference::DataType ConfigTypeOf(DType type) {
  inference::DataType config = inference::TYPE_INVALID;
  (void)inference::DataType_Parse(ConfigType(type), &config);
  return config;
}

std::string ToJson(const inference::ModelConfig& m) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(m, &text, options);
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) (void)UnquoteNumbers(json, *m.GetDescriptor());
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tenon::server
