// What passes ask of QuantizeLinear and DequantizeLinear nodes.
#ifndef TENON_PASSES_QUANTIZED_H_
#define TENON_PASSES_QUANTIZED_H_

#include <optional>

#include "passes/rewriter.h"

namespace tenon::passes {

/// One constant scale above 0 and zero point for a whole tensor of uint8 or int8.
struct Quantisation {
  ValueId bytes = kNone;
  float scale = 1;
  int32_t zero = 0;

  bool SameAs(const Quantisation& o) const { return scale == o.scale && zero == o.zero; }
};

/// Of a QuantizeLinear or DequantizeLinear node of f32; `bytes` is the value on the quantised side.
std::optional<Quantisation> QuantisationOf(const Rewriter& r, NodeId id);

/// The DequantizeLinear that produces `v`.
std::optional<Quantisation> Dequantised(const Rewriter& r, ValueId v);

}  // namespace tenon::passes

#endif  // TENON_PASSES_QUANTIZED_H_
