// WordPiece: the longest token first, then the longest continuation.
#include "text/model.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

class WordPiece : public Model {
 public:
  explicit WordPiece(const ModelInput& input) : in_(input), spec_(*input.spec) {
    // Continuations without their prefix, so that a lookup needs no copy.
    const std::string& prefix = spec_.continuing_prefix;
    std::vector<std::string_view> tails(in_.texts.size());
    for (size_t i = 0; i < tails.size(); ++i) {
      if (in_.texts[i].size() > prefix.size() && in_.texts[i].starts_with(prefix)) tails[i] = in_.texts[i].substr(prefix.size());
    }
    tails_.Build(tails);
  }

  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override {
    const size_t before = ids->size();
    bool unknown =
        piece.size() > static_cast<size_t>(spec_.max_word_chars) && CountChars(piece) > static_cast<size_t>(spec_.max_word_chars);
    for (size_t begin = 0; begin < piece.size() && !unknown;) {
      const Vocabulary& table = begin == 0 ? in_.vocabulary : tails_;
      size_t end = std::min(piece.size(), begin + table.longest());
      int32_t id = -1;
      for (; end > begin; --end) {
        if (end < piece.size() && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80) continue;
        id = table.Find(piece.substr(begin, end - begin));
        if (id >= 0) break;
      }
      unknown = id < 0;
      if (!unknown) ids->push_back(id);
      begin = end;
    }
    if (!unknown) return;
    ids->resize(before);
    if (spec_.unknown >= 0) ids->push_back(spec_.unknown);
  }

 private:
  const ModelInput& in_;
  const TokenizerSpec& spec_;
  Vocabulary tails_;
};

}  // namespace

Result<std::unique_ptr<Model>> MakeWordPiece(const ModelInput& input) {
  if (input.spec->unknown < 0) return BadInput("a WordPiece tokenizer without an unknown token");
  return std::unique_ptr<Model>(std::make_unique<WordPiece>(input));
}

}  // namespace tenon::text
