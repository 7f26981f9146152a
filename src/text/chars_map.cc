// Reading of Darts-clone units as in SentencePiece's normalizer; every index is checked.
#include "text/chars_map.h"

#include <cstring>

#include "text/unicode.h"

namespace tenon::text {
namespace {

bool HasLeaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t Value(uint32_t unit) {
  return unit & 0x7FFFFFFFu;
}
uint32_t Label(uint32_t unit) {
  return unit & 0x800000FFu;
}
uint32_t Offset(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200u) >> 6);
}

}  // namespace

Result<std::shared_ptr<const CharsMap>> CharsMap::Parse(std::string_view bytes) {
  const Status damaged = BadInput("the tokenizer's precompiled character map is damaged");
  uint32_t size = 0;
  if (bytes.size() < 4) return damaged;
  std::memcpy(&size, bytes.data(), 4);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - 4) return damaged;
  auto map = std::make_shared<CharsMap>();
  map->units_.resize(size / 4);
  std::memcpy(map->units_.data(), bytes.data() + 4, size);
  map->replacements_ = bytes.substr(4 + size_t{size});
  if (!IsValidUtf8(map->replacements_)) return damaged;
  return std::shared_ptr<const CharsMap>(std::move(map));
}

const char* CharsMap::Find(std::string_view part) const {
  uint32_t position = Offset(units_[0]);
  for (char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return nullptr;
    position ^= byte;
    if (position >= units_.size()) return nullptr;
    const uint32_t unit = units_[position];
    if (Label(unit) != byte) return nullptr;
    position ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (position >= units_.size()) return nullptr;
    const uint32_t at = Value(units_[position]);
    return at < replacements_.size() ? replacements_.c_str() + at : nullptr;
  }
  return nullptr;
}

std::string CharsMap::Apply(std::string_view text) const {
  struct Work {
    const CharsMap* map;
    std::string out;
  } work{this, {}};
  work.out.reserve(text.size() + 8);
  // As `tokenizers` does it: short graphemes as a whole, else character by character.
  const auto one = [](std::string_view grapheme, void* context) {
    auto* w = static_cast<Work*>(context);
    constexpr size_t kShort = 6;
    if (grapheme.size() < kShort) {
      if (const char* r = w->map->Find(grapheme)) {
        w->out += r;
        return;
      }
    }
    ForEachChar(grapheme, [&](char32_t, size_t at, size_t n) {
      const std::string_view c = grapheme.substr(at, n);
      if (const char* r = w->map->Find(c)) {
        w->out += r;
      } else {
        w->out += c;
      }
    });
  };
  // Between two ASCII characters there is always a boundary, except in CR LF.
  const auto boundary = [&](size_t at) {
    return at == text.size() || (static_cast<unsigned char>(text[at - 1]) < 0x80 && static_cast<unsigned char>(text[at]) < 0x80 &&
                                 !(text[at - 1] == '\r' && text[at] == '\n'));
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (!boundary(end)) ++end;
    if (end == i + 1) {
      one(text.substr(i, 1), &work);
    } else {
      ForEachGrapheme(text.substr(i, end - i), one, &work);
    }
    i = end;
  }
  return std::move(work.out);
}

}  // namespace tenon::text
