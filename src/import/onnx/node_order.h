// The order of a graph's nodes, and who uses which name, before anything is built.
#ifndef TENON_IMPORT_ONNX_NODE_ORDER_H_
#define TENON_IMPORT_ONNX_NODE_ORDER_H_

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/status.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tenon::import::onnx_format {

/// "node 'name' (Op)"; a nameless node goes by its first output.
std::string DescribeProto(const onnx::NodeProto& node);

struct NodeOrder {
  std::vector<onnx::NodeProto*> nodes;        ///< each after its producers; otherwise as in the file
  std::unordered_set<std::string_view> used;  ///< names read by nodes (their bodies included)
};

/// `nodes` of one graph or function body. kBadInput for a name with two producers and for a cycle.
Result<NodeOrder> OrderNodes(std::vector<onnx::NodeProto*> nodes);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_NODE_ORDER_H_
