// Steps whose shapes depend on data: the shape rule is asked with the real inputs, outputs come from the pool.
#include "runtime/executor.h"

namespace tenon::runtime {

using artifact::kAbsent;
using artifact::Step;
using artifact::ValueIndex;
using kernels::ValueInfo;

// Gives kernels outputs whose shape only they know.
class Executor::LateAllocator final : public kernels::OutputAllocator {
 public:
  LateAllocator(Executor& executor, const Step& step, std::span<const ValueInfo> infos)
      : executor_(executor), step_(step), infos_(infos) {}

  Result<MutView> Allocate(size_t index, const Shape& shape) override {
    LateValue& late = executor_.late_[static_cast<size_t>(step_.outputs[index])];
    const DType dtype = infos_[index].dtype;
    late.Clear(&executor_.pool_);
    if (dtype == DType::kString) {
      late.buffer = Buffer::Strings(std::vector<std::string>(static_cast<size_t>(shape.num_elements())));
    } else {
      TENON_ASSIGN_OR_RETURN(late.buffer, executor_.pool_.Take(DTypeBytes(dtype, shape.num_elements())));
      late.pooled = true;
    }
    late.view = View{dtype, shape, late.buffer->data(), nullptr};
    return MutView{dtype, shape, late.buffer->data(), nullptr};
  }

 private:
  Executor& executor_;
  const Step& step_;
  std::span<const ValueInfo> infos_;
};

void Executor::SetLate(ValueIndex v, Tensor tensor) {
  if (v == kAbsent) return;
  LateValue& late = late_[static_cast<size_t>(v)];
  late.Clear(&pool_);
  late.buffer = tensor.buffer();
  late.view = tensor.view();
}

void Executor::SetLateSequence(ValueIndex v, Sequence sequence) {
  if (v == kAbsent) return;
  LateValue& late = late_[static_cast<size_t>(v)];
  late.Clear(&pool_);
  late.sequence = std::move(sequence);
  late.view = View{DType::kUndefined, Shape(), nullptr, &late.sequence};
}

// A view of another value: shares late memory, copies what lives elsewhere and might be overwritten.
Status Executor::AliasLate(ValueIndex to, ValueIndex from, const ValueInfo& info) {
  const View source = Resolve(from);
  if (source.sequence != nullptr) {
    SetLateSequence(to, *source.sequence);
    return Status::Ok();
  }
  const auto shape = info.shape.ToShape();
  if (!shape) return Internal("a view without a shape");
  const LateValue& owner = late_[static_cast<size_t>(from)];
  LateValue& late = late_[static_cast<size_t>(to)];
  if (owner.view.present() && owner.buffer != nullptr) {
    late.buffer = owner.buffer;
    late.pooled = owner.pooled;
    late.view = View{info.dtype, *shape, source.data, nullptr};
    return Status::Ok();
  }
  TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(source));
  SetLate(to, Tensor(info.dtype, *shape, copy.buffer()));
  return Status::Ok();
}

Status Executor::RunLate(size_t index) {
  const Step& step = program_->steps[index];
  const PreparedStep& prepared = prepared_.steps[index];
  std::vector<View> in(step.inputs.size());
  std::vector<ValueInfo> in_infos(step.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = Resolve(step.inputs[i]);
    in_infos[i].present = in[i].present();
    in_infos[i].dtype = in[i].dtype;
    in_infos[i].is_sequence = in[i].sequence != nullptr;
    if (in[i].sequence == nullptr) in_infos[i].shape = in[i].shape;
    in_infos[i].data = in[i].present() ? &in[i] : nullptr;
    if (in_infos[i].is_sequence && step.inputs[i] != kAbsent) {
      in_infos[i].dtype = program_->values[static_cast<size_t>(step.inputs[i])].dtype;
    }
  }
  std::vector<ValueInfo> out_infos(step.outputs.size());
  DeclareOutputs(*program_, step, out_infos);
  TENON_RETURN_IF_ERROR(kernels::InferShapes(step.op, {step.attrs, in_infos, out_infos}));
  if (prepared.op->is_view) return AliasLate(step.outputs[0], step.inputs[0], out_infos[0]);
  return RunLateKernel(index, in, out_infos);
}

Status Executor::RunLateKernel(size_t index, std::span<const View> in, std::span<const ValueInfo> out_infos) {
  const Step& step = program_->steps[index];
  const kernels::Kernel& kernel = *prepared_.steps[index].kernel;
  LateAllocator allocator(*this, step, out_infos);
  std::vector<MutView> out(step.outputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (step.outputs[i] == kAbsent) continue;
    out[i].dtype = out_infos[i].dtype;
    if (out_infos[i].is_sequence) {
      SetLateSequence(step.outputs[i], {});
      out[i].sequence = &late_[static_cast<size_t>(step.outputs[i])].sequence;
    } else if (out_infos[i].shape.is_const()) {
      std::vector<int64_t> dims;
      for (const Dim& d : out_infos[i].shape.dims()) dims.push_back(d.value());
      TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims));
      TENON_ASSIGN_OR_RETURN(out[i], allocator.Allocate(i, shape));
    }
  }
  std::vector<View> out_views(out.begin(), out.end());
  LateCache& cache = late_cache_[index];
  std::vector<Shape> shapes;
  for (const View& v : in) shapes.push_back(v.shape);
  for (const View& v : out_views) shapes.push_back(v.shape);
  if (cache.shapes != shapes) {
    TENON_ASSIGN_OR_RETURN(cache.configured, kernel.Configure(in, out_views));
    cache.shapes = std::move(shapes);
  }
  std::shared_ptr<Buffer> scratch;
  if (cache.configured.scratch_bytes > 0) {
    TENON_ASSIGN_OR_RETURN(scratch, pool_.Take(cache.configured.scratch_bytes));
  }
  auto* scratch_data = scratch != nullptr ? static_cast<std::byte*>(scratch->data()) : nullptr;
  Status status = kernel.Run({in, out, cache.configured.state.get(), scratch_data, machine_.team, &allocator, kv_});
  if (scratch != nullptr) pool_.Return(std::move(scratch));
  return status;
}

}  // namespace tenon::runtime
