#include "kernels/kernel.h"

namespace tenon::kernels {

std::optional<std::vector<Dim>> KnownElements(const ValueInfo& v) {
  if (v.elements) return v.elements;
  if (v.data == nullptr) return std::nullopt;
  auto ints = ToInt64s(*v.data);
  if (!ints) return std::nullopt;
  return std::vector<Dim>(ints->begin(), ints->end());
}

std::optional<std::vector<int64_t>> KnownInts(const ValueInfo& v) {
  auto elements = KnownElements(v);
  if (!elements) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *elements) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

Status InferShapes(std::string_view op, const ShapeArgs& args) {
  const OpKernels* def = FindOp(op);
  if (def == nullptr) return Unsupported("operator {} is not supported", op);
  const auto count = [](const auto& values) {
    int n = static_cast<int>(values.size());
    while (n > 0 && !values[static_cast<size_t>(n) - 1].present) --n;
    return n;
  };
  const int in = count(args.in);
  const int out = static_cast<int>(args.out.size());
  if (in < def->min_in || in > def->max_in) {
    return BadInput("operator {} takes {} to {} inputs, not {}", op, def->min_in, def->max_in, in);
  }
  if (out < def->min_out || count(args.out) > def->max_out) {
    return BadInput("operator {} gives {} to {} outputs, not {}", op, def->min_out, def->max_out, out);
  }
  for (int i = 0; i < def->min_in; ++i) {
    if (!args.in[static_cast<size_t>(i)].present) return BadInput("operator {} needs its input {}", op, i);
  }
  return def->infer(args);
}

Result<Configured> Kernel::Configure(std::span<const View> /*in*/, std::span<const View> /*out*/) const {
  return Configured{};
}

namespace {

// Owns outputs that kernels allocate during Evaluate.
class OwningAllocator final : public OutputAllocator {
 public:
  OwningAllocator(std::span<const ValueInfo> infos, std::vector<Tensor>* tensors) : infos_(infos), tensors_(tensors) {}
  Result<MutView> Allocate(size_t index, const Shape& shape) override {
    TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(infos_[index].dtype, shape));
    (*tensors_)[index] = t;
    return (*tensors_)[index].mutable_view();
  }

 private:
  std::span<const ValueInfo> infos_;
  std::vector<Tensor>* tensors_;
};

}  // namespace

Result<std::shared_ptr<Buffer>> PackedWeights(const Problem& problem, size_t bytes, const std::function<void(void*)>& fill) {
  if (problem.packs != nullptr) {
    if (auto packed = problem.packs->Take(bytes)) return packed;
  }
  auto packed = Buffer::Allocate(bytes);
  if (packed == nullptr) return ResourceLimit("no memory for {} bytes of packed weights", bytes);
  // What is kept becomes part of a file: nothing of what the memory held before may stand in the gaps.
  if (problem.packs != nullptr) std::memset(packed->data(), 0, bytes);
  fill(packed->data());
  if (problem.packs != nullptr) problem.packs->Keep(packed);
  return packed;
}

Result<std::vector<Tensor>> Evaluate(std::string_view op, const Attrs& attrs, std::span<const View> in, int num_outputs,
                                     hw::IsaMask isa, hw::Team& team, std::string_view forced_row) {
  std::vector<ValueInfo> in_infos(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    in_infos[i].present = in[i].present();
    in_infos[i].dtype = in[i].dtype;
    if (in[i].sequence != nullptr) return Unsupported("operator {}: sequences are not evaluated here", op);
    in_infos[i].shape = in[i].shape;
    in_infos[i].data = in[i].present() ? &in[i] : nullptr;
  }
  std::vector<ValueInfo> out_infos(static_cast<size_t>(num_outputs));
  for (auto& o : out_infos) o.present = true;
  TENON_RETURN_IF_ERROR(InferShapes(op, {attrs, in_infos, out_infos}));

  const Problem problem{op, attrs, in_infos, out_infos, isa, team.size()};
  TENON_ASSIGN_OR_RETURN(Choice choice, ChooseRow(problem, forced_row));
  TENON_ASSIGN_OR_RETURN(auto kernel, choice.row->make(problem));

  std::vector<Tensor> tensors(out_infos.size());
  std::vector<MutView> out(out_infos.size());
  std::vector<View> out_views(out_infos.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (out_infos[i].is_sequence) return Unsupported("operator {}: sequences are not evaluated here", op);
    out[i].dtype = out_infos[i].dtype;
    if (auto shape = out_infos[i].shape.ToShape()) {
      TENON_ASSIGN_OR_RETURN(tensors[i], Tensor::Allocate(out_infos[i].dtype, *shape));
      out[i] = tensors[i].mutable_view();
    }
    out_views[i] = out[i];
  }
  TENON_ASSIGN_OR_RETURN(Configured configured, kernel->Configure(in, out_views));
  auto scratch = Buffer::Allocate(configured.scratch_bytes);
  if (scratch == nullptr) return ResourceLimit("operator {}: no memory for {} bytes of scratch", op, configured.scratch_bytes);
  OwningAllocator allocator(out_infos, &tensors);
  const RunArgs args{in, out, configured.state.get(), static_cast<std::byte*>(scratch->data()), team, &allocator};
  TENON_RETURN_IF_ERROR(kernel->Run(args));
  return tensors;
}

}  // namespace tenon::kernels
