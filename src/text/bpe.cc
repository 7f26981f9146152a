// Byte-pair encoding: merges by rank, or (SentencePiece) by the score of the joined token.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <queue>

#include "text/model.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

struct Symbol {
  int32_t id = -1;
  int32_t previous = -1;
  int32_t next = -1;
  uint32_t begin = 0;   // bytes of the piece, for kScoreBpe's lookups
  uint32_t size = 0;
};

struct Candidate {
  uint32_t rank = 0;
  int32_t left = 0;     // index of the left symbol; also the order among equal ranks
  int32_t right = 0;
  int32_t id = 0;
  uint32_t size = 0;    // bytes of both when it was found: another size means that it is out of date
  bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
};

class Bpe : public Model {
 public:
  explicit Bpe(const ModelInput& input) : in_(input), spec_(*input.spec), whole_(input.texts.size()) {}

  Status Prepare() {
    for (int b = 0; b < 256 && in_.byte_level; ++b) {
      const char c = static_cast<char>(b);
      byte_ids_[b] = in_.vocabulary.Find({&c, 1});
    }
    return spec_.kind == TokenizerKind::kScoreBpe ? PrepareScores() : PrepareMerges();
  }

  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override {
    if (piece.empty()) return;
    const int32_t whole = in_.vocabulary.Find(piece);
    if (whole >= 0 && spec_.end_of_word.empty()) {
      if (spec_.ignore_merges) {
        ids->push_back(whole);
        return;
      }
      // Whether the merges lead to the whole token is found once and remembered (0 unknown, 1 yes, 2 no).
      std::atomic<uint8_t>& known = whole_[static_cast<size_t>(whole)];
      uint8_t state = known.load(std::memory_order_relaxed);
      if (state == 1) {
        ids->push_back(whole);
        return;
      }
      const size_t before = ids->size();
      Merge(piece, ids);
      if (state == 0) {
        state = ids->size() == before + 1 && ids->back() == whole ? 1 : 2;
        known.store(state, std::memory_order_relaxed);
      }
      return;
    }
    Merge(piece, ids);
  }

 private:
  Status PrepareMerges() {
    pairs_.Reserve(spec_.merges.size());
    std::string left;
    std::string right;
    uint32_t rank = 0;
    for (const std::string& merge : spec_.merges) {
      if (!AddMerge(merge, rank, &left, &right) && !MakesControlToken(merge))
        return BadInput("merge {} of the tokenizer, '{}', joins no two tokens to a third", rank, merge);
      ++rank;
    }
    return Status::Ok();
  }

  // Tokens may hold spaces: any space may be the one between the two.
  bool AddMerge(std::string_view merge, uint32_t rank, std::string* left, std::string* right) {
    for (size_t space = merge.find(' ', 1); space != std::string_view::npos; space = merge.find(' ', space + 1)) {
      const int32_t l = FindToken(merge.substr(0, space), left);
      if (l < 0) continue;
      const int32_t r = FindToken(merge.substr(space + 1), right);
      if (r < 0) continue;
      std::string_view tail = *right;
      if (!spec_.continuing_prefix.empty() && tail.starts_with(spec_.continuing_prefix))
        tail.remove_prefix(spec_.continuing_prefix.size());
      const int32_t joined = in_.vocabulary.Find(*left + std::string(tail));
      if (joined < 0) continue;
      pairs_.Add(l, r, {rank, joined});
      return true;
    }
    return false;
  }

  // A merge of or to a control token (training text that holds one makes such): left out, as text never becomes one.
  bool MakesControlToken(std::string_view merge) const {
    for (size_t space = merge.find(' ', 1); space != std::string_view::npos; space = merge.find(' ', space + 1)) {
      const std::string left(merge.substr(0, space));
      const std::string_view right = merge.substr(space + 1);
      const auto known = [&](std::string_view token) { return in_.all->Find(token) >= 0; };
      if (known(left) && known(right) && known(left + std::string(right))) return true;
    }
    return false;
  }

  int32_t FindToken(std::string_view text, std::string* bytes) const {
    if (!in_.byte_level || !FromAlphabet(text, bytes)) *bytes = text;
    return in_.vocabulary.Find(*bytes);
  }

  // Equal scores share a rank: among them the leftmost pair is joined first.
  Status PrepareScores() {
    std::vector<double> sorted(spec_.scores);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    ranks_.resize(spec_.scores.size());
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const auto at = std::lower_bound(sorted.begin(), sorted.end(), spec_.scores[i], std::greater<>());
      ranks_[i] = static_cast<uint32_t>(at - sorted.begin());
    }
    return Status::Ok();
  }

  PairTable::Merge Pair(std::string_view piece, const Symbol& left, const Symbol& right) const {
    if (left.id < 0 || right.id < 0) return {};
    if (ranks_.empty()) return pairs_.Find(left.id, right.id);
    const int32_t id = left.size + right.size > in_.vocabulary.longest()
                           ? -1
                           : in_.vocabulary.Find(piece.substr(left.begin, left.size + right.size));
    return id < 0 ? PairTable::Merge{} : PairTable::Merge{ranks_[static_cast<size_t>(id)], id};
  }

  void Merge(std::string_view piece, std::vector<int32_t>* ids) const {
    constexpr size_t kShort = 64;
    Symbol few[kShort];
    if (piece.size() <= kShort) {
      const size_t n = Split(piece, few);
      MergeShort(piece, few, n, ids);
      return;
    }
    std::vector<Symbol> symbols(piece.size());
    symbols.resize(Split(piece, symbols.data()));
    MergeLong(piece, &symbols);
    for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
      ids->push_back(symbols[static_cast<size_t>(i)].id);
  }

  // The symbols to begin with: bytes, or characters with what stands for unknown ones. At most piece.size() of them.
  size_t Split(std::string_view piece, Symbol* out) const {
    size_t n = 0;
    const auto add = [&](int32_t id, size_t begin, size_t size) {
      out[n++] = {id, -1, -1, static_cast<uint32_t>(begin), static_cast<uint32_t>(size)};
    };
    if (in_.byte_level) {
      for (size_t i = 0; i < piece.size(); ++i) {
        const int32_t id = byte_ids_[static_cast<unsigned char>(piece[i])];
        if (id >= 0) add(id, i, 1);
      }
      return n;
    }
    bool after_unknown = false;
    std::string edge;
    ForEachChar(piece, [&](char32_t, size_t begin, size_t size) {
      const bool last = begin + size == piece.size();
      int32_t id = -1;
      if ((last && !spec_.end_of_word.empty()) || (begin > 0 && !spec_.continuing_prefix.empty())) {
        edge =
            (begin > 0 ? spec_.continuing_prefix : "") + std::string(piece.substr(begin, size)) + (last ? spec_.end_of_word : "");
        id = in_.vocabulary.Find(edge);
      } else {
        id = in_.vocabulary.Find(piece.substr(begin, size));
      }
      const bool unknown = id < 0;
      if (unknown && !in_.bytes.empty()) {
        for (size_t i = begin; i < begin + size; ++i) add(in_.bytes[static_cast<unsigned char>(piece[i])], i, 1);
        return;
      }
      if (unknown && spec_.unknown >= 0) {
        if (after_unknown && spec_.fuse_unknown) {
          out[n - 1].size += static_cast<uint32_t>(size);
        } else {
          add(spec_.unknown, begin, size);
        }
      } else if (!unknown) {
        add(id, begin, size);
      }
      after_unknown = unknown;
    });
    return n;
  }

  void MergeShort(std::string_view piece, Symbol* s, size_t n, std::vector<int32_t>* ids) const {
    PairTable::Merge merges[64];   // merges[i]: of s[i] and s[i + 1]
    for (size_t i = 0; i + 1 < n; ++i) merges[i] = Pair(piece, s[i], s[i + 1]);
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i) {
        if (merges[i].rank < merges[best].rank) best = i;
      }
      if (merges[best].id < 0) break;
      s[best].id = merges[best].id;
      s[best].size += s[best + 1].size;
      for (size_t i = best + 1; i + 1 < n; ++i) s[i] = s[i + 1];
      for (size_t i = best + 1; i + 2 < n; ++i) merges[i] = merges[i + 1];
      --n;
      if (best > 0) merges[best - 1] = Pair(piece, s[best - 1], s[best]);
      if (best + 1 < n) merges[best] = Pair(piece, s[best], s[best + 1]);
    }
    for (size_t i = 0; i < n; ++i) ids->push_back(s[i].id);
  }

  void MergeLong(std::string_view piece, std::vector<Symbol>* symbols) const {
    std::vector<Symbol>& s = *symbols;
    const auto n = static_cast<int32_t>(s.size());
    std::vector<Candidate> heap;
    heap.reserve(s.size());
    const auto look = [&](int32_t left, int32_t right) {
      if (left < 0 || right < 0) return false;
      const Symbol& l = s[static_cast<size_t>(left)];
      const Symbol& r = s[static_cast<size_t>(right)];
      const PairTable::Merge m = Pair(piece, l, r);
      if (m.id >= 0) heap.push_back({m.rank, left, right, m.id, l.size + r.size});
      return m.id >= 0;
    };
    for (int32_t i = 0; i < n; ++i) {
      s[static_cast<size_t>(i)].previous = i - 1;
      s[static_cast<size_t>(i)].next = i + 1 < n ? i + 1 : -1;
      if (i > 0) look(i - 1, i);
    }
    std::make_heap(heap.begin(), heap.end());
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate c = heap.back();
      heap.pop_back();
      Symbol& l = s[static_cast<size_t>(c.left)];
      Symbol& r = s[static_cast<size_t>(c.right)];
      if (l.size == 0 || r.size == 0 || l.next != c.right || l.size + r.size != c.size) continue;
      l.id = c.id;
      l.size = c.size;
      l.next = r.next;
      r.size = 0;
      if (l.next >= 0) s[static_cast<size_t>(l.next)].previous = c.left;
      if (look(l.previous, c.left)) std::push_heap(heap.begin(), heap.end());
      if (look(c.left, l.next)) std::push_heap(heap.begin(), heap.end());
    }
  }

  const ModelInput& in_;
  const TokenizerSpec& spec_;
  PairTable pairs_;
  std::vector<uint32_t> ranks_;   // kScoreBpe: by id
  int32_t byte_ids_[256] = {};
  mutable std::vector<std::atomic<uint8_t>> whole_;
};

}  // namespace

int ByteOfAlphabet(char32_t c) {
  if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF)) return static_cast<int>(c);
  if (c < 0x100 || c > 0x143) return -1;
  // The other bytes in order: 0..0x20, 0x7F..0xA0, 0xAD.
  const auto n = static_cast<int>(c - 0x100);
  return n <= 0x20 ? n : n <= 0x42 ? n - 0x21 + 0x7F : 0xAD;
}

char32_t AlphabetOfByte(unsigned char b) {
  if ((b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE) return b;
  return 0x100u + (b <= 0x20 ? b : b == 0xAD ? 0x43u : b - 0x7Fu + 0x21u);
}

bool FromAlphabet(std::string_view token, std::string* bytes) {
  bytes->clear();
  bool all = true;
  ForEachChar(token, [&](char32_t c, size_t, size_t) {
    const int b = ByteOfAlphabet(c);
    all = all && b >= 0;
    bytes->push_back(static_cast<char>(b));
  });
  return all;
}

Result<std::unique_ptr<Model>> MakeBpe(const ModelInput& input) {
  auto bpe = std::make_unique<Bpe>(input);
  TENON_RETURN_IF_ERROR(bpe->Prepare());
  return std::unique_ptr<Model>(std::move(bpe));
}

}  // namespace tenon::text
