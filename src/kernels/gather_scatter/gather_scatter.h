// Gather, Scatter and kin: elements or rows by index. An index may count from the end; one outside [-extent, extent) is kBadInput
// with the operator, the index and the range, on every path, and nothing outside the tensors is ever touched.
#ifndef TENON_KERNELS_GATHER_SCATTER_GATHER_SCATTER_H_
#define TENON_KERNELS_GATHER_SCATTER_GATHER_SCATTER_H_

#include "kernels/kernel.h"

namespace tenon::kernels::gather_scatter {

std::span<const OpKernels> Operators();

/// out[a.., i.., b..] = data[a.., indices[i..], b..] with `axis` extents a before and b after.
Status InferGather(const ShapeArgs& args);
/// out[i] = data[i with its `axis` component replaced by indices[i]]; indices go no further than data in the other axes.
Status InferGatherElements(const ShapeArgs& args);
/// out[b.., i.., rest..] = data[b.., indices[b.., i.., :], rest..], attribute batch_dims.
Status InferGatherND(const ShapeArgs& args);
/// data with updates[i] at i with its `axis` component replaced by indices[i]; attribute reduction: none, add, mul, max, min,
/// applied in row-major order of the updates.
Status InferScatterElements(const ShapeArgs& args);
/// data with the slice updates[i.., :] at indices[i.., :]; the same reductions.
Status InferScatterND(const ShapeArgs& args);

}  // namespace tenon::kernels::gather_scatter

#endif  // TENON_KERNELS_GATHER_SCATTER_GATHER_SCATTER_H_
