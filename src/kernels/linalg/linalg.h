// Einsum, determinants and inverses.
//
//   Einsum  out[output labels] = sum over the other labels of the product of the operands; numpy.einsum's equation language:
//           "ij,jk->ik", implicit output, "..." for broadcast axes, a repeated label for a diagonal. An extent of 1 broadcasts.
//   Det     determinant of the last two axes of x [..., m, m]
//   Inverse inverse matrices of x [..., m, m] (com.microsoft)
#ifndef TENON_KERNELS_LINALG_LINALG_H_
#define TENON_KERNELS_LINALG_LINALG_H_

#include <array>

#include "kernels/kernel.h"

namespace tenon::kernels::linalg {

std::span<const OpKernels> Operators();

/// An equation, parsed without knowledge of shapes. Labels are letters; '.' stands for the ellipsis, once in a term.
struct Equation {
  std::vector<std::string> terms;
  std::string output;
};
Result<Equation> ParseEquation(std::string_view text, size_t operands);

/// Labels numbered for given ranks: the ellipsis axes first, then letters. Most labels: kMaxLabels.
inline constexpr int kMaxLabels = 64;
struct Labels {
  std::vector<std::vector<int>> terms;  ///< label of each axis of each operand
  std::vector<int> output;
  int count = 0;
};
Result<Labels> NumberLabels(const Equation& equation, std::span<const int> ranks);

/// Extent of every label; kBadInput when operands disagree.
Result<std::array<int64_t, kMaxLabels>> Extents(const Labels& labels, std::span<const View> in);

Status InferEinsum(const ShapeArgs& args);
Status InferDet(const ShapeArgs& args);
Status InferInverse(const ShapeArgs& args);

Refusal CanEinsumF32(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeEinsumF32(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeEinsumReference(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDet(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeInverse(const Problem& problem);

}  // namespace tenon::kernels::linalg

#endif  // TENON_KERNELS_LINALG_LINALG_H_
