#include "compile/precision.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "kernels/kernel.h"

namespace tenon::compile {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxListBytes = 1 << 20;

// Our words and ATC's (--precision_mode, --precision_mode_v2).
constexpr std::array kFull = {"f32", "fp32", "origin", "force_fp32", "must_keep_origin_dtype"};
constexpr std::array kBrain = {"bf16", "allow_fp32_to_bf16"};
constexpr std::array kMixed = {"mixed", "mixed_bfloat16", "allow_mix_precision_bf16"};
constexpr std::array kHalf = {"f16",
                              "fp16",
                              "force_fp16",
                              "cube_fp16in_fp32out",
                              "allow_mix_precision",
                              "allow_fp32_to_fp16",
                              "allow_mix_precision_fp16",
                              "mixed_float16"};
constexpr std::array kInteger = {"int8", "int4"};

template <typename List>
bool Contains(const List& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

Result<std::vector<std::string>> Names(const Json& list, const char* key, const std::string& where) {
  std::vector<std::string> names;
  if (!list.contains(key)) return names;
  for (const Json& name : list[key]) {
    if (!name.is_string() || kernels::FindOp(name.get<std::string>()) == nullptr) {
      return BadInput("mixlist, {} of {}: {}; allowed: names of operators, as \"MatMul\"", key, where, name.dump());
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

// {"black-list": {"to-add": [...], "to-remove": [...]}, "white-list": ..., "gray-list": ...}
Status ApplyMixlist(const std::string& text, PrecisionWish* wish) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) return BadInput("not a JSON object with black-list, white-list, gray-list");
  struct List {
    const char* name;
    std::set<std::string, std::less<>>* set;
  };
  passes::PrecisionPolicy& p = wish->policy;
  const std::array lists = {List{"black-list", &p.black}, List{"white-list", &p.white}, List{"gray-list", &p.grey}};
  for (const auto& [key, value] : root.items()) {
    const bool known = std::any_of(lists.begin(), lists.end(), [&k = key](const List& l) { return k == l.name; });
    if (!known || !value.is_object()) return BadInput("'{}'; allowed: black-list, white-list, gray-list, each an object", key);
    for (const auto& [edit, names] : value.items()) {
      if ((edit != "to-add" && edit != "to-remove") || !names.is_array())
        return BadInput("'{}' in {}; allowed: to-add and to-remove, each a list of operators", edit, key);
    }
  }
  std::map<std::string, std::string> added;
  for (const List& l : lists) {
    if (!root.contains(l.name)) continue;
    TENON_ASSIGN_OR_RETURN(const auto remove, Names(root[l.name], "to-remove", l.name));
    for (const std::string& op : remove) {
      l.set->erase(op);
      // On no list any more: as good as black, also as a part of a fused operator.
      if (l.set != &p.black) p.black.insert(op);
    }
  }
  for (const List& l : lists) {
    if (!root.contains(l.name)) continue;
    TENON_ASSIGN_OR_RETURN(const auto add, Names(root[l.name], "to-add", l.name));
    for (const std::string& op : add) {
      if (const auto [it, fresh] = added.emplace(op, l.name); !fresh && it->second != l.name)
        return BadInput("'{}' is added to {} and to {}; one of them", op, it->second, l.name);
      for (const List& other : lists) other.set->erase(op);
      l.set->insert(op);
      if (l.set == &p.white) wish->must_lower.insert(op);
    }
  }
  return Status::Ok();
}

Status ApplyKeepDtype(const std::string& text, PrecisionWish* wish) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = Trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (line.empty() || line[0] == '#') continue;
    constexpr std::string_view kType = "OpType::";
    if (!line.starts_with(kType)) {
      wish->policy.keep_nodes.insert(line);
      continue;
    }
    const std::string op = line.substr(kType.size());
    if (kernels::FindOp(op) == nullptr) return BadInput("'{}'; there is no such operator", line);
    wish->policy.black.insert(op);
  }
  return Status::Ok();
}

void CollectNames(const ir::Graph& graph, std::set<std::string, std::less<>>* names) {
  for (size_t i = 0; i < graph.num_node_slots(); ++i) {
    const ir::Node& node = graph.node(static_cast<ir::NodeId>(i));
    if (node.dead) continue;
    names->insert(node.name);
    for (const auto& body : node.bodies) CollectNames(*body, names);
  }
}

}  // namespace

Result<PrecisionWish> ReadPrecision(const CompileOptions& options) {
  const std::string& word = options.precision;
  PrecisionWish wish;
  const bool mixed = Contains(kMixed, word);
  if (mixed || Contains(kBrain, word)) {
    wish.policy = passes::DefaultPolicy();
    wish.policy.bf16 = true;
  } else if (Contains(kHalf, word)) {
    return Unsupported("precision '{}'; f16 is not computed in; bf16 has the range of f32 and the faster units here", word);
  } else if (Contains(kInteger, word)) {
    return Unsupported("precision '{}'; integers need ranges measured on data: tenon quantize", word);
  } else if (!Contains(kFull, word)) {
    return Usage("unknown precision '{}'; allowed: f32, bf16, mixed", word);
  }
  if (!options.mixlist.empty()) {
    if (!mixed) return Usage("a mixlist with precision '{}'; allowed with: mixed", word);
    TENON_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.mixlist, kMaxListBytes));
    TENON_RETURN_IF_ERROR(ApplyMixlist(text, &wish).Within(fmt::format("mixlist '{}'", options.mixlist)));
  }
  if (!options.keep_dtype.empty()) {
    TENON_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.keep_dtype, kMaxListBytes));
    TENON_RETURN_IF_ERROR(ApplyKeepDtype(text, &wish).Within(fmt::format("keep-dtype file '{}'", options.keep_dtype)));
  }
  wish.policy.keep_nodes.insert(options.keep_nodes.begin(), options.keep_nodes.end());
  if (wish.policy.lowers() && Contains(options.disabled_passes, "LowerPrecision"))
    return Usage("precision '{}' with the pass LowerPrecision disabled; one of them", word);
  return wish;
}

Status CheckKeptNodes(const passes::PrecisionPolicy& policy, const ir::Graph& imported) {
  if (policy.keep_nodes.empty()) return Status::Ok();
  std::set<std::string, std::less<>> names;
  CollectNames(imported, &names);
  for (const std::string& name : policy.keep_nodes) {
    if (!names.contains(name)) return BadInput("keep-dtype: the model has no node '{}'", name);
  }
  return Status::Ok();
}

Status CheckObeyed(const PrecisionWish& wish, const passes::PrecisionOutcome& outcome) {
  if (!wish.policy.lowers()) return Status::Ok();
  for (const std::string& name : wish.policy.keep_nodes) {
    if (outcome.kept.contains(name)) continue;
    return Unsupported(
        "keep-dtype: node '{}' was fused into another or folded, so its type is not its own; keep the type of the operator it "
        "was "
        "fused into, or optimise less (--opt-level 1)",
        name);
  }
  for (const auto& refusal : outcome.refused) {
    for (const std::string_view part : passes::PartsOf(refusal.op)) {
      if (wish.must_lower.contains(std::string(part)))
        return Unsupported("mixlist: node '{}' ({}) cannot be lowered: {}", refusal.name, refusal.op, refusal.reason);
    }
  }
  return Status::Ok();
}

std::vector<std::string> RefusalNotes(const passes::PrecisionOutcome& outcome) {
  std::map<std::string, std::pair<int, std::string>> kinds;   // reason -> how often, first node
  for (const auto& refusal : outcome.refused) {
    auto& [count, first] = kinds[refusal.reason];
    if (count++ == 0) first = refusal.name;
  }
  std::vector<std::string> notes;
  for (const auto& [reason, kind] : kinds) {
    notes.push_back(fmt::format("{} stay f32: {} (first: '{}')", kind.first, reason, kind.second));
  }
  return notes;
}

}  // namespace tenon::compile
