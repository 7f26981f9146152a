// Balancing (SmoothQuant): channels with outliers are what makes the activations of transformers hard to round. A scale per
// channel moves part of their spread into the weights, which bear it better:
//
//   x W = (x / s) (s W),   s[k] = max|x[k]|^alpha / max over n |W[k, n]|^(1 - alpha)
//
// 1/s goes into the norm or the matrix product that makes x, where that has no other readers; else a Mul takes its place.
#ifndef TENON_QUANTIZE_BALANCE_H_
#define TENON_QUANTIZE_BALANCE_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "guard/data.h"
#include "ir/graph.h"

namespace tenon::quantize {

/// Largest magnitude of each channel (last axis) of a tensor, by name.
using ChannelMaxima = std::map<std::string, std::vector<float>, std::less<>>;

/// Of the inputs of `program`'s matrix products with constant weights; `session` runs it on `samples`.
Result<ChannelMaxima> MeasureMaxima(const artifact::Program& program, Session& session, guard::DataSet& data,
                                    std::span<const size_t> samples, const RunOptions& run);

struct BalancedTensor {
  std::string name;            ///< of the input of the products
  std::vector<float> scales;   ///< s: it was divided by these
  bool folded = false;         ///< into what makes it; else by a Mul
};

/// Changes the f32 graph; what it computes stays the same but for rounding. `alpha` in [0, 1].
Result<std::vector<BalancedTensor>> Balance(ir::Graph& graph, const ChannelMaxima& maxima, double alpha);

}  // namespace tenon::quantize

#endif  // TENON_QUANTIZE_BALANCE_H_
