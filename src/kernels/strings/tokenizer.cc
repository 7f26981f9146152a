// com.microsoft.Tokenizer: strings to the tokens that an expression matches, that separators leave, or single characters.
#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/strings/internal.h"
#include "kernels/strings/pcre.h"

namespace tenon::kernels::strings {
namespace {

using Tokens = std::vector<std::string>;

size_t Characters(const std::string& s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

struct TokenizerParams {
  bool mark = false;
  std::string pad;
  size_t least = 1;                  // characters of a token
  bool characters = false;
  std::vector<Pattern> separators;   // none: `token` is the expression
  std::vector<Pattern> token;        // one or none
};

Result<TokenizerParams> Parse(const Attrs& attrs) {
  TokenizerParams p;
  p.mark = attrs.Int("mark", 0) != 0;
  p.pad = attrs.String("pad_value", "");
  const int64_t least = attrs.Int("mincharnum", 1);
  if (least < 1) return BadInput("Tokenizer: mincharnum {}; at least 1 needed", least);
  p.least = static_cast<size_t>(least);
  const auto separators = attrs.Strings("separators");
  const std::string token = attrs.String("tokenexp", "");
  if (separators.empty() == token.empty()) return BadInput("Tokenizer: one of separators and tokenexp needed");
  p.characters = token == "." || (separators.size() == 1 && separators[0].empty());
  if (p.characters) {
    if (p.least > 1) return BadInput("Tokenizer: mincharnum {} for single characters", least);
    return p;
  }
  if (!token.empty()) {
    TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(token, false, "Tokenizer"));
    p.token.push_back(std::move(pattern));
  }
  for (const std::string& s : separators) {
    if (s.empty()) return BadInput("Tokenizer: an empty separator beside others");
    TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(s, false, "Tokenizer"));
    p.separators.push_back(std::move(pattern));
  }
  return p;
}

// Calls f(begin, end) for each match that is not empty.
template <typename F>
Status ForEachMatch(Matcher* matcher, const std::string& text, F&& f) {
  size_t from = 0;
  while (from < text.size()) {
    TENON_ASSIGN_OR_RETURN(const bool found, matcher->Find(text, from));
    if (!found) break;
    if (matcher->end() > matcher->begin()) {
      f(matcher->begin(), matcher->end());
      from = matcher->end();
      continue;
    }
    from = matcher->begin() + 1;
    while (from < text.size() && (text[from] & 0xC0) == 0x80) ++from;
  }
  return Status::Ok();
}

class TokenizerKernel final : public Kernel {
 public:
  explicit TokenizerKernel(TokenizerParams p) : p_(std::move(p)) {}

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    std::vector<Tokens> rows(static_cast<size_t>(x.num_elements()));
    size_t most = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      TENON_RETURN_IF_ERROR(Split(x.Data<std::string>()[i], &rows[i]).Within(fmt::format("Tokenizer: string {}", i)));
      most = std::max(most, rows[i].size());
    }
    const size_t width = most == 0 ? 0 : most + (p_.mark ? 2 : 0);
    Shape shape = x.shape;
    shape.push_back(static_cast<int64_t>(width));
    TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, shape));
    auto* to = out.Data<std::string>();
    for (Tokens& row : rows) {
      if (width == 0) break;
      const std::string* end = to + width;
      if (p_.mark) *to++ = std::string(1, '\2');
      for (std::string& token : row) *to++ = std::move(token);
      if (p_.mark) *to++ = std::string(1, '\3');
      while (to != end) *to++ = p_.pad;
    }
    return Status::Ok();
  }

 private:
  Status Split(const std::string& text, Tokens* out) const {
    if (p_.characters) {
      for (size_t i = 0; i < text.size();) {
        size_t end = i + 1;
        while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
        out->push_back(text.substr(i, end - i));
        i = end;
      }
      return Status::Ok();
    }
    if (!p_.token.empty()) {
      Matcher matcher(p_.token[0]);
      if (!matcher.ok()) return ResourceLimit("no memory");
      return ForEachMatch(&matcher, text, [&](size_t begin, size_t end) { Keep(text.substr(begin, end - begin), out); });
    }
    // Each separator in turn cuts what those before it have left.
    Tokens pieces = {text};
    for (const Pattern& separator : p_.separators) {
      Matcher matcher(separator);
      if (!matcher.ok()) return ResourceLimit("no memory");
      Tokens next;
      for (const std::string& piece : pieces) {
        size_t from = 0;
        TENON_RETURN_IF_ERROR(ForEachMatch(&matcher, piece, [&](size_t begin, size_t end) {
          Keep(piece.substr(from, begin - from), &next);
          from = end;
        }));
        Keep(piece.substr(from), &next);
      }
      pieces = std::move(next);
    }
    *out = std::move(pieces);
    return Status::Ok();
  }
  void Keep(std::string token, Tokens* out) const {
    if (!token.empty() && Characters(token) >= p_.least) out->push_back(std::move(token));
  }

  TokenizerParams p_;
};

}  // namespace

Status InferTokenizer(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedStrings("Tokenizer", args.in[0].dtype));
  SymShape shape = args.in[0].shape;
  if (shape.has_rank() && (shape.rank() < 1 || shape.rank() > 2)) {
    return BadInput("Tokenizer: X has shape {}; [c] or [n, c] needed", shape.ToString());
  }
  if (shape.has_rank()) shape.dims().push_back(Dim::Unknown());
  movement::SetTensor(&args.out[0], DType::kString, std::move(shape));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeTokenizer(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(TokenizerParams params, Parse(p.attrs));
  return std::unique_ptr<Kernel>(new TokenizerKernel(std::move(params)));
}

}  // namespace tenon::kernels::strings
