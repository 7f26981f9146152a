// Shape rules of attention.
#include "kernels/attention/shape.h"
#include "kernels/attention/attention.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::attention {
namespace {

struct Extents {
  Dim batch = Dim::Unknown(), heads = Dim::Unknown(), seq = Dim::Unknown(), dim = Dim::Unknown();
};

Result<Extents> Read(const char* name, const SymShape& s, int64_t heads) {
  Extents e;
  if (heads > 0) e.heads = Dim(heads);
  if (!s.has_rank()) return e;
  if (s.rank() == 3) {
    if (heads < 1) return BadInput("{} has rank 3, so the number of heads must be given", name);
    const auto dim = Dim::ExactDiv(s[2], Dim(heads));
    if (!dim && s[2].is_const())
      return BadInput("{} is {}; its last extent must be a multiple of {} heads", name, s.ToString(), heads);
    e = {s[0], Dim(heads), s[1], dim ? *dim : Dim::FloorDiv(s[2], Dim(heads))};
  } else if (s.rank() == 4) {
    e = {s[0], s[1], s[2], s[3]};
  } else {
    return BadInput("{} has rank {}; allowed: 3, 4", name, s.rank());
  }
  return e;
}

SymShape OutShape(int rank, const Extents& q, const Dim& v_dim) {
  if (rank == 3) return SymShape({q.batch, q.seq, q.heads * v_dim});
  if (rank == 4) return SymShape({q.batch, q.heads, q.seq, v_dim});
  return {};
}

}  // namespace

Status InferAttention(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const AttentionParams p, ParseAttention("Attention", args.attrs));
  TENON_ASSIGN_OR_RETURN(const Extents q, Read("Q", args.in[0].shape, p.heads));
  TENON_ASSIGN_OR_RETURN(const Extents k, Read("K", args.in[1].shape, p.kv_heads));
  TENON_ASSIGN_OR_RETURN(const Extents v, Read("V", args.in[2].shape, p.kv_heads));
  Dim total = k.seq;
  if (args.Has(4)) {
    const SymShape& past = args.in[4].shape;
    total = total + (past.has_rank() && past.rank() == 4 ? past[2] : Dim::Unknown());
  }
  const DType t = args.in[0].dtype;
  SetOutput(args, 0, t, OutShape(args.in[0].shape.has_rank() ? args.in[0].shape.rank() : 0, q, v.dim));
  SetOutput(args, 1, t, SymShape({k.batch, k.heads, total, k.dim}));
  SetOutput(args, 2, t, SymShape({k.batch, k.heads, total, v.dim}));
  SetOutput(args, 3, t, SymShape({q.batch, q.heads, q.seq, total}));
  return {};
}

Status InferFusedAttention(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const AttentionParams p, ParseAttention("FusedAttention", args.attrs));
  const SymShape& s = args.in[0].shape;
  int rank = p.out_rank != 0 ? p.out_rank : s.has_rank() ? s.rank() : 0;
  Extents q, v;
  if (args.Has(1)) {
    if (!args.Has(2)) return BadInput("k and v must be given together");
    TENON_ASSIGN_OR_RETURN(q, Read("q", s, p.heads));
    TENON_ASSIGN_OR_RETURN(v, Read("v", args.in[2].shape, p.kv_heads));
  } else {
    if (s.has_rank() && s.rank() != 3) return BadInput("packed q has rank {}; allowed: 3", s.rank());
    TENON_ASSIGN_OR_RETURN(q, Read("packed q", s, p.heads + 2 * p.kv_heads));
    q.heads = Dim(p.heads);
    v = q;
    if (rank == 0) rank = 3;
  }
  SetOutput(args, 0, args.in[0].dtype, OutShape(rank, q, v.dim));
  return {};
}

}  // namespace tenon::kernels::attention
