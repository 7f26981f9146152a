#include "kernels/transpose/transpose.h"

#include <array>

#include "kernels/movement/strided.h"
#include "kernels/transpose/internal.h"

namespace tenon::kernels::transpose {

Status ParsePerm(const Attrs& attrs, std::vector<int>* perm) {
  const std::vector<int64_t> given = attrs.Ints("perm");
  if (given.size() > kMaxRank) return BadInput("Transpose: perm has {} entries; allowed are {}", given.size(), kMaxRank);
  std::vector<bool> seen(given.size(), false);
  const auto n = static_cast<int64_t>(given.size());
  for (int64_t p : given) {
    const int64_t axis = p < 0 ? p + n : p;
    if (axis < 0 || axis >= n || seen[static_cast<size_t>(axis)]) {
      return BadInput("Transpose: perm has {}, which makes it no permutation of 0..{}", p, n - 1);
    }
    seen[static_cast<size_t>(axis)] = true;
    perm->push_back(static_cast<int>(axis));
  }
  return Status::Ok();
}

Status InferTranspose(const ShapeArgs& args) {
  std::vector<int> perm;
  TENON_RETURN_IF_ERROR(ParsePerm(args.attrs, &perm));
  const SymShape& in = args.in[0].shape;
  SymShape out;
  if (in.has_rank()) {
    if (!perm.empty() && static_cast<int>(perm.size()) != in.rank()) {
      return BadInput("Transpose: perm has {} entries for an input of rank {}", perm.size(), in.rank());
    }
    std::vector<Dim> dims;
    for (int i = 0; i < in.rank(); ++i) dims.push_back(in[perm.empty() ? in.rank() - 1 - i : perm[static_cast<size_t>(i)]]);
    out = SymShape(std::move(dims));
  } else if (!perm.empty()) {
    out = SymShape::OfRank(static_cast<int>(perm.size()));
  }
  auto elements = out.has_rank() && out.rank() <= 1 ? movement::SmallElements(args.in[0]) : std::nullopt;
  movement::SetTensor(&args.out[0], args.in[0].dtype, std::move(out));
  if (elements) movement::SetElements(&args.out[0], *std::move(elements));
  return Status::Ok();
}

namespace {

// Axis k of the output is axis Source(k) of the input.
int Source(const std::vector<int>& perm, int rank, int k) {
  return perm.empty() ? rank - 1 - k : perm[static_cast<size_t>(k)];
}

Result<Shape> OutputShape(const std::vector<int>& perm, const Shape& in) {
  if (!perm.empty() && static_cast<int>(perm.size()) != in.rank()) {
    return BadInput("Transpose: perm has {} entries for an input of rank {}", perm.size(), in.rank());
  }
  Shape out;
  for (int k = 0; k < in.rank(); ++k) out.push_back(in[Source(perm, in.rank(), k)]);
  return out;
}

class BlockedKernel final : public movement::MoveKernel {
 public:
  static Status Check(const Problem& problem) { return ReferenceKernel::Check(problem); }
  explicit BlockedKernel(const Problem& problem) { (void)ParsePerm(problem.attrs, &perm_); }

 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(const Shape shape, OutputShape(perm_, in.shape));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    int64_t src[kMaxRank];
    int64_t dst[kMaxRank];
    movement::RowMajorStrides(in.shape, src);
    movement::RowMajorStrides(shape, dst);
    movement::StridedCopy copy;
    for (int k = 0; k < shape.rank(); ++k) copy.Add(shape[k], dst[k], src[Source(perm_, shape.rank(), k)]);
    copy.Run(args.out[0].data, in.data, movement::ElementSize(in.dtype), args.team);
    return Status::Ok();
  }

 private:
  std::vector<int> perm_;
};

// Rows of all operators of the family, and where those of one begin and end.
struct NamedRow {
  std::string_view op;
  Row row;
};
constexpr NamedRow kNamedRows[] = {
#define KERNEL(op, row, isa, can, make) {#op, {row, isa, can, make}},
#include "kernels/transpose/kernels.inc"
#undef KERNEL
};
constexpr auto kRows = [] {
  std::array<Row, std::size(kNamedRows)> rows;
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = kNamedRows[i].row;
  return rows;
}();

std::span<const Row> RowsOf(std::string_view op) {
  size_t begin = 0;
  while (begin < kRows.size() && kNamedRows[begin].op != op) ++begin;
  size_t end = begin;
  while (end < kRows.size() && kNamedRows[end].op == op) ++end;
  return {kRows.data() + begin, end - begin};
}

}  // namespace

Status ReferenceKernel::Check(const Problem& problem) {
  std::vector<int> perm;
  return ParsePerm(problem.attrs, &perm);
}

ReferenceKernel::ReferenceKernel(const Problem& problem) {
  (void)ParsePerm(problem.attrs, &perm_);
}

Status ReferenceKernel::Move(const RunArgs& args) const {
  const View& in = args.in[0];
  TENON_ASSIGN_OR_RETURN(const Shape shape, OutputShape(perm_, in.shape));
  TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
  const int size = movement::ElementSize(in.dtype);
  const int rank = shape.rank();
  const int64_t n = shape.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    int64_t index[kMaxRank] = {};  // by input axis
    for (int k = rank - 1; k >= 0; --k) {
      index[Source(perm_, rank, k)] = rest % shape[k];
      rest /= shape[k];
    }
    int64_t from = 0;
    for (int a = 0; a < rank; ++a) from = from * in.shape[a] + index[a];
    movement::CopyElements(movement::At(args.out[0].data, i, size), movement::At(in.data, from, size), 1, size);
  }
  return Status::Ok();
}

std::span<const OpKernels> Operators() {
  static const OpKernels table[] = {
      {"DepthToSpace", InferDepthToSpace, RowsOf("DepthToSpace"), 1, 1, 1, 1, false},
      {"SpaceToDepth", InferSpaceToDepth, RowsOf("SpaceToDepth"), 1, 1, 1, 1, false},
      {"Transpose", InferTranspose, RowsOf("Transpose"), 1, 1, 1, 1, false},
  };
  return table;
}

}  // namespace tenon::kernels::transpose
