// Token texts to ids: a hash table over texts that live elsewhere.
#ifndef TENON_TEXT_VOCABULARY_H_
#define TENON_TEXT_VOCABULARY_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

inline uint64_t HashMix(uint64_t a, uint64_t b) {
  const unsigned __int128 p = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD6E8FEB86659FD93u);
  return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
}

inline uint64_t HashText(std::string_view s) {
  uint64_t h = s.size();
  const char* p = s.data();
  size_t n = s.size();
  for (; n > 8; n -= 8, p += 8) {
    uint64_t v = 0;
    std::memcpy(&v, p, 8);
    h = HashMix(h, v);
  }
  uint64_t v = 0;
  if (n > 0) std::memcpy(&v, p, n);
  return HashMix(h, v);
}

class Vocabulary {
 public:
  /// Texts by id; empty ones are left out, of equal ones the last counts. The texts must outlive the table.
  void Build(const std::vector<std::string_view>& texts);

  /// -1: not there.
  int32_t Find(std::string_view text) const {
    const uint64_t h = HashText(text);
    for (size_t slot = h & mask_;; slot = (slot + 1) & mask_) {
      const Entry& e = entries_[slot];
      if (e.id < 0) return -1;
      if (e.hash == static_cast<uint32_t>(h >> 32) && e.size == text.size() &&
          (text.empty() || std::memcmp(e.data, text.data(), text.size()) == 0)) {
        return e.id;
      }
    }
  }
  size_t longest() const { return longest_; }

 private:
  struct Entry {
    uint32_t hash = 0;
    int32_t id = -1;
    const char* data = nullptr;
    uint32_t size = 0;
  };
  std::vector<Entry> entries_ = std::vector<Entry>(1);
  size_t mask_ = 0;
  size_t longest_ = 0;
};

/// Pairs of ids to a rank (smaller is better) and the id of the joined token.
class PairTable {
 public:
  struct Merge {
    uint32_t rank = UINT32_MAX;
    int32_t id = -1;
  };
  void Reserve(size_t pairs);
  /// A pair that is there already takes the new values.
  void Add(int32_t left, int32_t right, Merge merge);
  Merge Find(int32_t left, int32_t right) const {
    const uint64_t key = Key(left, right);
    for (size_t slot = HashMix(key, 1) & mask_;; slot = (slot + 1) & mask_) {
      if (entries_[slot].key == key) return entries_[slot].merge;
      if (entries_[slot].key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  struct Entry {
    uint64_t key = kEmpty;
    Merge merge;
  };
  std::vector<Entry> entries_ = std::vector<Entry>(1);
  size_t mask_ = 0;
};

}  // namespace tenon::text

#endif  // TENON_TEXT_VOCABULARY_H_
