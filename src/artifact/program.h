// A compiled model in memory: the portable graph as a list of steps in execution order. Written to and read from `.tenon` files;
// all the runtime ever sees of a model.
#ifndef TENON_ARTIFACT_PROGRAM_H_
#define TENON_ARTIFACT_PROGRAM_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/dim.h"
#include "tensor/attrs.h"

namespace tenon::artifact {

using ValueIndex = int32_t;
inline constexpr ValueIndex kAbsent = -1;

struct ProgramValue {
  std::string name;
  DType dtype = DType::kUndefined;
  bool is_sequence = false;          ///< sequence or optional of `dtype`
  SymShape shape;                    ///< as the compiler inferred it; symbols by name
  Tensor constant;                   ///< defined() for weights and other constants; for an input: its default
  bool packed_away = false;          ///< the constant is not read where the packed weights of its step serve
};

struct Program;

struct Step {
  std::string op;                    ///< canonical operator name (ops.inc)
  std::string name;                  ///< the node's name in the source model, for messages and profiles
  Attrs attrs;
  std::vector<ValueIndex> inputs;    ///< kAbsent for an omitted optional input
  std::vector<ValueIndex> outputs;   ///< kAbsent for an unused optional output
  /// Bodies of If (then_branch, else_branch), Loop and Scan (body). Closed: what a body uses from outside is passed as
  /// trailing inputs of the step ("captures"), in the order of the body's trailing inputs.
  std::vector<Program> bodies;
  std::string kernel;                ///< name of the chosen row; empty: first that serves
  /// What the row named `packed_row` made of the step's constants, in the order in which it asks (kernels::PackStore).
  std::string packed_row;
  std::vector<std::shared_ptr<Buffer>> packed;
};

struct Program {
  std::string name;
  std::vector<ProgramValue> values;
  std::vector<ValueIndex> inputs;
  std::vector<ValueIndex> outputs;
  std::vector<Step> steps;
  std::map<std::string, std::string> metadata;  ///< the source model's metadata_props (top level only)
  std::map<std::string, std::pair<int64_t, int64_t>> ranges;  ///< declared bounds of input symbols, inclusive
};

/// Every index in range, every value produced once and before its uses, bodies present where the operator needs them.
Status Validate(const Program& program);

}  // namespace tenon::artifact

#endif  // TENON_ARTIFACT_PROGRAM_H_
