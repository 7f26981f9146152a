#include "import/onnx/upgrade.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace tenon::import::onnx_format {

namespace {

struct Step {
  int64_t since;
  UpgradeStep apply;
};

const std::map<std::string, std::vector<Step>, std::less<>>& Table() {
  static const auto* table = [] {
    auto* t = new std::map<std::string, std::vector<Step>, std::less<>>();
#define UPGRADE(op, since, function) (*t)[op].push_back({since, function});
#include "import/onnx/upgrade.inc"
#undef UPGRADE
    for (auto& [op, steps] : *t) {
      std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.since < b.since; });
    }
    return t;
  }();
  return *table;
}

}  // namespace

Status Upgrade(Builder* b, Pending* p) {
  p->node.attrs.Erase("consumed_inputs");  // in-place hints of opset < 6
  int64_t reached = p->version;
  for (;;) {
    auto it = Table().find(p->node.op);
    if (it == Table().end()) return Status::Ok();
    const auto& steps = it->second;
    auto step = std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.since > reached; });
    if (step == steps.end()) return Status::Ok();
    TENON_RETURN_IF_ERROR(step->apply(b, p));
    reached = step->since;
  }
}

bool HasUpgrade(std::string_view op) {
  return Table().find(op) != Table().end();
}

ir::ValueId DivertOutput(Builder* b, Pending* p, size_t index) {
  const ir::ValueId inner = b->NewValue(p->node.op);
  p->node.outputs[index] = inner;
  return inner;
}

void After(Pending* p, const char* op, std::vector<ir::ValueId> inputs, Attrs attrs, ir::ValueId output) {
  ir::Node node;
  node.op = op;
  node.name = p->node.name;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.outputs = {output};
  p->after.push_back(std::move(node));
}

void AttrToInput(Builder* b, Pending* p, const char* name, size_t index) {
  if (!p->node.attrs.Has(name)) return;
  if (!p->Has(index)) p->SetIn(index, b->Ints(p->node.attrs.Ints(name)));
  p->node.attrs.Erase(name);
}

}  // namespace tenon::import::onnx_format
