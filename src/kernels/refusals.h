// The catalogue of reasons with which a kernel row declines a problem (`tenon inspect --stage kernels` prints them).
#ifndef TENON_KERNELS_REFUSALS_H_
#define TENON_KERNELS_REFUSALS_H_

namespace tenon::kernels {

inline constexpr const char* kRefuseIsa = "this CPU (or TENON_ISA) lacks the instruction set";
inline constexpr const char* kRefuseDType = "element type not served";
inline constexpr const char* kRefuseRank = "rank not served";
inline constexpr const char* kRefuseAttribute = "attribute value not served";
inline constexpr const char* kRefuseWeightsNotConstant = "weights are not constant";
inline constexpr const char* kRefuseShapeUnknown = "needs a shape that is not known at compile time";
inline constexpr const char* kRefuseLayout = "layout not served";
inline constexpr const char* kRefuseSize = "size outside the range served";
inline constexpr const char* kRefuseOptionalInput = "optional input not served";
inline constexpr const char* kRefuseInexact = "less exact than asked for (implementation mode)";

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_REFUSALS_H_
