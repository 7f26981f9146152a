// DepthToSpace and SpaceToDepth: transpositions of [N, C, H, W] seen with six axes.
#include "kernels/movement/strided.h"
#include "kernels/transpose/internal.h"

namespace tenon::kernels::transpose {
namespace {

struct Params {
  int64_t block = 1;
  bool crd = false;
};

Result<Params> Parse(std::string_view op, const Attrs& attrs) {
  Params p;
  p.block = attrs.Int("blocksize", 0);
  if (p.block < 1 || p.block > (1 << 15)) return BadInput("{}: blocksize {} is outside [1, 32768]", op, p.block);
  const std::string mode = attrs.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return BadInput("{}: mode '{}'; allowed are DCR and CRD", op, mode);
  p.crd = mode == "CRD";
  return p;
}

class DepthSpaceKernel final : public movement::MoveKernel {
 public:
  static Status Check(const Problem& p) { return Parse(p.op, p.attrs).status(); }
  explicit DepthSpaceKernel(const Problem& p) : to_space_(p.op == "DepthToSpace"), p_(*Parse(p.op, p.attrs)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const Shape& s = args.in[0].shape;
    const int64_t b = p_.block;
    if (s.rank() != 4) return BadInput("{}: the input has rank {}, not 4", Name(), s.rank());
    if (to_space_ ? s[1] % (b * b) != 0 : s[2] % b != 0 || s[3] % b != 0) {
      return BadInput("{}: blocksize {} does not divide the input of shape {}", Name(), b, s.ToString());
    }
    const Shape shape =
        to_space_ ? Shape({s[0], s[1] / (b * b), s[2] * b, s[3] * b}) : Shape({s[0], s[1] * b * b, s[2] / b, s[3] / b});
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const Shape& small = to_space_ ? s : shape;  // the side with the small plane
    const Shape& wide = to_space_ ? shape : s;
    // Axes n, c, h, bh, w, bw of the wide side, with strides into both sides. CRD exists for DepthToSpace only.
    const int64_t plane = small[2] * small[3];
    const int64_t c = p_.crd ? b * b * plane : plane;
    const int64_t bh = p_.crd ? b * plane : b * wide[1] * plane;
    const int64_t bw = p_.crd ? plane : wide[1] * plane;
    const int64_t extent[6] = {small[0], wide[1], small[2], b, small[3], b};
    const int64_t deep[6] = {small[1] * plane, c, small[3], bh, 1, bw};
    const int64_t flat[6] = {wide[1] * wide[2] * wide[3], wide[2] * wide[3], b * wide[3], wide[3], b, 1};
    const int to_wide[6] = {0, 1, 2, 3, 4, 5};
    const int to_deep[6] = {0, 3, 5, 1, 2, 4};
    movement::StridedCopy copy;
    for (int i = 0; i < 6; ++i) {
      const int k = to_space_ ? to_wide[i] : to_deep[i];
      copy.Add(extent[k], to_space_ ? flat[k] : deep[k], to_space_ ? deep[k] : flat[k]);
    }
    copy.Run(args.out[0].data, args.in[0].data, movement::ElementSize(args.in[0].dtype), args.team);
    return Status::Ok();
  }

 private:
  const char* Name() const { return to_space_ ? "DepthToSpace" : "SpaceToDepth"; }
  bool to_space_;
  Params p_;
};

Status Infer(const ShapeArgs& args, bool to_space) {
  const char* op = to_space ? "DepthToSpace" : "SpaceToDepth";
  TENON_ASSIGN_OR_RETURN(const Params p, Parse(op, args.attrs));
  const SymShape& in = args.in[0].shape;
  movement::SetTensor(&args.out[0], args.in[0].dtype, SymShape::OfRank(4));
  if (!in.has_rank()) return Status::Ok();
  if (in.rank() != 4) return BadInput("{}: the input has rank {}, not 4", op, in.rank());
  const Dim b(p.block);
  const auto divides = [](const Dim& d, int64_t by) { return !d.is_const() || d.value() % by == 0; };
  if (to_space ? !divides(in[1], p.block * p.block) : !divides(in[2], p.block) || !divides(in[3], p.block)) {
    return BadInput("{}: blocksize {} does not divide the input of shape {}", op, p.block, in.ToString());
  }
  SymShape out = to_space ? SymShape({in[0], Dim::FloorDiv(in[1], b * b), in[2] * b, in[3] * b})
                          : SymShape({in[0], in[1] * b * b, Dim::FloorDiv(in[2], b), Dim::FloorDiv(in[3], b)});
  TENON_RETURN_IF_ERROR(movement::CheckDims(out));
  args.out[0].shape = std::move(out);
  return Status::Ok();
}

}  // namespace

Status InferDepthToSpace(const ShapeArgs& args) {
  return Infer(args, true);
}
Status InferSpaceToDepth(const ShapeArgs& args) {
  return Infer(args, false);
}

Result<std::unique_ptr<Kernel>> MakeDepthSpace(const Problem& problem) {
  return movement::Make<DepthSpaceKernel>(problem);
}

}  // namespace tenon::kernels::transpose
