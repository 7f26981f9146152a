// AttributeProto to Attrs, with the kinds that the operator's schema allows.
#ifndef TENON_IMPORT_ONNX_ATTRIBUTES_H_
#define TENON_IMPORT_ONNX_ATTRIBUTES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "import/onnx/tensor_reader.h"
#include "tensor/attrs.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tenon::import::onnx_format {

/// What `ref_attr_name` refers to inside a function: the call's attributes and the function's defaults.
using CallAttributes = std::map<std::string, onnx::AttributeProto*>;

struct NodeAttributes {
  Attrs attrs;
  std::vector<std::pair<std::string, onnx::GraphProto*>> graphs;
  CallAttributes protos;  ///< by name, references resolved: what a function called with this node sees
};

/// `op` with its domain ("com.microsoft.X"; the default domain plain). `call` is null outside functions.
Result<NodeAttributes> ReadAttributes(onnx::NodeProto* node, const std::string& op, const CallAttributes* call,
                                      TensorReader* tensors);

/// The value of a Constant node, whichever of its attributes holds it.
Result<Tensor> ConstantValue(const Attrs& attrs);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_ATTRIBUTES_H_
