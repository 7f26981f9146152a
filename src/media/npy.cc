#include "media/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <regex>

#include "base/mapped_file.h"

namespace tenon::media {
namespace {

std::optional<DType> TypeOf(char kind, int64_t size) {
  switch (kind) {
    case 'U':
    case 'S': return DType::kString;
    case 'b': return size == 1 ? std::optional(DType::kBool) : std::nullopt;
    case 'f':
      return size == 1   ? std::optional(DType::kU8)   // float8_e5m2, by its newest name
             : size == 2 ? std::optional(DType::kF16)
             : size == 4 ? std::optional(DType::kF32)
             : size == 8 ? std::optional(DType::kF64)
                         : std::nullopt;
    case 'i':
      return size == 1   ? std::optional(DType::kI8)
             : size == 2 ? std::optional(DType::kI16)
             : size == 4 ? std::optional(DType::kI32)
             : size == 8 ? std::optional(DType::kI64)
                         : std::nullopt;
    case 'u':
      return size == 1   ? std::optional(DType::kU8)
             : size == 2 ? std::optional(DType::kU16)
             : size == 4 ? std::optional(DType::kU32)
             : size == 8 ? std::optional(DType::kU64)
                         : std::nullopt;
    case 'c': return size == 8 ? std::optional(DType::kC64) : size == 16 ? std::optional(DType::kC128) : std::nullopt;
    case 'V': return size == 1 ? std::optional(DType::kU8) : size == 2 ? std::optional(DType::kU16) : std::nullopt;
    default: return std::nullopt;
  }
}

// "2, 3," as it stands between the parentheses.
Result<Shape> ParseDims(const std::string& dims) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < dims.size();) {
    if (std::isdigit(static_cast<unsigned char>(dims[i])) == 0) {
      if (dims[i] != ',' && dims[i] != ' ') return BadInput("shape ({}) in the header", dims);
      ++i;
      continue;
    }
    int64_t n = 0;
    const auto [end, error] = std::from_chars(dims.data() + i, dims.data() + dims.size(), n);
    if (error != std::errc()) return BadInput("shape ({}) in the header", dims);
    shape.push_back(n);
    i = static_cast<size_t>(end - dims.data());
  }
  return CheckedShape(shape);
}

// Column-major to row-major.
void Transpose(const char* in, char* out, const Shape& shape, size_t size) {
  const int64_t n = shape.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    int64_t from = 0;
    int64_t stride = 1;
    std::array<int64_t, kMaxRank> index{};
    for (int d = shape.rank(); d-- > 0;) {
      index[static_cast<size_t>(d)] = rest % shape[d];
      rest /= shape[d];
    }
    for (int d = 0; d < shape.rank(); ++d) {
      from += index[static_cast<size_t>(d)] * stride;
      stride *= shape[d];
    }
    std::memcpy(out + static_cast<size_t>(i) * size, in + static_cast<size_t>(from) * size, size);
  }
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
  } else if (c < 0x800) {
    *out += static_cast<char>(0xC0 | c >> 6);
    *out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    *out += static_cast<char>(0xE0 | c >> 12);
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | (c >> 18 & 7));
    *out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// Code points of UTF-8 text; a byte that does not fit stands for itself.
std::vector<uint32_t> FromUtf8(const std::string& s) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < s.size();) {
    const auto b = static_cast<unsigned char>(s[i]);
    const int more = b >= 0xF0 ? 3 : b >= 0xE0 ? 2 : b >= 0xC0 ? 1 : 0;
    uint32_t c = more == 3 ? b & 7 : more == 2 ? b & 15 : more == 1 ? b & 31 : b;
    if (i + static_cast<size_t>(more) >= s.size() && more > 0) {
      out.push_back(b);
      ++i;
      continue;
    }
    for (int k = 1; k <= more; ++k) c = c << 6 | (static_cast<unsigned char>(s[i + static_cast<size_t>(k)]) & 0x3F);
    out.push_back(c);
    i += static_cast<size_t>(more) + 1;
  }
  return out;
}

std::string TextOf(const char* p, const NpyHeader& h) {
  std::string text;
  if (h.kind == 'S') {
    text.assign(p, h.element_bytes);
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
  }
  for (size_t i = 0; i < h.element_bytes / 4; ++i) {
    uint32_t c = 0;
    std::memcpy(&c, p + 4 * i, 4);
    if (h.order == '>') c = __builtin_bswap32(c);
    if (c == 0) break;
    AppendUtf8(c, &text);
  }
  return text;
}

Result<NpyArray> Read(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(const NpyHeader h, ParseNpyHeader({file->data(), static_cast<size_t>(file->size())}));
  const auto* data = reinterpret_cast<const char*>(file->data()) + h.data_offset;
  return DecodeNpy(h, h.shape, data, file->size() - h.data_offset);
}

std::string DescrOf(DType t) {
  switch (t) {
    case DType::kBool: return "|b1";
    case DType::kF16: return "<f2";
    case DType::kF32: return "<f4";
    case DType::kF64: return "<f8";
    case DType::kI8:
    case DType::kI4:
    case DType::kI2: return "|i1";
    case DType::kU8:
    case DType::kU4:
    case DType::kU2: return "|u1";
    case DType::kI16: return "<i2";
    case DType::kU16: return "<u2";
    case DType::kI32: return "<i4";
    case DType::kU32: return "<u4";
    case DType::kI64: return "<i8";
    case DType::kU64: return "<u8";
    case DType::kC64: return "<c8";
    case DType::kC128: return "<c16";
    case DType::kBF16: return "|V2";
    default: return "|V1";
  }
}

// Packed 4- and 2-bit elements, one byte each, sign-extended where the type is signed.
std::vector<char> Widen(const View& v) {
  const int bits = DTypeBits(v.dtype);
  const auto n = static_cast<size_t>(v.num_elements());
  std::vector<char> out(n);
  const int per_byte = 8 / bits;
  for (size_t i = 0; i < n; ++i) {
    const int shift = static_cast<int>(i % static_cast<size_t>(per_byte)) * bits;
    int value = v.Data<unsigned char>()[i / static_cast<size_t>(per_byte)] >> shift & ((1 << bits) - 1);
    if (IsInteger(v.dtype) && IsSigned(v.dtype) && value >= 1 << (bits - 1)) value -= 1 << bits;
    out[i] = static_cast<char>(value);
  }
  return out;
}

}  // namespace

Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> start) {
  const auto* p = reinterpret_cast<const unsigned char*>(start.data());
  if (start.size() < 12 || std::memcmp(p, "\x93NUMPY", 6) != 0) return BadInput("not an .npy file");
  const bool wide = p[6] >= 2;
  if (p[6] < 1 || p[6] > 3) return BadInput(".npy format version {}", p[6]);
  const size_t begin = wide ? 12 : 10;
  const uint64_t length = wide ? p[8] | p[9] << 8 | p[10] << 16 | static_cast<uint64_t>(p[11]) << 24 : p[8] | p[9] << 8;
  if (begin + length > kMaxNpyHeader || begin + length > start.size()) return BadInput("cut off inside the header");
  const std::string text(reinterpret_cast<const char*>(p) + begin, length);
  static const std::regex kDescr(R"('descr'\s*:\s*'([<>|=]?)([a-zA-Z])(\d{1,9})')");
  static const std::regex kFortran(R"('fortran_order'\s*:\s*(True|False))");
  static const std::regex kShape(R"('shape'\s*:\s*\(([^)]*)\))");
  std::smatch descr;
  std::smatch fortran;
  std::smatch shape;
  if (!std::regex_search(text, descr, kDescr)) {
    if (text.find("'descr'") != std::string::npos) return Unsupported("arrays of records or objects are not read");
    return BadInput("no element type in the header");
  }
  if (!std::regex_search(text, fortran, kFortran) || !std::regex_search(text, shape, kShape))
    return BadInput("incomplete header");
  NpyHeader h;
  h.order = descr[1].length() > 0 ? descr[1].str()[0] : '=';
  h.kind = descr[2].str()[0];
  const int64_t size = std::stoll(descr[3].str());
  const auto type = TypeOf(h.kind, size);
  if (!type) return Unsupported("elements of type '{}{}' are not read", h.kind, size);
  h.dtype = *type;
  h.raw = h.kind == 'V' || (h.kind == 'f' && size == 1);
  h.element_bytes = static_cast<size_t>(h.kind == 'U' ? 4 * size : size);
  h.fortran = fortran[1] == "True";
  TENON_ASSIGN_OR_RETURN(h.shape, ParseDims(shape[1].str()));
  h.data_offset = begin + length;
  return h;
}

Result<NpyArray> DecodeNpy(const NpyHeader& h, const Shape& shape, const char* data, uint64_t bytes) {
  const size_t size = h.element_bytes;
  const auto n = static_cast<uint64_t>(shape.num_elements());
  if (size > 0 && n > bytes / size) return BadInput("cut off: {} bytes of data for shape {}", bytes, shape.ToString());
  // Texts of no length take no bytes in the file, but do in memory.
  constexpr uint64_t kMaxEmptyTexts = 1 << 20;
  if (size == 0 && n > kMaxEmptyTexts) return BadInput("{} empty texts; at most {} are read", n, kMaxEmptyTexts);
  std::vector<char> reordered;
  if (h.fortran && shape.rank() > 1 && n > 0) {
    reordered.resize(n * size);
    Transpose(data, reordered.data(), shape, size);
    data = reordered.data();
  }
  NpyArray array;
  array.raw = h.raw;
  if (h.dtype == DType::kString) {
    std::vector<std::string> strings;
    for (uint64_t i = 0; i < n; ++i) strings.push_back(TextOf(data + i * size, h));
    array.tensor = Tensor::FromStrings(shape, std::move(strings));
    return array;
  }
  TENON_ASSIGN_OR_RETURN(array.tensor, Tensor::Allocate(h.dtype, shape));
  auto* out = array.tensor.MutableData<char>();
  if (n * size > 0) std::memcpy(out, data, n * size);
  if (h.order == '>' && size > 1) {
    const size_t word = h.kind == 'c' ? size / 2 : size;
    for (size_t i = 0; i + word <= n * size; i += word) std::reverse(out + i, out + i + word);
  }
  return array;
}

Result<NpyArray> ReadNpy(const std::string& path) {
  auto array = Read(path);
  if (array.ok()) return array;
  const std::string& message = array.status().message();
  if (message.find(path) != std::string::npos) return array;
  return std::move(array).TakeStatus().Within(fmt::format("'{}'", path));
}

Status WriteNpy(const std::string& path, const View& view) {
  std::string descr = DescrOf(view.dtype);
  std::vector<char> converted;
  const char* data = view.Data<char>();
  size_t bytes = view.bytes();
  if (view.dtype == DType::kString) {
    std::vector<std::vector<uint32_t>> texts;
    size_t longest = 1;
    for (int64_t i = 0; i < view.num_elements(); ++i) {
      texts.push_back(FromUtf8(view.Data<std::string>()[i]));
      longest = std::max(longest, texts.back().size());
    }
    descr = fmt::format("<U{}", longest);
    converted.assign(texts.size() * longest * 4, 0);
    for (size_t i = 0; i < texts.size(); ++i)
      std::memcpy(converted.data() + i * longest * 4, texts[i].data(), texts[i].size() * 4);
  } else if (DTypeBits(view.dtype) < 8) {
    converted = Widen(view);
  }
  if (view.dtype == DType::kString || DTypeBits(view.dtype) < 8) {
    data = converted.data();
    bytes = converted.size();
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                   fmt::join(view.shape.dims(), ", "), view.shape.rank() == 1 ? "," : "");
  constexpr size_t kPreamble = 10;
  header.append((64 - (kPreamble + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  const std::string start =
      std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xFF) + static_cast<char>(header.size() >> 8);
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(start.data(), start.size()));
  TENON_RETURN_IF_ERROR(file.Append(header.data(), header.size()));
  TENON_RETURN_IF_ERROR(file.Append(data, bytes));
  return file.Commit();
}

}  // namespace tenon::media
