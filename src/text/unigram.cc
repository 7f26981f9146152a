// Unigram: the segmentation with the highest sum of scores.
#include <algorithm>

#include "text/model.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

// A trie over bytes. The children of a node that has one child or few lie in a sorted run of `edges`.
class Trie {
 public:
  struct Node {
    uint32_t first = 0;
    uint16_t count = 0;
    int32_t id = -1;
  };
  // `sorted`: (text, id), ascending by text, without duplicates.
  explicit Trie(const std::vector<std::pair<std::string_view, int32_t>>& sorted) {
    nodes_.push_back({});
    struct Range {
      size_t begin, end, depth;
      uint32_t node;
    };
    std::vector<Range> todo = {{0, sorted.size(), 0, 0}};
    // Breadth first, so that the edges of one node are neighbours.
    for (size_t at = 0; at < todo.size(); ++at) {
      Range r = todo[at];
      if (r.begin < r.end && sorted[r.begin].first.size() == r.depth) nodes_[r.node].id = sorted[r.begin++].second;
      nodes_[r.node].first = static_cast<uint32_t>(bytes_.size());
      while (r.begin < r.end) {
        const char c = sorted[r.begin].first[r.depth];
        size_t end = r.begin;
        while (end < r.end && sorted[end].first[r.depth] == c) ++end;
        bytes_.push_back(c);
        targets_.push_back(static_cast<uint32_t>(nodes_.size()));
        ++nodes_[r.node].count;
        todo.push_back({r.begin, end, r.depth + 1, static_cast<uint32_t>(nodes_.size())});
        nodes_.push_back({});
        r.begin = end;
      }
    }
    for (int b = 0; b < 256; ++b) roots_[b] = Search(0, static_cast<char>(b));
  }
  uint32_t Root(char c) const { return roots_[static_cast<unsigned char>(c)]; }
  /// 0: no such child.
  uint32_t Child(uint32_t node, char c) const { return Search(node, c); }
  int32_t Id(uint32_t node) const { return nodes_[node].id; }

 private:
  uint32_t Search(uint32_t node, char c) const {
    const Node& n = nodes_[node];
    const char* begin = bytes_.data() + n.first;
    const char* end = begin + n.count;
    const char* at = n.count <= 8 ? std::find(begin, end, c) : std::lower_bound(begin, end, c, Less);
    return at != end && *at == c ? targets_[static_cast<size_t>(at - bytes_.data())] : 0;
  }
  static bool Less(char a, char b) { return static_cast<unsigned char>(a) < static_cast<unsigned char>(b); }
  std::vector<Node> nodes_;
  std::vector<char> bytes_;
  std::vector<uint32_t> targets_;
  uint32_t roots_[256] = {};
};

std::vector<std::pair<std::string_view, int32_t>> Sorted(const std::vector<std::string_view>& texts) {
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].empty()) sorted.emplace_back(texts[i], static_cast<int32_t>(i));
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
  sorted.erase(std::unique(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
               sorted.end());
  return sorted;
}

class Unigram : public Model {
 public:
  explicit Unigram(const ModelInput& input) : in_(input), spec_(*input.spec), trie_(Sorted(input.texts)) {
    constexpr double kUnknownPenalty = 10;
    double lowest = 0;
    for (size_t i = 0; i < spec_.scores.size(); ++i) lowest = i == 0 ? spec_.scores[i] : std::min(lowest, spec_.scores[i]);
    unknown_score_ = lowest - kUnknownPenalty;
  }

  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override {
    struct Best {
      double score = 0;
      size_t begin = SIZE_MAX;
      int32_t id = -1;
    };
    std::vector<Best> best(piece.size() + 1);
    const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
      Best& b = best[end];
      if (b.begin == SIZE_MAX || score > b.score) b = {score, begin, id};
    };
    for (size_t i = 0; i < piece.size();) {
      const size_t one = Utf8Length(piece[i]);
      bool single = false;
      uint32_t node = trie_.Root(piece[i]);
      for (size_t end = i + 1; node != 0; ++end) {
        const int32_t id = trie_.Id(node);
        if (id >= 0) {
          offer(i, end, best[i].score + spec_.scores[static_cast<size_t>(id)], id);
          single = single || end - i == one;
        }
        if (end == piece.size()) break;
        node = trie_.Child(node, piece[end]);
      }
      if (!single) offer(i, i + one, best[i].score + unknown_score_, -1);
      i += one;
    }
    // Backwards; a run of unknown characters is one token.
    const size_t first = ids->size();
    for (size_t end = piece.size(); end > 0;) {
      size_t begin = best[end].begin;
      if (best[end].id >= 0) {
        ids->push_back(best[end].id);
      } else {
        while (spec_.fuse_unknown && begin > 0 && best[begin].id < 0) begin = best[begin].begin;
        Unknown(piece.substr(begin, end - begin), ids);
      }
      end = begin;
    }
    std::reverse(ids->begin() + static_cast<std::ptrdiff_t>(first), ids->end());
  }

 private:
  // In reverse order, as Encode collects.
  void Unknown(std::string_view text, std::vector<int32_t>* ids) const {
    if (in_.bytes.empty()) {
      if (spec_.unknown >= 0) ids->push_back(spec_.unknown);
      return;
    }
    for (size_t i = text.size(); i > 0; --i) ids->push_back(in_.bytes[static_cast<unsigned char>(text[i - 1])]);
  }

  const ModelInput& in_;
  const TokenizerSpec& spec_;
  Trie trie_;
  double unknown_score_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> MakeUnigram(const ModelInput& input) {
  return std::unique_ptr<Model>(std::make_unique<Unigram>(input));
}

}  // namespace tenon::text
