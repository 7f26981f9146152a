#include "kernels/sequence/sequence.h"

#include "kernels/sequence/internal.h"

namespace tenon::kernels::sequence {
namespace {

using movement::SetTensor;

// Index of `position` in [0, n), or [0, n] when the end is allowed.
Result<int64_t> ReadPosition(std::string_view op, const View& v, int64_t n, bool end_allowed) {
  if (!movement::IsIndexType(v.dtype) || v.num_elements() != 1) return BadInput("{}: position must be one integer", op);
  const int64_t at = movement::ReadInt(v, 0);
  const int64_t last = end_allowed ? n : n - 1;
  if (at < -n || at > last) return BadInput("{}: position {} is outside [{}, {}] of a sequence of {}", op, at, -n, last, n);
  return at < 0 ? at + n : at;
}

// SequenceEmpty, SequenceConstruct, SequenceInsert, SequenceErase.
class EditKernel final : public Kernel {
 public:
  explicit EditKernel(const Problem& p) : op_(p.op) {}

  Status Run(const RunArgs& args) const override {
    TENON_RETURN_IF_ERROR(NeedOutput(op_, args.out[0]));
    Sequence& out = *args.out[0].sequence;
    out.clear();
    if (op_ == "SequenceEmpty") return Status::Ok();
    if (op_ == "SequenceConstruct") return Construct(args, &out);
    TENON_RETURN_IF_ERROR(NeedSequence(op_, args.in[0]));
    out = *args.in[0].sequence;
    const bool insert = op_ == "SequenceInsert";
    const size_t position_input = insert ? 2 : 1;
    const auto n = static_cast<int64_t>(out.size());
    int64_t at = insert ? n : n - 1;
    if (args.Has(position_input)) {
      TENON_ASSIGN_OR_RETURN(at, ReadPosition(op_, args.in[position_input], n, insert));
    }
    if (!insert) {
      if (n == 0) return BadInput("SequenceErase: the sequence is empty");
      out.erase(out.begin() + at);
      return Status::Ok();
    }
    if (args.in[1].sequence != nullptr || (n > 0 && out[0].dtype() != args.in[1].dtype)) {
      return BadInput("SequenceInsert: a {} tensor does not fit the sequence", DTypeName(args.in[1].dtype));
    }
    TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(args.in[1]));
    out.insert(out.begin() + at, std::move(copy));
    return Status::Ok();
  }

 private:
  static Status Construct(const RunArgs& args, Sequence* out) {
    for (const View& v : args.in) {
      if (v.sequence != nullptr || v.dtype != args.in[0].dtype)
        return BadInput("SequenceConstruct: inputs must be tensors of one type");
      TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(v));
      out->push_back(std::move(copy));
    }
    return Status::Ok();
  }

  std::string op_;
};

// Copies `t` to the output.
Status StoreTensor(std::string_view op, const RunArgs& args, const View& t) {
  TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, t.shape));
  const MutView& out = args.out[0];
  if (out.dtype != t.dtype) return BadInput("{}: the element is {}, not {}", op, DTypeName(t.dtype), DTypeName(out.dtype));
  const bool strings = t.dtype == DType::kString;
  movement::CopyElementsParallel(out.data, t.data, strings ? t.num_elements() : static_cast<int64_t>(t.bytes()),
                                 strings ? movement::kStringSize : 1, args.team);
  return Status::Ok();
}

// SequenceAt and SequenceLength.
class ReadKernel final : public Kernel {
 public:
  explicit ReadKernel(const Problem& p) : op_(p.op) {}

  Status Run(const RunArgs& args) const override {
    TENON_RETURN_IF_ERROR(NeedSequence(op_, args.in[0]));
    const Sequence& in = *args.in[0].sequence;
    if (op_ == "SequenceLength") {
      TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, Shape()));
      *args.out[0].Data<int64_t>() = static_cast<int64_t>(in.size());
      return Status::Ok();
    }
    TENON_ASSIGN_OR_RETURN(const int64_t at, ReadPosition(op_, args.in[1], static_cast<int64_t>(in.size()), false));
    return StoreTensor(op_, args, in[static_cast<size_t>(at)].view());
  }

 private:
  std::string op_;
};

// Optional, OptionalGetElement, OptionalHasElement.
class OptionalKernel final : public Kernel {
 public:
  explicit OptionalKernel(const Problem& p) : op_(p.op) {}

  Status Run(const RunArgs& args) const override {
    const bool given = args.Has(0);
    const Sequence* in = given ? args.in[0].sequence : nullptr;
    if (op_ == "OptionalHasElement") {
      TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, Shape()));
      *args.out[0].Data<bool>() = given && (in == nullptr || !in->empty());
      return Status::Ok();
    }
    if (op_ == "OptionalGetElement" && args.out[0].sequence == nullptr) {
      if (in == nullptr) return StoreTensor(op_, args, args.in[0]);
      if (in->size() != 1) return BadInput("OptionalGetElement: the optional has {} elements, not 1", in->size());
      return StoreTensor(op_, args, (*in)[0].view());
    }
    TENON_RETURN_IF_ERROR(NeedOutput(op_, args.out[0]));
    args.out[0].sequence->clear();
    if (in != nullptr) {
      *args.out[0].sequence = *in;
    } else if (given) {
      TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(args.in[0]));
      args.out[0].sequence->push_back(std::move(copy));
    }
    return Status::Ok();
  }

 private:
  std::string op_;
};

Status NeedSequence(std::string_view op, const ValueInfo& v) {
  return v.is_sequence ? Status::Ok() : BadInput("{}: input 0 must be a sequence, not a {} tensor", op, DTypeName(v.dtype));
}

#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/sequence/kernels.inc"
#undef KERNEL

}  // namespace

Status InferSequenceEmpty(const ShapeArgs& args) {
  const int64_t dtype = args.attrs.Int("dtype", static_cast<int64_t>(DType::kF32));
  if (dtype > INT32_MAX || dtype < 0 || !IsValidDType(static_cast<int32_t>(dtype))) {
    return BadInput("SequenceEmpty: dtype {} is not a tensor type", dtype);
  }
  SetSequence(&args.out[0], static_cast<DType>(dtype));
  return Status::Ok();
}

Status InferSequenceConstruct(const ShapeArgs& args) {
  for (size_t i = 0; i < args.in.size(); ++i) {
    if (args.in[i].is_sequence) return BadInput("SequenceConstruct: input {} is a sequence", i);
    if (args.in[i].dtype != args.in[0].dtype && args.in[i].dtype != DType::kUndefined && args.in[0].dtype != DType::kUndefined) {
      return BadInput("SequenceConstruct: input {} is {}, input 0 is {}", i, DTypeName(args.in[i].dtype),
                      DTypeName(args.in[0].dtype));
    }
  }
  SetSequence(&args.out[0], args.in[0].dtype);
  return Status::Ok();
}

Status InferSequenceEdit(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedSequence("SequenceInsert or SequenceErase", args.in[0]));
  SetSequence(&args.out[0], args.in[0].dtype);
  return Status::Ok();
}

Status InferSequenceAt(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedSequence("SequenceAt", args.in[0]));
  SetTensor(&args.out[0], args.in[0].dtype, {});
  return Status::Ok();
}

Status InferSequenceLength(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedSequence("SequenceLength", args.in[0]));
  SetTensor(&args.out[0], DType::kI64, SymShape(std::vector<Dim>{}));
  return Status::Ok();
}

Status InferOptional(const ShapeArgs& args) {
  const int64_t declared = args.attrs.Int("dtype", 0);
  const bool valid = declared > 0 && declared <= INT32_MAX && IsValidDType(static_cast<int32_t>(declared));
  SetSequence(&args.out[0], args.Has(0) ? args.in[0].dtype : valid ? static_cast<DType>(declared) : DType::kUndefined);
  return Status::Ok();
}

// A caller that knows the output to be a sequence says so beforehand: the value alone does not tell an optional tensor from a
// sequence of one.
Status InferOptionalGetElement(const ShapeArgs& args) {
  if (args.in[0].is_sequence && args.out[0].is_sequence) {
    SetSequence(&args.out[0], args.in[0].dtype);
    return Status::Ok();
  }
  SetTensor(&args.out[0], args.in[0].dtype, args.in[0].is_sequence ? SymShape() : args.in[0].shape);
  return Status::Ok();
}

Status InferOptionalHasElement(const ShapeArgs& args) {
  SetTensor(&args.out[0], DType::kBool, SymShape(std::vector<Dim>{}));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeEdit(const Problem& p) {
  return movement::Make<EditKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeRead(const Problem& p) {
  return movement::Make<ReadKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeOptional(const Problem& p) {
  return movement::Make<OptionalKernel>(p);
}

std::span<const OpKernels> Operators() {
#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) {#op, rule, k##op, min_in, max_in, 1, 1, false},
  static const OpKernels table[] = {
#include "kernels/sequence/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::sequence
