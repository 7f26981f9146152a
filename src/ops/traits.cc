#include <algorithm>
#include <array>

#include "ops/op.h"

namespace tenon::ops {
namespace {

struct Row {
  std::string_view op;
  uint32_t traits;
};

constexpr std::array kRows = {
#define OP(name, traits) Row{name, traits},
#include "ops/ops.inc"
#undef OP
};
static_assert(std::is_sorted(kRows.begin(), kRows.end(), [](const Row& a, const Row& b) { return a.op < b.op; }),
              "ops.inc is kept in alphabetical order");

}  // namespace

uint32_t TraitsOf(std::string_view op) {
  auto it = std::lower_bound(kRows.begin(), kRows.end(), op, [](const Row& r, std::string_view key) { return r.op < key; });
  return it != kRows.end() && it->op == op ? it->traits : 0u;
}

bool IsSupported(std::string_view op) {
  return HasTrait(op, kControlFlow) || kernels::FindOp(op) != nullptr;
}

std::string Describe(const ir::Node& node) {
  return fmt::format("node '{}' ({})", node.name, node.op);
}

}  // namespace tenon::ops
