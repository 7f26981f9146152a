#include "quantize/qdq_writer.h"

#include <fmt/format.h>

namespace tenon::quantize {

std::string QdqWriter::Fresh(const std::string& hint) {
  std::string name = hint;
  for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", hint, i);
  return name;
}

std::string QdqWriter::Constant(const std::string& hint, DType type, const std::vector<int64_t>& dims, const void* data,
                                size_t bytes) {
  onnx::TensorProto* t = graph_->add_initializer();
  t->set_name(Fresh(hint));
  t->set_data_type(static_cast<int32_t>(type));
  for (const int64_t d : dims) t->add_dims(d);
  t->set_raw_data(data, bytes);
  return t->name();
}

std::string QdqWriter::Floats(const std::string& hint, const std::vector<float>& values, const std::vector<int64_t>& dims) {
  return Constant(hint, DType::kF32, dims, values.data(), values.size() * sizeof(float));
}

std::string QdqWriter::Node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                            const std::string& output) {
  onnx::NodeProto& n = nodes_.emplace_back();
  n.set_op_type(op);
  n.set_name(name);
  for (const std::string& i : inputs) n.add_input(i);
  n.add_output(output.empty() ? Fresh(name + "_output") : output);
  return n.output(0);
}

onnx::AttributeProto* QdqWriter::Attribute(const std::string& name) {
  onnx::AttributeProto* a = nodes_.back().add_attribute();
  a->set_name(name);
  return a;
}

void QdqWriter::SetInt(const std::string& name, int64_t value) {
  auto* a = Attribute(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}

void QdqWriter::SetInts(const std::string& name, const std::vector<int64_t>& values) {
  auto* a = Attribute(name);
  a->set_type(onnx::AttributeProto::INTS);
  for (const int64_t v : values) a->add_ints(v);
}

void QdqWriter::SetFloat(const std::string& name, float value) {
  auto* a = Attribute(name);
  a->set_type(onnx::AttributeProto::FLOAT);
  a->set_f(value);
}

void QdqWriter::SetString(const std::string& name, const std::string& value) {
  auto* a = Attribute(name);
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s(value);
}

}  // namespace tenon::quantize
