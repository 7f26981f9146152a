// One model compiled at many precisions: everything that comes before precision is done once.
#ifndef TENON_COMPILE_VARIANTS_H_
#define TENON_COMPILE_VARIANTS_H_

#include <functional>
#include <memory>
#include <string>

#include "artifact/program.h"
#include "compile/stages.h"
#include "passes/precision.h"

namespace tenon::compile {

struct Variant {
  artifact::Program program;
  passes::PrecisionOutcome outcome;
  CompileReport report;
};

class Variants {
 public:
  /// `options.precision`, its lists and kept nodes say what may be lowered (ReadPrecision); `team` outlives the object.
  static Result<std::unique_ptr<Variants>> Create(const std::string& model, const CompileOptions& options, hw::Team& team);

  /// All that is allowed: lists and kept nodes of the user included.
  const passes::PrecisionPolicy& policy() const { return policy_; }
  /// The model under `policy`. Constants that no pass touches are shared among all variants.
  Result<Variant> Make(const passes::PrecisionPolicy& policy) const;
  /// Changes the optimised f32 graph from which all variants are made from now on. What it computes must stay the same.
  Status Edit(const std::function<Status(ir::Graph&)>& change) { return change(optimized_.graph); }
  /// From now on `finish` has the last word on every program that is made.
  void SetFinisher(std::function<Status(artifact::Program*)> finish) { finish_ = std::move(finish); }
  /// Exactly as the model says.
  Result<Variant> Full() const { return Make(passes::PrecisionPolicy()); }

 private:
  Variants(const CompileOptions& options, hw::Team& team) : options_(options), team_(team) {}

  CompileOptions options_;
  hw::Team& team_;
  passes::PrecisionPolicy policy_;
  Imported optimized_;
  CompileReport report_;
  std::function<Status(artifact::Program*)> finish_;
};

}  // namespace tenon::compile

#endif  // TENON_COMPILE_VARIANTS_H_
