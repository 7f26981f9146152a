// NumPy's .npy files (format versions 1 to 3): arrays in and out.
#ifndef TENON_MEDIA_NPY_H_
#define TENON_MEDIA_NPY_H_

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

/// Writes an array, whole or not at all. bfloat16 and float8 kinds are written as '|V2' and '|V1', 4- and 2-bit integers widened
/// to 8 bits, strings as '<U'.
Status WriteNpy(const std::string& path, const View& view);

}  // namespace tenon::media

#endif  // TENON_MEDIA_NPY_H_
