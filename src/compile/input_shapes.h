// Input shapes given by the user, applied to a graph.
#ifndef TENON_COMPILE_INPUT_SHAPES_H_
#define TENON_COMPILE_INPUT_SHAPES_H_

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::compile {

/// One extent: "8" fixed, "n" symbol, "1..8" or ATC's "1~8" range, "-1" or "?" any. Ranges are recorded under the symbol's name.
Result<Dim> ParseInputDim(const std::string& text, const std::string& input, int axis,
                          std::map<std::string, std::pair<int64_t, int64_t>>* ranges);

/// kUsage: unknown input, wrong rank, contradiction with an extent that the model fixes.
Status ApplyInputShapes(const std::map<std::string, std::vector<std::string>>& shapes, ir::Graph* graph,
                        std::map<std::string, std::pair<int64_t, int64_t>>* ranges);

}  // namespace tenon::compile

#endif  // TENON_COMPILE_INPUT_SHAPES_H_
