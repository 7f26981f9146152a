#include "kernels/movement/element.h"

#include <algorithm>
#include <cstring>

namespace tenon::kernels::movement {
namespace {

// Elements of a packed tensor, one a byte, low bits first.
void Unpack(const uint8_t* src, int bits, int64_t n, uint8_t* dst) {
  const int per_byte = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int64_t i = 0; i < n; ++i) {
    dst[i] = static_cast<uint8_t>((src[i / per_byte] >> (i % per_byte * bits)) & mask);
  }
}

void Pack(const uint8_t* src, int bits, int64_t n, uint8_t* dst) {
  const int per_byte = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  std::memset(dst, 0, static_cast<size_t>((n + per_byte - 1) / per_byte));
  for (int64_t i = 0; i < n; ++i) {
    dst[i / per_byte] = static_cast<uint8_t>(dst[i / per_byte] | ((src[i] & mask) << (i % per_byte * bits)));
  }
}

// Hands out byte buffers for packed outputs whose shape only the kernel knows, and keeps the other requests as they are.
class UnpackingAllocator final : public OutputAllocator {
 public:
  UnpackingAllocator(std::span<MutView> real, OutputAllocator* next, std::vector<Tensor>* bytes)
      : real_(real), next_(next), bytes_(bytes) {}
  Result<MutView> Allocate(size_t index, const Shape& shape) override {
    if (next_ == nullptr) return Internal("output {} has no memory and there is no allocator", index);
    TENON_ASSIGN_OR_RETURN(real_[index], next_->Allocate(index, shape));
    if (!IsSubByte(real_[index].dtype)) return real_[index];
    TENON_ASSIGN_OR_RETURN((*bytes_)[index], Tensor::Allocate(DType::kU8, shape));
    return (*bytes_)[index].mutable_view();
  }

 private:
  std::span<MutView> real_;
  OutputAllocator* next_;
  std::vector<Tensor>* bytes_;
};

}  // namespace

int ElementSize(DType t) {
  if (t == DType::kString) return kStringSize;
  return std::max(1, DTypeBits(t) / 8);
}

void CopyElements(void* dst, const void* src, int64_t n, int size) {
  if (size == kStringSize) {
    const auto* s = static_cast<const std::string*>(src);
    std::copy(s, s + n, static_cast<std::string*>(dst));
  } else if (n > 0) {
    std::memcpy(dst, src, static_cast<size_t>(n) * static_cast<size_t>(size));
  }
}

void CopyElementsParallel(void* dst, const void* src, int64_t n, int size, hw::Team& team) {
  const int64_t grain = (int64_t{1} << 18) / StrideBytes(size);
  if (n <= grain) return CopyElements(dst, src, n, size);
  team.ParallelFor(n, grain, [&](int64_t begin, int64_t end, int) {
    CopyElements(At(dst, begin, size), At(src, begin, size), end - begin, size);
  });
}

void FillElements(void* dst, const void* value, int64_t n, int size) {
  DispatchSize(size, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    auto* out = static_cast<T*>(dst);
    const T v = value == nullptr ? T{} : *static_cast<const T*>(value);
    std::fill(out, out + n, v);
  });
}

Status PrepareOutput(const RunArgs& args, size_t i, const Shape& shape) {
  MutView& out = args.out[i];
  if (out.data != nullptr) {
    if (out.shape == shape) return Status::Ok();
    return Internal("output {} was planned with shape {} but has shape {}", i, out.shape.ToString(), shape.ToString());
  }
  if (args.allocator != nullptr) {
    TENON_ASSIGN_OR_RETURN(out, args.allocator->Allocate(i, shape));
    return Status::Ok();
  }
  if (shape.num_elements() != 0) return Internal("output {} has no memory and there is no allocator", i);
  out.shape = shape;
  return Status::Ok();
}

Status MoveKernel::Run(const RunArgs& args) const {
  for (const View& v : args.in) {
    if (IsSubByte(v.dtype)) return RunUnpacked(args);
  }
  for (const MutView& v : args.out) {
    if (IsSubByte(v.dtype)) return RunUnpacked(args);
  }
  return Move(args);
}

Status MoveKernel::RunUnpacked(const RunArgs& args) const {
  std::vector<View> in(args.in.begin(), args.in.end());
  std::vector<Tensor> in_bytes(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!IsSubByte(in[i].dtype) || in[i].data == nullptr) continue;
    TENON_ASSIGN_OR_RETURN(in_bytes[i], Tensor::Allocate(DType::kU8, in[i].shape));
    Unpack(in[i].Data<uint8_t>(), DTypeBits(in[i].dtype), in[i].num_elements(), in_bytes[i].MutableData<uint8_t>());
    in[i] = in_bytes[i].view();
  }
  std::vector<MutView> out(args.out.begin(), args.out.end());
  std::vector<Tensor> out_bytes(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!IsSubByte(out[i].dtype)) continue;
    if (out[i].data == nullptr) {
      out[i].dtype = DType::kU8;
      continue;
    }
    TENON_ASSIGN_OR_RETURN(out_bytes[i], Tensor::Allocate(DType::kU8, out[i].shape));
    out[i] = out_bytes[i].mutable_view();
  }
  UnpackingAllocator allocator(args.out, args.allocator, &out_bytes);
  TENON_RETURN_IF_ERROR(Move({in, out, args.state, args.scratch, args.team, &allocator}));
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out_bytes[i].defined() || args.out[i].data == nullptr) continue;
    Pack(out_bytes[i].Data<uint8_t>(), DTypeBits(args.out[i].dtype), out_bytes[i].shape().num_elements(),
         args.out[i].Data<uint8_t>());
  }
  return Status::Ok();
}

Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) return BadInput("axis {} given for a scalar, which has none", axis);
    return BadInput("axis {} is outside [{}, {}] for rank {}", axis, -rank, rank - 1, rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Status ReadSmallInts(const View& v, std::string_view what, SmallInts* out) {
  if (!IsIndexType(v.dtype)) return BadInput("{} must be int32 or int64, not {}", what, DTypeName(v.dtype));
  const int64_t n = v.num_elements();
  if (v.shape.rank() > 1 || n > SmallInts::kCapacity) {
    return BadInput("{} has shape {}; a list of at most {} is allowed", what, v.shape.ToString(), SmallInts::kCapacity);
  }
  out->count = static_cast<int>(n);
  for (int64_t i = 0; i < n; ++i) out->values[i] = ReadInt(v, i);
  return Status::Ok();
}

std::optional<std::vector<Dim>> SmallElements(const ValueInfo& v) {
  if (!v.present || v.is_sequence || !IsInteger(v.dtype) || (!v.elements && v.data == nullptr)) return std::nullopt;
  if (v.elements) return v.elements;
  if (v.data->shape.rank() > 1 || v.data->num_elements() > kMaxKnownElements) return std::nullopt;
  return KnownElements(v);
}

std::optional<std::vector<int64_t>> SmallKnownInts(const ValueInfo& v, int64_t limit) {
  if (!v.present || v.is_sequence) return std::nullopt;
  if (!v.elements && v.data != nullptr && v.data->num_elements() > limit) return std::nullopt;
  return KnownInts(v);
}

void SetElements(ValueInfo* out, std::vector<Dim> elements) {
  if (static_cast<int64_t>(elements.size()) <= kMaxKnownElements && IsInteger(out->dtype)) {
    out->elements = std::move(elements);
  }
}

Status CheckDims(const SymShape& shape) {
  if (shape.rank() > kMaxRank) return BadInput("rank {} is over the limit of {}", shape.rank(), kMaxRank);
  int64_t n = 1;
  bool zero = false;
  for (const Dim& d : shape.dims()) {
    if (!d.is_const()) continue;
    if (d.value() < 0) return BadInput("negative extent in shape {}", shape.ToString());
    if (d.value() == 0) zero = true;
  }
  if (zero) return Status::Ok();
  for (const Dim& d : shape.dims()) {
    if (!d.is_const()) continue;
    const auto product = CheckedMul(n, d.value());
    if (!product || *product > (int64_t{1} << 48)) return BadInput("shape {} has too many elements", shape.ToString());
    n = *product;
  }
  return Status::Ok();
}

}  // namespace tenon::kernels::movement
