// Geometry as the fast rows see it: always three spatial axes (depth, height, width; missing ones of extent 1), channels last.
#ifndef TENON_KERNELS_CONV_PLANE_H_
#define TENON_KERNELS_CONV_PLANE_H_

#include "hw/team.h"
#include "kernels/conv/conv.h"

namespace tenon::kernels::conv {

struct Plane {
  int64_t n = 0, c = 0, oc = 0, group = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int64_t pad[3] = {0, 0, 0};

  explicit Plane(const Geometry& g);
  Plane() = default;
  int64_t icg() const { return c / group; }
  int64_t ocg() const { return oc / group; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  /// No padding, stride or window: every output pixel reads the input pixel at its place.
  bool pointwise() const;
};

/// to[c][r] = from[r][c] for `count` matrices of rows x cols that follow each other.
void Transpose(const float* from, int64_t count, int64_t rows, int64_t cols, float* to, hw::Team& team);

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_PLANE_H_
