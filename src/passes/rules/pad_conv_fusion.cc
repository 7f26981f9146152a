// A convolution pads with zeros itself.
//   conv(pad(x, p, 0), w, pads q) = conv(x, w, pads p + q)
#include "passes/pass.h"

namespace tenon::passes {
namespace {

// What a Pad node adds before and after each spatial axis, in the order of Conv's `pads`; nullopt when it does anything else.
std::optional<std::vector<int64_t>> SpatialZeros(const Rewriter& r, NodeId pad, size_t rank) {
  const ir::Node& n = r.node(pad);
  if (n.attrs.String("mode", "constant") != "constant") return std::nullopt;
  const ValueId fill = r.In(pad, 2);
  if (fill != kNone && !r.IsScalar(fill, 0)) return std::nullopt;
  const auto amounts = r.ConstInts(r.In(pad, 1));
  if (!amounts || amounts->size() % 2 != 0) return std::nullopt;
  std::vector<int64_t> axes;
  if (const ValueId v = r.In(pad, 3); v != kNone) {
    const auto given = r.ConstInts(v);
    if (!given) return std::nullopt;
    axes = *given;
  } else {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (axes.size() * 2 != amounts->size()) return std::nullopt;
  std::vector<int64_t> pads((rank - 2) * 2, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
    const int64_t before = (*amounts)[i], after = (*amounts)[axes.size() + i];
    if (before == 0 && after == 0) continue;
    if (axis < 2 || axis >= static_cast<int64_t>(rank) || before < 0 || after < 0) return std::nullopt;
    pads[static_cast<size_t>(axis) - 2] += before;
    pads[static_cast<size_t>(axis) - 2 + rank - 2] += after;
  }
  return pads;
}

bool Fuse(Rewriter& r, NodeId id) {
  const NodeId pad = r.Producer(r.In(id, 0), "Pad");
  if (pad == kNone) return false;
  const int rank = r.RankOf(r.In(id, 0));
  const ir::Node& conv = r.node(id);
  const std::string auto_pad = conv.attrs.String("auto_pad", "NOTSET");
  if (rank < 3 || (auto_pad != "NOTSET" && auto_pad != "VALID")) return false;
  const auto zeros = SpatialZeros(r, pad, static_cast<size_t>(rank));
  if (!zeros) return false;
  std::vector<int64_t> pads = auto_pad == "VALID" ? std::vector<int64_t>() : conv.attrs.Ints("pads");
  pads.resize(zeros->size(), 0);
  for (size_t i = 0; i < pads.size(); ++i) {
    if (__builtin_add_overflow(pads[i], (*zeros)[i], &pads[i])) return false;
  }
  Attrs attrs = conv.attrs;
  attrs.Erase("auto_pad");
  attrs.Set("pads", pads);
  std::vector<ValueId> inputs = conv.inputs;
  inputs[0] = r.In(pad, 0);
  const ValueId y = r.Add("Conv", inputs, attrs, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

}  // namespace

Status PadConvFusion(Rewriter& r) {
  return ApplyRules(r, {"Conv"}, {Fuse});
}

}  // namespace tenon::passes
