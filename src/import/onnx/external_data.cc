#include "import/onnx/external_data.h"

#include <charconv>
#include <filesystem>

namespace tenon::import::onnx_format {

namespace fs = std::filesystem;

ExternalData::ExternalData(std::vector<std::string> directories, bool allow_hard_links)
    : directories_(std::move(directories)), allow_hard_links_(allow_hard_links) {}

namespace {

// Names that could leave the directory on any system, before the file system is asked.
Status CheckName(const std::string& name) {
  const auto refuse = [&](std::string_view why) {
    return BadInput("external data location '{}' {}; allowed is a relative path inside the model's directory", name, why);
  };
  if (name.empty()) return refuse("is empty");
  if (name.find('\0') != std::string::npos) return BadInput("external data location holds a NUL character");
  if (name.front() == '/' || name.front() == '\\') return refuse("is absolute");
  if (name.size() >= 2 && name[1] == ':' && std::isalpha(static_cast<unsigned char>(name[0])) != 0) {
    return refuse("names a drive");
  }
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = name.find_first_of("/\\", begin);
    if (end == std::string::npos) end = name.size();
    if (name.compare(begin, end - begin, "..") == 0) return refuse("has a '..' component");
    begin = end + 1;
  }
  return Status::Ok();
}

bool IsInside(const fs::path& file, const fs::path& directory) {
  auto f = file.begin();
  for (auto d = directory.begin(); d != directory.end(); ++d) {
    if (d->empty()) continue;
    if (f == file.end() || *f != *d) return false;
    ++f;
  }
  return f != file.end();
}

Result<uint64_t> ParseNumber(const std::string& text, const char* what) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return BadInput("external data {} is '{}', not a number of bytes", what, text);
  }
  return value;
}

}  // namespace

Result<std::string> ExternalData::Resolve(const std::string& location) const {
  if (directories_.empty()) {
    return BadInput("external data needs a base directory; '{}'; load the model from its file or name its directory", location);
  }
  TENON_RETURN_IF_ERROR(CheckName(location));
  std::error_code error;
  const fs::path real = fs::canonical(fs::path(directories_.front()) / location, error);
  if (error) return BadInput("external data file '{}' in {}: {}", location, directories_.front(), error.message());
  for (const std::string& directory : directories_) {
    if (IsInside(real, fs::canonical(directory, error)) && !error) return real.string();
  }
  return BadInput("external data location '{}' leads out of the model's directory {}", location, directories_.front());
}

Result<std::shared_ptr<Buffer>> ExternalData::Read(const ExternalLocation& where, size_t bytes, size_t alignment) {
  TENON_ASSIGN_OR_RETURN(const std::string path, Resolve(where.location));
  std::shared_ptr<MappedFile>& file = files_[path];
  if (file == nullptr) {
    auto opened = MappedFile::Open(path, false, allow_hard_links_);
    if (!opened.ok()) {
      files_.erase(path);
      return std::move(opened).TakeStatus().Within("external data file");
    }
    file = *std::move(opened);
  }
  uint64_t offset = 0;
  if (!where.offset.empty()) {
    TENON_ASSIGN_OR_RETURN(offset, ParseNumber(where.offset, "offset"));
  }
  if (!where.length.empty()) {
    TENON_ASSIGN_OR_RETURN(const uint64_t length, ParseNumber(where.length, "length"));
    if (length != bytes) return BadInput("external data length is {}, the tensor needs {} bytes", length, bytes);
  }
  if (offset > file->size() || bytes > file->size() - offset) {
    return BadInput("external data [{}, {}+{}) is beyond the end of '{}' ({} bytes)", offset, offset, bytes, where.location,
                    file->size());
  }
  const auto* data = reinterpret_cast<const char*>(file->data()) + offset;
  if (bytes == 0) return Buffer::Allocate(0);
  if (reinterpret_cast<uintptr_t>(data) % alignment == 0) {
    return Buffer::Mapped(data, bytes, [keep = file] {});
  }
  std::shared_ptr<Buffer> copy = Buffer::Allocate(bytes);
  if (copy == nullptr) return ResourceLimit("no memory for {} bytes of external data", bytes);
  std::memcpy(copy->data(), data, bytes);
  return copy;
}

}  // namespace tenon::import::onnx_format
