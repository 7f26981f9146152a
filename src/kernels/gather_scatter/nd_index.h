// Index tuples of GatherND and ScatterND: offsets of the slices they name.
#ifndef TENON_KERNELS_GATHER_SCATTER_ND_INDEX_H_
#define TENON_KERNELS_GATHER_SCATTER_ND_INDEX_H_

#include "kernels/gather_scatter/internal.h"
#include "kernels/movement/element.h"

namespace tenon::kernels::gather_scatter {

/// Tuples of `width` indices into the axes [first, first + width) of `data`.
struct TupleIndex {
  const View& indices;
  int width;
  int64_t extents[kMaxRank];
  int64_t strides[kMaxRank];

  TupleIndex(const View& i, const Shape& data, int first, int w) : indices(i), width(w) {
    for (int k = 0; k < w; ++k) {
      extents[k] = data[first + k];
      strides[k] = data.Product(first + k + 1, data.rank());
    }
  }
  Status Check(std::string_view op, int64_t tuples) const {
    for (int64_t t = 0; t < tuples; ++t) {
      for (int k = 0; k < width; ++k) {
        const int64_t i = movement::ReadInt(indices, t * width + k);
        if (!InRange(i, extents[k])) return IndexError(op, i, t * width + k, extents[k]);
      }
    }
    return Status::Ok();
  }
  /// Offset of tuple `t`, which Check has passed.
  int64_t Offset(int64_t t) const {
    int64_t offset = 0;
    for (int k = 0; k < width; ++k) {
      const int64_t i = movement::ReadInt(indices, t * width + k);
      offset += (i < 0 ? i + extents[k] : i) * strides[k];
    }
    return offset;
  }
};

}  // namespace tenon::kernels::gather_scatter

#endif  // TENON_KERNELS_GATHER_SCATTER_ND_INDEX_H_
