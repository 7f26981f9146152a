// NumPy's .npz files: zip archives of .npy arrays, stored or deflated.
#ifndef TENON_MEDIA_NPZ_H_
#define TENON_MEDIA_NPZ_H_

#include <map>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "media/npy.h"

struct zip;
struct zip_file;

namespace tenon::media {

/// One open archive. Not thread-safe.
class NpzFile {
 public:
  /// Reads the directory and the header of every array. kBadInput: not a zip file, or damaged; kUnsupported: encrypted, or
  /// compressed otherwise than by deflate.
  static Result<std::unique_ptr<NpzFile>> Open(const std::string& path);
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  /// Arrays by name (of the entry, without ".npy").
  const std::map<std::string, NpyHeader>& arrays() const { return headers_; }

  Result<NpyArray> Read(const std::string& name);
  /// Rows [begin, end) of the first axis; only their bytes are kept in memory. Fastest in rising order when compressed. `name`
  /// has rank >= 1 and at least `end` rows.
  Result<NpyArray> ReadRows(const std::string& name, int64_t begin, int64_t end);

 private:
  struct Entry {
    uint64_t index = 0;
    uint64_t size = 0;  // bytes when unpacked
    uint64_t position = 0;  // of `file`
    zip_file* file = nullptr;  // null: not open
    bool stored = false;  // not compressed
    bool seeks = false;  // its checksum was compared: any part may be read without what stands before it
  };
  explicit NpzFile(std::string path) : path_(std::move(path)) {}
  Status ReadDirectory();
  Status AddEntry(uint64_t index);
  Status Fetch(Entry& entry, uint64_t offset, char* out, uint64_t bytes);
  Status Go(Entry& entry, uint64_t offset);
  Result<NpyArray> ReadPart(const std::string& name, const Shape& shape, uint64_t first_element);

  std::string path_;
  std::shared_ptr<MappedFile> mapped_;
  zip* archive_ = nullptr;
  std::map<std::string, NpyHeader> headers_;
  std::map<std::string, Entry> entries_;
};

}  // namespace tenon::media

#endif  // TENON_MEDIA_NPZ_H_
