// Einsum equations: parsing, labels, extents, shape rule.
#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/linalg/linalg.h"

namespace tenon::kernels::linalg {
namespace {

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Letters and one '.' for the ellipsis.
Result<std::string> ParseTerm(std::string_view text, std::string_view equation) {
  std::string term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (IsLetter(text[i])) {
      term += text[i];
    } else if (text.substr(i, 3) == "..." && term.find('.') == std::string::npos) {
      term += '.';
      i += 2;
    } else {
      return BadInput("equation '{}': unexpected '{}' in a term; letters and one '...' allowed", equation, text[i]);
    }
  }
  if (term.size() > kMaxRank + 1) return BadInput("equation '{}': a term of more than {} labels", equation, kMaxRank);
  return term;
}

}  // namespace

Result<Equation> ParseEquation(std::string_view text, size_t operands) {
  if (text.size() > 4096) return BadInput("equation of {} characters; at most 4096 allowed", text.size());
  Equation e;
  const size_t arrow = text.find("->");
  std::string_view left = text.substr(0, arrow);
  while (true) {
    const size_t comma = left.find(',');
    TENON_ASSIGN_OR_RETURN(std::string term, ParseTerm(left.substr(0, comma), text));
    e.terms.push_back(std::move(term));
    if (comma == std::string_view::npos) break;
    left = left.substr(comma + 1);
  }
  if (e.terms.size() != operands) {
    return BadInput("equation '{}' has {} terms for {} operands; one each needed", text, e.terms.size(), operands);
  }
  std::string all;
  for (const std::string& t : e.terms) all += t;
  if (arrow != std::string_view::npos) {
    TENON_ASSIGN_OR_RETURN(e.output, ParseTerm(text.substr(arrow + 2), text));
    for (size_t i = 0; i < e.output.size(); ++i) {
      const char c = e.output[i];
      if (c != '.' && all.find(c) == std::string::npos)
        return BadInput("equation '{}': output label '{}' is in no term", text, c);
      if (e.output.find(c, i + 1) != std::string::npos) return BadInput("equation '{}': output label '{}' is repeated", text, c);
    }
    return e;
  }
  std::string sorted = all;
  std::sort(sorted.begin(), sorted.end());
  if (all.find('.') != std::string::npos) e.output = ".";
  for (char c : sorted) {
    if (c != '.' && std::count(all.begin(), all.end(), c) == 1) e.output += c;
  }
  return e;
}

Result<Labels> NumberLabels(const Equation& e, std::span<const int> ranks) {
  Labels out;
  int dots = 0;
  for (size_t i = 0; i < e.terms.size(); ++i) {
    const bool has = e.terms[i].find('.') != std::string::npos;
    const int letters = static_cast<int>(e.terms[i].size()) - (has ? 1 : 0);
    const int rest = ranks[i] - letters;
    if (rest < 0 || (!has && rest > 0)) return BadInput("operand {} has rank {} for the term '{}'", i, ranks[i], e.terms[i]);
    dots = std::max(dots, rest);
  }
  std::string seen;
  const auto label = [&](char c) {
    size_t at = seen.find(c);
    if (at == std::string::npos) {
      at = seen.size();
      seen += c;
    }
    return dots + static_cast<int>(at);
  };
  for (size_t i = 0; i < e.terms.size(); ++i) {
    std::vector<int> axes;
    for (char c : e.terms[i]) {
      if (c != '.') {
        axes.push_back(label(c));
        continue;
      }
      const int own = ranks[i] - static_cast<int>(e.terms[i].size()) + 1;
      for (int d = dots - own; d < dots; ++d) axes.push_back(d);  // broadcast axes line up on the right
    }
    out.terms.push_back(std::move(axes));
  }
  for (char c : e.output) {
    if (c != '.') {
      out.output.push_back(label(c));
    } else {
      for (int d = 0; d < dots; ++d) out.output.push_back(d);
    }
  }
  out.count = dots + static_cast<int>(seen.size());
  if (out.count > kMaxLabels || out.output.size() > kMaxRank) {
    return Unsupported("{} labels and an output of rank {}; at most {} and {} are served", out.count, out.output.size(),
                       kMaxLabels, kMaxRank);
  }
  return out;
}

Result<std::array<int64_t, kMaxLabels>> Extents(const Labels& labels, std::span<const View> in) {
  std::array<int64_t, kMaxLabels> extents;
  extents.fill(1);
  for (size_t i = 0; i < labels.terms.size(); ++i) {
    for (size_t a = 0; a < labels.terms[i].size(); ++a) {
      int64_t& e = extents[static_cast<size_t>(labels.terms[i][a])];
      const int64_t d = in[i].shape[static_cast<int>(a)];
      if (d == 1 || d == e) continue;
      if (e != 1)
        return BadInput("operand {} of shape {} has {} on axis {} where another has {}", i, in[i].shape.ToString(), d, a, e);
      e = d;
    }
  }
  return extents;
}

Status InferEinsum(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Equation e, ParseEquation(args.attrs.String("equation", ""), args.in.size()));
  std::vector<int> ranks;
  bool known = true;
  for (size_t i = 0; i < args.in.size(); ++i) {
    if (!args.in[i].present) return BadInput("operand {} is absent", i);
    if (args.in[i].dtype != args.in[0].dtype) {
      return BadInput("operand {} is {} and operand 0 {}; equal types needed", i, DTypeName(args.in[i].dtype),
                      DTypeName(args.in[0].dtype));
    }
    known = known && args.in[i].shape.has_rank();
    ranks.push_back(args.in[i].shape.rank());
  }
  if (!known) {
    SetOutput(args, 0, args.in[0].dtype, SymShape());
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const Labels labels, NumberLabels(e, ranks));
  std::vector<Dim> extents(static_cast<size_t>(labels.count), Dim(1));
  for (size_t i = 0; i < labels.terms.size(); ++i) {
    for (size_t a = 0; a < labels.terms[i].size(); ++a) {
      Dim& d = extents[static_cast<size_t>(labels.terms[i][a])];
      const auto joined = Dim::Broadcast(d, args.in[i].shape[static_cast<int>(a)]);
      if (!joined) {
        return BadInput("operand {} of shape {} has {} on axis {} where another has {}", i, args.in[i].shape.ToString(),
                        args.in[i].shape[static_cast<int>(a)].ToString(), a, d.ToString());
      }
      d = *joined;
    }
  }
  std::vector<Dim> out;
  for (int l : labels.output) out.push_back(extents[static_cast<size_t>(l)]);
  SetOutput(args, 0, args.in[0].dtype, SymShape(std::move(out)));
  return {};
}

}  // namespace tenon::kernels::linalg
