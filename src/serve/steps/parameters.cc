#include <charconv>
#include <cmath>

#include "base/mapped_file.h"
#include "serve/steps/step.h"

namespace tenon::serve {

void Parameters::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

const std::string* Parameters::Take(const std::string& name) {
  known_ += (known_.empty() ? "" : ", ") + name;
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

double Parameters::Number(const std::string& name, double fallback, double least, double most) {
  const std::string* text = Take(name);
  if (text == nullptr) return fallback;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || !(value >= least && value <= most)) {
    Fail(BadInput("{} is '{}'; a number in {}..{} is expected", name, *text, least, most));
    value = fallback;
  }
  values_.erase(name);
  return value;
}

int Parameters::Integer(const std::string& name, int fallback, int least, int most) {
  const double value = Number(name, fallback, least, most);
  if (value != std::floor(value)) Fail(BadInput("{} is {}; a whole number is expected", name, value));
  return static_cast<int>(value);
}

bool Parameters::Flag(const std::string& name, bool fallback) {
  const std::string text = Text(name, fallback ? "true" : "false");
  if (text != "true" && text != "false") Fail(BadInput("{} is '{}'; true or false is expected", name, text));
  return text == "true";
}

std::string Parameters::Text(const std::string& name, const std::string& fallback) {
  const std::string* text = Take(name);
  std::string value = text == nullptr ? fallback : *text;
  values_.erase(name);
  return value;
}

std::string Parameters::Rest() {
  std::string lines;
  for (const auto& [name, value] : values_) lines += name + ": " + value + "\n";
  values_.clear();
  return lines;
}

std::vector<std::string> Parameters::Lines(const std::string& name) {
  const std::string path = Text(name, "");
  std::vector<std::string> lines;
  if (path.empty()) return lines;
  constexpr uint64_t kMostBytes = 16 << 20;
  auto text = ReadFile(path, kMostBytes);
  if (!text.ok()) {
    Fail(std::move(text).TakeStatus().Within(name));
    return lines;
  }
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    const bool windows = end > begin && (*text)[end - 1] == '\r';
    lines.push_back(text->substr(begin, end - begin - (windows ? 1 : 0)));
    begin = end + 1;
  }
  return lines;
}

std::string Parameters::Metadata(const std::string& key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? "" : it->second;
}

Status Parameters::Finish() const {
  if (!status_.ok() || values_.empty()) return status_;
  return BadInput("unknown parameter '{}'; allowed: {}", values_.begin()->first, known_.empty() ? "none" : known_);
}

}  // namespace tenon::serve
