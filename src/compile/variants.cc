#include "compile/variants.h"

#include "compile/precision.h"

namespace tenon::compile {

Result<std::unique_ptr<Variants>> Variants::Create(const std::string& model, const CompileOptions& options, hw::Team& team) {
  std::unique_ptr<Variants> v(new Variants(options, team));
  TENON_ASSIGN_OR_RETURN(PrecisionWish wish, ReadPrecision(options));
  v->policy_ = std::move(wish.policy);
  TENON_ASSIGN_OR_RETURN(v->optimized_, Import(model, options));
  TENON_RETURN_IF_ERROR(CheckKeptNodes(v->policy_, v->optimized_.graph));
  for (const auto& [op, count] : CountOps(v->optimized_.graph)) v->report_.imported_ops += count;
  v->report_.import_ms = v->optimized_.ms;
  v->report_.notes = v->optimized_.notes;
  passes::PassContext context;
  context.team = &team;
  context.part = passes::PassContext::Part::kBeforePrecision;
  TENON_RETURN_IF_ERROR(Optimize(&v->optimized_, options, std::move(context), &v->report_));
  return v;
}

Result<Variant> Variants::Make(const passes::PrecisionPolicy& policy) const {
  Variant variant;
  variant.report = report_;
  Imported copy;
  copy.graph = optimized_.graph.Clone();
  copy.input_defaults = optimized_.input_defaults;
  copy.ranges = optimized_.ranges;
  passes::PassContext context;
  context.team = &team_;
  context.part = passes::PassContext::Part::kFromPrecision;
  context.precision = policy;
  context.precision_outcome = &variant.outcome;
  TENON_RETURN_IF_ERROR(Optimize(&copy, options_, std::move(context), &variant.report));
  for (const auto& n : variant.outcome.lowered) {
    variant.report.lowered.push_back({n.name, n.op, std::string(DTypeName(n.precision)), n.white});
  }
  TENON_ASSIGN_OR_RETURN(variant.program, Finish(copy, &variant.report));
  if (finish_) TENON_RETURN_IF_ERROR(finish_(&variant.program));
  return variant;
}

}  // namespace tenon::compile
