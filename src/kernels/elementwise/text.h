// Numbers from and to text, for Cast.
#ifndef TENON_KERNELS_ELEMENTWISE_TEXT_H_
#define TENON_KERNELS_ELEMENTWISE_TEXT_H_

#include <string>

#include "base/status.h"
#include "kernels/elementwise/convert.h"

namespace tenon::kernels::elementwise {

/// Plain or scientific notation, surrounding blanks allowed; "INF", "+INF", "-INF", "NaN" (and "Infinity") in any case. The word
/// has KindOf(to); for an integer target a fraction is cut off and what does not fit takes the nearest bound. kBadInput for other
/// text.
Status ParseNumber(const std::string& text, DType to, Word* out);

/// Shortest text that reads back as the same value of type `from`, as NumPy writes it: "1.0", "1e-07", "nan", "inf", "True".
std::string FormatNumber(DType from, const Word& value);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_TEXT_H_
