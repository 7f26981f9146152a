// Byte matrix products with exact int32 sums for every family that needs one: Y[m, n] = finish(A[m, k] * B[k, n]), A uint8 or
// int8, B int8 and packed once. A is read where it lies, as rows a stride apart with a number of taps each, so that a convolution
// over channels-last pictures is the same product.
//
//   sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + k za zb
//
// The terms of za are constants of a column (Int8Packed::sums); where B has zero points, row sums of A are taken on the way.
#ifndef TENON_KERNELS_GEMM_INT8_H_
#define TENON_KERNELS_GEMM_INT8_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/int8_tile.h"
#include "tensor/tensor.h"

namespace tenon::kernels::gemm {

/// The micro-kernels for `isa`; the same object for the life of the process. Baseline always exists.
const Int8Kernels& SelectInt8(hw::IsaMask isa);

/// How n columns are cut into panels of 1 to max_vectors vectors, as equal as possible, wider ones first.
struct Int8Panels {
  Int8Panels(const Int8Kernels& kernels, int64_t n);
  int64_t count, base, wide;
  int64_t vectors(int64_t p) const { return p < wide ? base + 1 : base; }
  int64_t first_vector(int64_t p) const { return p * base + (p < wide ? p : wide); }
};

/// Where an element of B lies: tap t, depth o * inner + i, column n at b[t * tap_stride + o * outer_stride + i * inner_stride +
/// n * n_stride]. uint8 counts as b - 128.
struct Int8Weights {
  const uint8_t* b = nullptr;
  bool is_unsigned = false;
  int64_t groups = 1, group_stride = 0;
  int64_t n = 0, n_stride = 1;  ///< of one group
  int64_t taps = 1, tap_stride = 0;
  int64_t outer = 1, outer_stride = 0;
  int64_t inner = 0, inner_stride = 1;
  int64_t depth() const { return outer * inner; }
};

/// B as the micro-kernels read it.
class Int8Packed {
 public:
  /// kResourceLimit when there is no memory.
  static Result<Int8Packed> Make(const Int8Kernels& kernels, const Int8Weights& weights);

  int64_t groups() const { return groups_; }
  int64_t n() const { return n_; }  ///< columns of one group
  int64_t taps() const { return taps_; }
  int64_t depth() const { return depth_; }  ///< of one tap, bytes of A
  int64_t stored_depth() const { return stored_; }  ///< of one tap, rounded up to k_unit
  int64_t group_bytes() const { return group_bytes_; }
  const int8_t* data() const { return static_cast<const int8_t*>(buffer_->data()); }
  /// Sum of each column, groups * n of them.
  const std::vector<int32_t>& sums() const { return sums_; }
  size_t bytes() const { return buffer_->bytes() + sums_.size() * sizeof(int32_t); }

 private:
  int64_t groups_ = 1, n_ = 0, taps_ = 1, depth_ = 0, stored_ = 0, group_bytes_ = 0;
  std::shared_ptr<Buffer> buffer_;
  std::vector<int32_t> sums_;
};

/// Rows of A in the order in which they are tiled: `planes` stretches of `rows` rows a stride apart, of which those with
/// row % pitch < valid exist. Plane p starts at its three coordinates times `plane_strides`.
struct Int8Walk {
  int64_t planes = 1, rows = 0, pitch = 1, valid = 1;
  int64_t extents[2] = {1, 1};  ///< of the two inner coordinates of a plane
  int64_t plane_strides[3] = {0, 0, 0};
  int64_t row_stride = 0;
  bool copies = false;  ///< one plane, whose tiles are laid out by Int8Gather

  int64_t PlaneRows() const { return rows / pitch * valid + std::min(rows % pitch, valid); }
};

/// Lays windows out where a walk copies: row i at to + i * (stored depth). What is between depth and stored depth may be
/// anything.
class Int8Gather {
 public:
  virtual ~Int8Gather() = default;
  virtual void Fill(const uint8_t* a, int64_t group, int64_t row, int64_t rows, uint8_t* to) const = 0;
};

struct Int8Operands {
  const uint8_t* a = nullptr;
  const uint8_t* a_end = nullptr;  ///< nothing from here on may be read
  bool a_signed = false;
  int64_t group_step = 0;  ///< bytes from group to group of A
  const Int8Gather* gather = nullptr;  ///< where the walk copies
  Int8Finish finish{};  ///< everything per column or for the whole of Y; the rest is set tile by tile
  Activation activation;  ///< replaces finish.lo and hi
};

/// What of `all` goes by column, for columns [column, column + n) of Y, and the clamp.
Int8Finish Int8FinishOf(const Int8Finish& all, const Clamp& clamp, int64_t column, int64_t n);
/// Y and the residual at an element.
void PointInt8Finish(const Int8Finish& all, int64_t row, int64_t column, Int8Finish* f);

/// rows x n sums, of rows [row, row + rows) and columns [column, column + n) of Y, become results. `all` is for the whole of Y.
void FinishInt8(const Int8Kernels& kernels, const MicroKernels& floats, const Int8Finish& all, const Clamp& clamp, int64_t row,
                int64_t rows, int64_t column, int64_t n, int32_t* sums, int64_t sums_stride);

class Int8Product {
 public:
  Int8Product() = default;
  Int8Product(const Int8Kernels& kernels, hw::IsaMask isa, const Int8Packed& packed, const Int8Walk& walk,
              std::vector<int64_t> tap_offsets, int64_t input_bytes, int threads);

  size_t scratch_bytes() const { return static_cast<size_t>(threads_) * slot_bytes_; }
  /// Furthest byte that a tile beginning at the last row may read, from that row on.
  int64_t reach() const;
  void Run(const Int8Packed& packed, const Int8Operands& o, std::byte* scratch, hw::Team& team) const;

 private:
  struct TileRef;
  struct Part;
  struct Depths;
  static Depths NextDepths(const Int8Packed& packed, int64_t most, const Depths& before);
  void RunTiles(const Part& part, std::byte* scratch) const;
  void Prepare(const Part& part, int64_t group, int64_t first, int64_t count, TileRef* refs, uint8_t* copies) const;
  void Panel(const Part& part, int64_t group, int64_t p, int64_t count, const TileRef* refs) const;
  void PanelToResults(const Part& part, int64_t group, int64_t p, int64_t count, const TileRef* refs) const;
  void FinishTile(const Part& part, const TileRef& ref, int64_t channel, int64_t n, int64_t columns, int32_t* sums,
                  const int32_t* row_sums) const;
  int64_t TilesOfPlane() const;

  const Int8Kernels* kernels_ = nullptr;
  const MicroKernels* floats_ = nullptr;
  Int8Walk walk_;
  std::vector<int64_t> tap_offsets_, copy_offsets_;
  int64_t furthest_ = 0;  ///< of tap_offsets_, with the depth
  int threads_ = 1;
  int64_t max_rows_ = 1, height_ = 1;  ///< rows of the tallest tile
  int64_t tiles_ = 0, block_ = 1, tile_bytes_ = 0;
  int64_t work_ = 0, a_bytes_ = 0;
  size_t slot_bytes_ = 0;
};

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_INT8_H_
