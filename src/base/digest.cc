#include "base/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/mapped_file.h"

namespace tenon {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void Update(const void* data, size_t size) { EVP_DigestUpdate(context_.get(), data, size); }
  std::string Hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

Result<std::string> FileDigest(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  Sha256 sha;
  std::vector<char> chunk(1 << 20);
  for (uint64_t offset = 0; offset < file->size(); offset += chunk.size()) {
    const size_t n = std::min<uint64_t>(chunk.size(), file->size() - offset);
    TENON_RETURN_IF_ERROR(file->ReadAt(offset, chunk.data(), n));
    sha.Update(chunk.data(), n);
  }
  return sha.Hex();
}

Result<std::string> ModelDigest(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) return FileDigest(path);
  std::vector<fs::path> files;
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code gone;
    if (fs::is_regular_file(it->path(), gone)) files.push_back(it->path());
  }
  if (error) return BadInput("cannot read the folder '{}': {}", path, error.message());
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    TENON_ASSIGN_OR_RETURN(const std::string digest, FileDigest(file.string()));
    all += fmt::format("{} {}\n", digest, TextDigest(file.filename().string()));
  }
  return TextDigest(all);
}

std::string TextDigest(const std::string& text) {
  Sha256 sha;
  sha.Update(text.data(), text.size());
  return sha.Hex();
}

std::string SiblingStamp(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr size_t kMaxSiblings = 256;
  std::error_code error;
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::vector<std::string> stamps;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && stamps.size() < kMaxSiblings; it.increment(error)) {
    std::error_code ignored;
    const std::string extension = it->path().extension().string();
    const bool other_model = extension == ".onnx" || extension == ".tenon" || extension == ".py" || extension == ".npy";
    if (other_model || !it->is_regular_file(ignored) || it->file_size(ignored) < 1024) continue;
    stamps.push_back(fmt::format("{}:{}:{}", it->path().filename().string(), it->file_size(ignored),
                                 it->last_write_time(ignored).time_since_epoch().count()));
  }
  std::sort(stamps.begin(), stamps.end());
  std::string all;
  for (const std::string& s : stamps) all += s + "\n";
  return all;
}

}  // namespace tenon
