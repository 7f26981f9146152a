// Tells what kind of data files hold, by their contents, with the Magika model.
//
//   file_type magika/models/standard_v3_3 FILE...
//
// Features as the model was trained with them: the first and last 1,024 bytes after white space is stripped, padded with 256.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tenon/compile.h"

namespace {

struct Config {
  size_t begin = 0;
  size_t end = 0;
  size_t block = 0;
  int32_t padding = 0;
  size_t least = 0;            // smaller contents are not worth a model
  std::vector<std::string> labels;
};

int Fail(const std::string& message, int code) {
  std::fprintf(stderr, "file_type: %s\n", message.c_str());
  return code;
}

bool ReadConfig(const std::string& path, Config* config) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  try {
    config->begin = json.at("beg_size");
    config->end = json.at("end_size");
    config->block = json.at("block_size");
    config->padding = json.at("padding_token");
    config->least = json.at("min_file_size_for_dl");
    config->labels = json.at("target_labels_space").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

std::string Strip(const std::string& s, bool left, bool right) {
  constexpr const char* kSpace = " \t\n\r\v\f";
  const size_t first = left ? s.find_first_not_of(kSpace) : 0;
  if (first == std::string::npos || s.find_first_not_of(kSpace) == std::string::npos) return "";
  return s.substr(first, right ? s.find_last_not_of(kSpace) - first + 1 : std::string::npos);
}

// Empty when the file cannot be read or holds too little.
std::vector<int32_t> Features(const std::string& path, const Config& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  file.seekg(0, std::ios::end);
  const auto size = static_cast<size_t>(std::max<std::streamoff>(0, file.tellg()));
  const size_t block = std::min(config.block, size);
  std::string head(block, '\0');
  std::string tail(block, '\0');
  file.seekg(0);
  file.read(head.data(), static_cast<std::streamsize>(block));
  file.seekg(static_cast<std::streamoff>(size - block));
  file.read(tail.data(), static_cast<std::streamsize>(block));
  if (!file) return {};
  head = Strip(head, true, false).substr(0, config.begin);
  tail = Strip(tail, false, true);
  tail = tail.substr(tail.size() - std::min(tail.size(), config.end));
  if (head.size() < config.least) return {};
  std::vector<int32_t> features(config.begin + config.end, config.padding);
  for (size_t i = 0; i < head.size(); ++i) features[i] = static_cast<unsigned char>(head[i]);
  for (size_t i = 0; i < tail.size(); ++i) features[features.size() - tail.size() + i] = static_cast<unsigned char>(tail[i]);
  return features;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return Fail("usage: file_type MODEL_FOLDER FILE...", 2);
  const std::string folder = argv[1];
  Config config;
  if (!ReadConfig(folder + "/config.min.json", &config)) return Fail("'" + folder + "/config.min.json' is missing or damaged", 3);
  auto session = tenon::OpenModel(folder + "/model.onnx");
  if (!session.ok()) return Fail(session.status().message(), static_cast<int>(session.status().code()));
  for (int i = 2; i < argc; ++i) {
    const std::vector<int32_t> features = Features(argv[i], config);
    if (features.empty()) {
      std::printf("%s: too short or not readable\n", argv[i]);
      continue;
    }
    tenon::HostTensor input;
    input.name = "bytes";
    input.dtype = tenon::DType::kI32;
    input.shape = {1, static_cast<int64_t>(features.size())};
    input.data = features.data();
    input.bytes = features.size() * sizeof(int32_t);
    auto outputs = (*session)->Run({input});
    if (!outputs.ok()) return Fail(outputs.status().message(), static_cast<int>(outputs.status().code()));
    const tenon::HostTensor& scores = (*outputs)[0];
    const auto* p = static_cast<const float*>(scores.data);
    const auto best = static_cast<size_t>(std::max_element(p, p + scores.bytes / sizeof(float)) - p);
    std::printf("%s: %s (%.2f)\n", argv[i], best < config.labels.size() ? config.labels[best].c_str() : "?", p[best]);
  }
  return 0;
}
