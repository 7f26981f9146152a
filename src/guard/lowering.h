// The accuracy guard: which operators of a model compute in less than f32, so that it is as fast as can be and loses no more
// than allowed, proved on samples that played no part in the choice.
//
//   1. the f32 model judged on the deciding samples is the reference
//   2. everything lowered: within the allowance, that is the choice
//   3. else each operator lowered alone tells how much it hurts; the worst for what they gain go back to f32, as many as needed
//      (bisection), and single ones are lowered again while the allowance lasts
//   4. the choice is judged on the held-out samples; while it falls short, more go back to f32
//   5. it must also be faster than f32 by more than the machine's noise
//
// What is returned was judged, whenever the search is stopped.
#ifndef TENON_GUARD_LOWERING_H_
#define TENON_GUARD_LOWERING_H_

#include <functional>
#include <string>
#include <vector>

#include "compile/variants.h"
#include "guard/assess.h"
#include "guard/drop.h"
#include "guard/search_memory.h"

namespace tenon::guard {

struct LoweringOptions {
  passes::PrecisionPolicy policy;    ///< what may be lowered to what
  MetricSpec metric;
  double max_drop = 0.005;           ///< relative, as Drop::relative; infinite: everything is lowered, and judged
  bool measures_ranges = true;  ///< of values, on deciding samples, where integers are allowed; false: policy.ranges holds
  bool must_be_faster = true;  ///< false: lowered for other reasons than time
  double budget_s = 60;  ///< wall clock; the search ends with what it has
  Split split;  ///< deciding and held-out samples
  SessionOptions session;
  RunOptions run;  ///< cancelled: the search ends with what it has
  SearchMemory* memory = nullptr;  ///< of this model, data, metric, split and policy; held-out samples judge in any case
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

struct NodeChoice {
  std::string name;  ///< of the source model
  std::string op;
  std::string output;  ///< PrecisionPolicy::only
  bool chosen = false;  ///< worth lowering for its own sake; else it stands between such ones
  bool lowered = false;
  DType precision = DType::kUndefined;  ///< when lowered
  bool alone_known = false;  ///< the next two were measured
  double alone_error = 0;  ///< relative error of the model's outputs when this node alone is lowered
  double alone_drop = 0;  ///< of the metric
  double before_us = 0;  ///< per run, f32; nodes of one name count together
  double after_us = 0;  ///< in the final model
};

/// One combination that was judged: the curve of drop against time.
struct Trial {
  size_t lowered = 0;  ///< nodes
  double drop = 0;  ///< relative, on the deciding samples
  double high = 0;  ///< Drop::high
  bool within = false;  ///< the drop allowed
  double estimated_us = 0;  ///< from the times of single operators
  std::string what;
};

struct LoweringResult {
  compile::Variant variant;  ///< to be written; f32 when nothing was lowered
  bool lowered = false;
  bool refused = false;  ///< nothing held on the held-out samples, although something was gained
  bool complete = true;  ///< false: stopped by budget or user
  std::vector<NodeChoice> nodes;
  std::vector<Trial> trials;
  Drop deciding;
  Drop held_out;
  double before_us = 0;  ///< a run, f32 and final, measured in turn
  double after_us = 0;
  double noise = 0;
  std::string verdict;  ///< one line for people
};

/// `data` with at least two samples.
Result<LoweringResult> ChooseLowering(const compile::Variants& variants, DataSet& data, const LoweringOptions& options);

}  // namespace tenon::guard

#endif  // TENON_GUARD_LOWERING_H_
