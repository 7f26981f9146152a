#include <string_view>
#include <unordered_map>

#include "kernels/kernel.h"
#include "kernels/refusals.h"

#define FAMILY(name)                      \
  namespace tenon::kernels::name {        \
  std::span<const OpKernels> Operators(); \
  }
#include "kernels/families.inc"
#undef FAMILY

namespace tenon::kernels {

std::span<const std::span<const OpKernels>> AllFamilies() {
  static const std::vector<std::span<const OpKernels>> families = {
#define FAMILY(name) name::Operators(),
#include "kernels/families.inc"
#undef FAMILY
  };
  return families;
}

const OpKernels* FindOp(std::string_view op) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const OpKernels*>();
    for (const auto& family : AllFamilies()) {
      for (const OpKernels& o : family) {
        const bool fresh = map->emplace(o.op, &o).second;
        CHECK(fresh);  // one home for each operator
      }
    }
    return map;
  }();
  auto it = index->find(op);
  return it == index->end() ? nullptr : it->second;
}

Result<Choice> ChooseRow(const Problem& problem, std::string_view forced) {
  const OpKernels* op = FindOp(problem.op);
  if (op == nullptr) return Unsupported("operator {} has no kernel", problem.op);
  Choice choice;
  for (const Row& row : op->rows) {
    if (!forced.empty() && row.name != forced) continue;
    Refusal refusal = nullptr;
    if (!hw::Covers(problem.isa, row.needs)) {
      refusal = kRefuseIsa;
    } else if (row.can != nullptr) {
      refusal = row.can(problem);
    }
    if (refusal == nullptr) {
      choice.row = &row;
      return choice;
    }
    choice.refused.emplace_back(row.name, refusal);
  }
  const char* why = choice.refused.empty() ? "no such kernel" : choice.refused.back().second;
  std::string types;
  for (const ValueInfo& v : problem.in) types += (types.empty() ? "" : ", ") + std::string(DTypeName(v.dtype));
  return Unsupported("operator {}({}): {}", problem.op, types, why);
}

std::vector<std::string_view> OtherRows(const Problem& problem, const Row& row) {
  std::vector<std::string_view> names;
  const OpKernels* op = FindOp(problem.op);
  if (op == nullptr) return names;
  for (const Row& other : op->rows) {
    if (&other <= &row || other.name == "reference" || !hw::Covers(problem.isa, other.needs)) continue;
    if (other.can == nullptr || other.can(problem) == nullptr) names.push_back(other.name);
  }
  return names;
}

}  // namespace tenon::kernels
