// Building the tables of vocabulary.h: at most half full.
#include "text/vocabulary.h"

#include <algorithm>
#include <bit>

namespace tenon::text {

void Vocabulary::Build(const std::vector<std::string_view>& texts) {
  const size_t slots = std::bit_ceil(2 * texts.size() + 2);
  entries_.assign(slots, Entry{});
  mask_ = slots - 1;
  longest_ = 0;
  for (size_t id = 0; id < texts.size(); ++id) {
    const std::string_view text = texts[id];
    if (text.empty()) continue;
    longest_ = std::max(longest_, text.size());
    const uint64_t h = HashText(text);
    size_t slot = h & mask_;
    while (entries_[slot].id >= 0 && std::string_view(entries_[slot].data, entries_[slot].size) != text) {
      slot = (slot + 1) & mask_;
    }
    entries_[slot] = {static_cast<uint32_t>(h >> 32), static_cast<int32_t>(id), text.data(), static_cast<uint32_t>(text.size())};
  }
}

void PairTable::Reserve(size_t pairs) {
  const size_t slots = std::bit_ceil(2 * pairs + 2);
  entries_.assign(slots, Entry{});
  mask_ = slots - 1;
}

void PairTable::Add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = Key(left, right);
  size_t slot = HashMix(key, 1) & mask_;
  while (entries_[slot].key != kEmpty && entries_[slot].key != key) slot = (slot + 1) & mask_;
  entries_[slot] = {key, merge};
}

}  // namespace tenon::text
