// Short names for the operators that decompositions are made of: each adds a node and gives its output.
#ifndef TENON_IMPORT_ONNX_EMIT_H_
#define TENON_IMPORT_ONNX_EMIT_H_

#include <initializer_list>
#include <vector>

#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format::emit {

using ir::ValueId;

Attrs IntAttr(const char* name, int64_t value);
Attrs FloatAttr(const char* name, float value);
Attrs IntsAttr(const char* name, std::vector<int64_t> values);

/// kBadInput unless all of these inputs of `p` are there.
Status Need(const Pending& p, std::initializer_list<size_t> which);

ValueId Cast(Builder* b, ValueId x, DType to);
/// `extents` as Reshape has them: 0 keeps, -1 is the rest.
ValueId Reshape(Builder* b, ValueId x, std::vector<int64_t> extents);
ValueId Transpose(Builder* b, ValueId x, std::vector<int64_t> perm);
ValueId Concat(Builder* b, std::vector<ValueId> parts, int64_t axis);
/// Elements [start, end) along `axis`, numbers or values [1]; `end` may lie beyond the extent.
ValueId Slice(Builder* b, ValueId x, int64_t axis, int64_t start, int64_t end);
ValueId SliceBetween(Builder* b, ValueId x, int64_t axis, ValueId start, ValueId end);
/// Element `index` along `axis`, which falls away.
ValueId Pick(Builder* b, ValueId x, int64_t axis, int64_t index);
ValueId Unsqueeze(Builder* b, ValueId x, std::vector<int64_t> axes);
ValueId Squeeze(Builder* b, ValueId x, std::vector<int64_t> axes);
/// Extent of `axis` >= 0 as int64 [1].
ValueId Extent(Builder* b, ValueId x, int64_t axis);
/// 0, 1, ... below `count` (int64, one element) as int64 [count].
ValueId Count(Builder* b, ValueId count);
/// Equal parts along `axis`, or parts of these extents.
std::vector<ValueId> Split(Builder* b, ValueId x, int64_t axis, int64_t parts);
std::vector<ValueId> Split(Builder* b, ValueId x, int64_t axis, const std::vector<int64_t>& extents);

/// Softmax of opsets before 13: over all axes from `axis` on, as one.
ValueId FlatSoftmax(Builder* b, ValueId x, int64_t axis);

/// p's node becomes this one, with its first output alone.
void Become(Builder* b, Pending* p, const char* op, std::vector<ValueId> inputs, Attrs attrs = {});
/// Output `index` of p's node, where the file names it, is `x`. For outputs but the first, before Become.
void Give(Pending* p, size_t index, ValueId x);

/// Channels-last to channels-first and back, for a tensor of known `rank`.
ValueId ToChannelsFirst(Builder* b, ValueId x, int rank);
ValueId ToChannelsLast(Builder* b, ValueId x, int rank);
/// p's node becomes `op`; `last`: with transposes to channels-first around it. Inputs 0 and those of `more` are turned.
Status BecomeChannelsFirst(Builder* b, Pending* p, const char* op, bool last, std::initializer_list<size_t> more = {});
/// Rank of input `index`; kUnsupported when it is not known.
Result<int> NeedRank(const Builder& b, const Pending& p, size_t index);

}  // namespace tenon::import::onnx_format::emit

#endif  // TENON_IMPORT_ONNX_EMIT_H_
