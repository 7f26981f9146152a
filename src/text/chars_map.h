// SentencePiece's precompiled normalisation: a double-array trie from character sequences to their replacements.
#ifndef TENON_TEXT_CHARS_MAP_H_
#define TENON_TEXT_CHARS_MAP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::text {

class CharsMap {
 public:
  /// `bytes`: size of the trie (u32), units (u32 each), then the replacements, each ended by a NUL. kBadInput: damaged.
  static Result<std::shared_ptr<const CharsMap>> Parse(std::string_view bytes);
  std::string Apply(std::string_view text) const;

 private:
  const char* Find(std::string_view part) const;   ///< the replacement of the shortest entry that begins `part`; null: none
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace tenon::text

#endif  // TENON_TEXT_CHARS_MAP_H_
