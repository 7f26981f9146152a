#include "media/npz.h"

#include <zip.h>

#include <algorithm>

namespace tenon::media {
namespace {

// Deflate cannot pack tighter than this: a directory that claims more is a lie, and nothing is allocated for it.
constexpr uint64_t kMaxDeflateRatio = 1040;
constexpr uint64_t kMaxEntries = 1 << 20;

}  // namespace

Result<std::unique_ptr<NpzFile>> NpzFile::Open(const std::string& path) {
  std::unique_ptr<NpzFile> file(new NpzFile(path));
  TENON_ASSIGN_OR_RETURN(file->mapped_, MappedFile::Open(path));
  TENON_RETURN_IF_ERROR(file->ReadDirectory().Within(fmt::format("'{}'", path)));
  return file;
}

NpzFile::~NpzFile() {
  for (auto& [name, entry] : entries_) {
    if (entry.file != nullptr) zip_fclose(entry.file);
  }
  if (archive_ != nullptr) zip_discard(archive_);
}

Status NpzFile::ReadDirectory() {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(mapped_->data(), mapped_->size(), 0, &error);
  if (source == nullptr) return ResourceLimit("no memory to read it");
  archive_ = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (archive_ == nullptr) {
    const std::string why = zip_error_strerror(&error);
    zip_source_free(source);
    zip_error_fini(&error);
    return BadInput("not a zip archive as .npz files are; {}", why);
  }
  const zip_int64_t n = zip_get_num_entries(archive_, 0);
  if (n < 0 || static_cast<uint64_t>(n) > kMaxEntries) return BadInput("{} arrays; at most {} are read", n, kMaxEntries);
  for (zip_int64_t i = 0; i < n; ++i) TENON_RETURN_IF_ERROR(AddEntry(static_cast<uint64_t>(i)));
  return Status::Ok();
}

Status NpzFile::AddEntry(uint64_t index) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(archive_, index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) return BadInput("damaged directory");
  std::string name = stat.name;
  if (name.ends_with("/")) return Status::Ok();
  if (!name.ends_with(".npy")) return BadInput("holds '{}'; only .npy arrays are allowed in it", name);
  name.resize(name.size() - 4);
  if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE)
    return Unsupported("array '{}' is encrypted", name);
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
    return Unsupported("array '{}' is compressed by method {}; allowed: stored, deflated", name, stat.comp_method);
  if (stat.comp_size > mapped_->size() || stat.size / kMaxDeflateRatio > stat.comp_size)
    return BadInput("array '{}' claims {} bytes packed, {} unpacked", name, stat.comp_size, stat.size);
  Entry entry;
  entry.index = index;
  entry.size = stat.size;
  entry.stored = stat.comp_method == ZIP_CM_STORE;
  std::string start(std::min<uint64_t>(stat.size, kMaxNpyHeader), '\0');
  Status status = Fetch(entry, 0, start.data(), start.size());
  // An archive may hold thousands: one is open only from its first read on.
  if (entry.file != nullptr) zip_fclose(entry.file);
  entry.file = nullptr;
  TENON_RETURN_IF_ERROR(std::move(status).Within(fmt::format("array '{}'", name)));
  auto header = ParseNpyHeader(std::as_bytes(std::span(start)));
  if (!header.ok()) return std::move(header).TakeStatus().Within(fmt::format("array '{}'", name));
  const auto n = static_cast<uint64_t>(header->shape.num_elements());
  const uint64_t have = entry.size - header->data_offset;
  if (header->element_bytes > 0 && n > have / header->element_bytes)
    return BadInput("array '{}': cut off: {} bytes of data for shape {}", name, have, header->shape.ToString());
  if (!entries_.emplace(name, entry).second) return BadInput("array '{}' stands in it twice", name);
  headers_.emplace(name, *header);
  return Status::Ok();
}

// To `offset`. Backwards for the first time, what is stored is read to its end, where libzip compares the checksum, and from then
// on jumped about in.
Status NpzFile::Go(Entry& entry, uint64_t offset) {
  char skipped[1 << 14];
  const auto read_to = [&](uint64_t end) -> Status {
    while (entry.position < end) {
      const zip_int64_t got = zip_fread(entry.file, skipped, std::min<uint64_t>(sizeof(skipped), end - entry.position));
      if (got <= 0) return BadInput("cannot be unpacked; {}", got == 0 ? "cut off" : zip_file_strerror(entry.file));
      entry.position += static_cast<uint64_t>(got);
    }
    return Status::Ok();
  };
  if (entry.file != nullptr && offset < entry.position && !entry.seeks) {
    if (entry.stored) {
      TENON_RETURN_IF_ERROR(read_to(entry.size));
      if (zip_fread(entry.file, skipped, 1) != 0) return BadInput("cannot be unpacked; {}", zip_file_strerror(entry.file));
      entry.seeks = true;
    }
    zip_fclose(entry.file);
    entry.file = nullptr;
  }
  if (entry.file == nullptr) {
    entry.file = zip_fopen_index(archive_, entry.index, 0);
    entry.position = 0;
    if (entry.file == nullptr) return BadInput("cannot be unpacked; {}", zip_strerror(archive_));
  }
  if (entry.seeks && offset != entry.position) {
    if (zip_fseek(entry.file, static_cast<zip_int64_t>(offset), SEEK_SET) != 0)
      return BadInput("cannot be unpacked; {}", zip_file_strerror(entry.file));
    entry.position = offset;
  }
  return read_to(offset);
}

Status NpzFile::Fetch(Entry& entry, uint64_t offset, char* out, uint64_t bytes) {
  TENON_RETURN_IF_ERROR(Go(entry, offset));
  uint64_t done = 0;
  while (done < bytes) {
    const zip_int64_t got = zip_fread(entry.file, out + done, bytes - done);
    if (got <= 0) return BadInput("cannot be unpacked; {}", got == 0 ? "cut off" : zip_file_strerror(entry.file));
    done += static_cast<uint64_t>(got);
    entry.position += static_cast<uint64_t>(got);
  }
  // Reading past the last byte makes libzip compare the checksum.
  char past = 0;
  if (entry.position == entry.size && !entry.seeks && zip_fread(entry.file, &past, 1) != 0)
    return BadInput("cannot be unpacked; {}", zip_file_strerror(entry.file));
  return Status::Ok();
}

Result<NpyArray> NpzFile::ReadPart(const std::string& name, const Shape& shape, uint64_t first_element) {
  const NpyHeader& header = headers_.at(name);
  const uint64_t bytes = static_cast<uint64_t>(shape.num_elements()) * header.element_bytes;
  auto buffer = Buffer::Allocate(bytes);
  if (buffer == nullptr) return ResourceLimit("no memory for the {} bytes of array '{}'", bytes, name);
  auto* data = static_cast<char*>(buffer->data());
  TENON_RETURN_IF_ERROR(Fetch(entries_.at(name), header.data_offset + first_element * header.element_bytes, data, bytes));
  const bool as_it_is = header.dtype != DType::kString && header.order != '>' && !header.fortran;
  if (as_it_is) return NpyArray{Tensor(header.dtype, shape, std::move(buffer)), header.raw};
  return DecodeNpy(header, shape, data, bytes);
}

Result<NpyArray> NpzFile::Read(const std::string& name) {
  if (!headers_.contains(name)) return BadInput("'{}' holds no array '{}'", path_, name);
  auto array = ReadPart(name, headers_.at(name).shape, 0);
  if (array.ok()) return array;
  return std::move(array).TakeStatus().Within(fmt::format("'{}': array '{}'", path_, name));
}

Result<NpyArray> NpzFile::ReadRows(const std::string& name, int64_t begin, int64_t end) {
  if (!headers_.contains(name)) return BadInput("'{}' holds no array '{}'", path_, name);
  const NpyHeader& header = headers_.at(name);
  CHECK(header.shape.rank() >= 1 && 0 <= begin && begin <= end && end <= header.shape[0]);
  Shape shape = header.shape;
  shape[0] = end - begin;
  const int64_t row = header.shape.Product(1, header.shape.rank());
  if (header.fortran && header.shape.rank() > 1) {  // rows are not contiguous: the whole array, then a part of it
    TENON_ASSIGN_OR_RETURN(NpyArray all, Read(name));
    if (all.tensor.dtype() == DType::kString) {
      const auto* first = all.tensor.Data<std::string>() + begin * row;
      return NpyArray{Tensor::FromStrings(shape, {first, first + (end - begin) * row}), false};
    }
    const auto* data = all.tensor.Data<char>() + static_cast<size_t>(begin * row) * header.element_bytes;
    TENON_ASSIGN_OR_RETURN(Tensor part, Tensor::CopyOf({header.dtype, shape, data, nullptr}));
    return NpyArray{std::move(part), header.raw};
  }
  auto array = ReadPart(name, shape, static_cast<uint64_t>(begin * row));
  if (array.ok()) return array;
  return std::move(array).TakeStatus().Within(fmt::format("'{}': array '{}'", path_, name));
}

}  // namespace tenon::media
