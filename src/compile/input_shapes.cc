// Input shapes as users write them: "8", "n", "1..8", "1~8", "-1", "?".
#include <charconv>

#include "compile/input_shapes.h"

namespace tenon::compile {
namespace {

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

bool IsSymbol(std::string_view text) {
  if (text.empty() || (std::isalpha(static_cast<unsigned char>(text[0])) == 0 && text[0] != '_')) return false;
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

}  // namespace

Result<Dim> ParseInputDim(const std::string& text, const std::string& input, int axis,
                          std::map<std::string, std::pair<int64_t, int64_t>>* ranges) {
  const std::string anonymous = fmt::format("{}.{}", input, axis);
  if (text == "-1" || text == "?") return Dim::Symbol(anonymous);
  if (const auto n = ParseInt(text)) {
    if (*n < 0) return Usage("extent {} of input '{}'; must not be negative", text, input);
    return Dim(*n);
  }
  size_t dots = text.find("..");
  size_t width = 2;
  if (dots == std::string::npos) {
    dots = text.find('~');
    width = 1;
  }
  if (dots != std::string::npos) {
    const auto low = ParseInt(std::string_view(text).substr(0, dots));
    const auto high = ParseInt(std::string_view(text).substr(dots + width));
    if (!low || !high || *low < 0 || *high < *low) return Usage("extent '{}' of input '{}'; a range is LOW..HIGH", text, input);
    if (*low == *high) return Dim(*low);
    (*ranges)[anonymous] = {*low, *high};
    return Dim::Symbol(anonymous);
  }
  if (IsSymbol(text)) return Dim::Symbol(text);
  return Usage("extent '{}' of input '{}'; allowed: a number, a name, LOW..HIGH, -1", text, input);
}

Status ApplyInputShapes(const std::map<std::string, std::vector<std::string>>& shapes, ir::Graph* graph,
                        std::map<std::string, std::pair<int64_t, int64_t>>* ranges) {
  for (const auto& [name, dims] : shapes) {
    const ir::ValueId id = graph->FindValue(name);
    if (id == ir::kNone || !graph->IsInput(id)) {
      std::string known;
      for (ir::ValueId v : graph->inputs()) known += (known.empty() ? "'" : ", '") + graph->value(v).name + "'";
      return Usage("unknown input '{}'; the model takes {}", name, known);
    }
    const SymShape& declared = graph->value(id).shape;
    if (declared.has_rank() && declared.rank() != static_cast<int>(dims.size())) {
      return Usage("input '{}' has shape {}; {} extents given", name, declared.ToString(), dims.size());
    }
    std::vector<Dim> out;
    for (size_t i = 0; i < dims.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(Dim d, ParseInputDim(dims[i], name, static_cast<int>(i), ranges));
      if (declared.has_rank() && declared[static_cast<int>(i)].is_const()) {
        const Dim& fixed = declared[static_cast<int>(i)];
        if (d.is_const() && !(d == fixed))
          return Usage("input '{}'; the model fixes axis {} to {}, {} given", name, i, fixed.value(), d.value());
        d = fixed;
      }
      out.push_back(std::move(d));
    }
    graph->value(id).shape = SymShape(std::move(out));
  }
  return Status::Ok();
}

}  // namespace tenon::compile
