// Shape rules of attention.
#ifndef TENON_KERNELS_ATTENTION_SHAPE_H_
#define TENON_KERNELS_ATTENTION_SHAPE_H_

#include "kernels/kernel.h"

namespace tenon::kernels::attention {

Status InferAttention(const ShapeArgs& args);
Status InferFusedAttention(const ShapeArgs& args);

}  // namespace tenon::kernels::attention

#endif  // TENON_KERNELS_ATTENTION_SHAPE_H_
