#include "artifact/program.h"

namespace tenon::artifact {
namespace {

// Bodies an operator of control flow needs; 0 for all others.
size_t BodiesOf(const std::string& op) {
  if (op == "If") return 2;
  return op == "Loop" || op == "Scan" || op == "SequenceMap" ? 1 : 0;
}

class Validator {
 public:
  explicit Validator(const Program& p) : p_(p), defined_(p.values.size(), false) {}

  Status Run() {
    for (ValueIndex v : p_.inputs) TENON_RETURN_IF_ERROR(Define(v, "an input"));
    for (size_t i = 0; i < p_.values.size(); ++i) defined_[i] = defined_[i] || p_.values[i].constant.defined();
    for (const Step& s : p_.steps) {
      TENON_RETURN_IF_ERROR(CheckStep(s).Within(fmt::format("step '{}' ({})", s.name, s.op)));
    }
    for (ValueIndex v : p_.outputs) TENON_RETURN_IF_ERROR(Use(v).Within("output"));
    return Status::Ok();
  }

 private:
  Status InRange(ValueIndex v) const {
    if (v < 0 || static_cast<size_t>(v) >= p_.values.size()) return BadInput("value index {} of {}", v, p_.values.size());
    return Status::Ok();
  }
  Status Use(ValueIndex v) const {
    TENON_RETURN_IF_ERROR(InRange(v));
    if (!defined_[static_cast<size_t>(v)])
      return BadInput("value '{}' is used before it is produced", p_.values[static_cast<size_t>(v)].name);
    return Status::Ok();
  }
  Status Define(ValueIndex v, const char* what) {
    TENON_RETURN_IF_ERROR(InRange(v));
    if (defined_[static_cast<size_t>(v)])
      return BadInput("value '{}' is {} and produced elsewhere too", p_.values[static_cast<size_t>(v)].name, what);
    defined_[static_cast<size_t>(v)] = true;
    return Status::Ok();
  }
  Status CheckStep(const Step& s) {
    for (ValueIndex v : s.inputs) {
      if (v != kAbsent) TENON_RETURN_IF_ERROR(Use(v));
    }
    if (s.bodies.size() != BodiesOf(s.op)) return BadInput("{} bodies", s.bodies.size());
    for (const Program& body : s.bodies) TENON_RETURN_IF_ERROR(Validate(body));
    for (ValueIndex v : s.outputs) {
      if (v != kAbsent) TENON_RETURN_IF_ERROR(Define(v, "an output"));
    }
    return Status::Ok();
  }

  const Program& p_;
  std::vector<bool> defined_;
};

}  // namespace

Status Validate(const Program& program) {
  return Validator(program).Run();
}

}  // namespace tenon::artifact
