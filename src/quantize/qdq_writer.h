// Nodes and constants of an ONNX graph, written one after the other.
#ifndef TENON_QUANTIZE_QDQ_WRITER_H_
#define TENON_QUANTIZE_QDQ_WRITER_H_

#include <onnx/onnx_pb.h>

#include <set>
#include <string>
#include <vector>

#include "tensor/attrs.h"

namespace tenon::quantize {

class QdqWriter {
 public:
  /// New nodes go to `nodes`, constants into `graph`; `names` are taken.
  QdqWriter(onnx::GraphProto* graph, std::set<std::string> names) : graph_(graph), names_(std::move(names)) {}

  /// `hint`, or with a number when that is taken.
  std::string Fresh(const std::string& hint);

  std::string Constant(const std::string& hint, DType type, const std::vector<int64_t>& dims, const void* data, size_t bytes);
  std::string Floats(const std::string& hint, const std::vector<float>& values, const std::vector<int64_t>& dims);
  std::string Scalar(const std::string& hint, float value) { return Floats(hint, {value}, {}); }

  /// A node with one output, whose name is `output`, or invented after `name` when that is empty.
  std::string Node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                   const std::string& output = "");
  /// Of the node added last.
  void SetInt(const std::string& name, int64_t value);
  void SetInts(const std::string& name, const std::vector<int64_t>& values);
  void SetFloat(const std::string& name, float value);
  void SetString(const std::string& name, const std::string& value);

  std::vector<onnx::NodeProto>& nodes() { return nodes_; }

 private:
  onnx::AttributeProto* Attribute(const std::string& name);

  onnx::GraphProto* graph_;
  std::set<std::string> names_;
  std::vector<onnx::NodeProto> nodes_;
};

}  // namespace tenon::quantize

#endif  // TENON_QUANTIZE_QDQ_WRITER_H_
