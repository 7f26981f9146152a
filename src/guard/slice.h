// Programs made of programs: with more outputs, with other kernels, or only some of their steps.
#ifndef TENON_GUARD_SLICE_H_
#define TENON_GUARD_SLICE_H_

#include <set>
#include <span>
#include <vector>

#include "artifact/program.h"

namespace tenon::guard {

/// Value index -> the step that gives it; -1 for inputs and constants.
std::vector<int> Producers(const artifact::Program& program);

/// Two runs may differ: the operator, or one in its bodies, draws random numbers.
bool IsRandom(const artifact::Step& step);

/// The same program that gives every value a step makes as an output too, after its own.
artifact::Program WithAllOutputs(const artifact::Program& program);

/// The same program on the reference kernels wherever an operator has one.
artifact::Program WithReferenceKernels(const artifact::Program& program);

/// Only `steps` (rising), from values they do not make themselves to those of theirs in `outputs`. Constants come along.
artifact::Program Slice(const artifact::Program& program, std::span<const int> steps,
                        const std::set<artifact::ValueIndex>& outputs);

}  // namespace tenon::guard

#endif  // TENON_GUARD_SLICE_H_
