// NumPy's .npy files (format versions 1 to 3): arrays in and out.
#ifndef TENON_MEDIA_NPY_H_
#define TENON_MEDIA_NPY_H_

#include <cstddef>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace tenon::media {

/// Reads an array. Strings ('<U', '|S') become UTF-8 kString tensors; '|V1', '|V2' (how NumPy writes bfloat16 and float8) come
/// back as uint8/uint16 with `raw` set. Column-major and big-endian data are converted. kBadInput: damaged; kUnsupported:
/// objects, records.
struct NpyArray {
  Tensor tensor;
  bool raw = false;   ///< elements of a type NumPy has no name for
};
Result<NpyArray> ReadNpy(const std::string& path);

/// What stands before the elements: for readers that take an array piece by piece (media/npz.h).
struct NpyHeader {
  char order = '=';           ///< '<' '>' '|' '='
  char kind = 'V';            ///< NumPy's letter: f i u b c U S V
  size_t element_bytes = 0;
  DType dtype = DType::kUndefined;
  bool raw = false;
  bool fortran = false;
  Shape shape;
  size_t data_offset = 0;     ///< of the first element
};
/// A header is not longer than this, preamble included.
inline constexpr size_t kMaxNpyHeader = 1 << 16;

/// `start`: the file, or at least its first kMaxNpyHeader bytes.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> start);

/// The elements in `data` (at least those of `shape`, checked against `bytes`), as an array of `shape`.
Result<NpyArray> DecodeNpy(const NpyHeader& header, const Shape& shape, const char* data, uint64_t bytes);

/// Writes an array, whole or not at all. bfloat16 and float8 kinds are written as '|V2' and '|V1', 4- and 2-bit integers widened
/// to 8 bits, strings as '<U'.
Status WriteNpy(const std::string& path, const View& view);

}  // namespace tenon::media

#endif  // TENON_MEDIA_NPY_H_
