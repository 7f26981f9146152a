// Texts from what recognition models give: the most probable class of each step, repeats and blanks dropped.
#include <algorithm>

#include "tenon/media.h"

namespace tenon {

std::vector<std::string> CtcCharacters(const std::string& list) {
  std::vector<std::string> characters = {""};
  size_t begin = 0;
  while (begin < list.size()) {
    size_t end = std::min(list.find('\n', begin), list.size());
    const size_t next = end + 1;
    if (end > begin && list[end - 1] == '\r') --end;
    characters.push_back(list.substr(begin, end - begin));
    begin = next;
  }
  characters.emplace_back(" ");
  return characters;
}

TextLine ReadCtc(const float* probabilities, int64_t steps, int64_t classes, const std::vector<std::string>& characters) {
  TextLine line;
  double sum = 0;
  int64_t kept = 0;
  int64_t last = -1;
  for (int64_t t = 0; t < steps; ++t, probabilities += classes) {
    const float* best = std::max_element(probabilities, probabilities + classes);
    const int64_t c = best - probabilities;
    if (c != 0 && c != last && c < static_cast<int64_t>(characters.size())) {
      line.text += characters[static_cast<size_t>(c)];
      sum += *best;
      ++kept;
    }
    last = c;
  }
  if (kept > 0) line.score = static_cast<float>(sum / static_cast<double>(kept));
  return line;
}

}  // namespace tenon
