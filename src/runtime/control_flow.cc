// If, Loop, Scan and SequenceMap: steps with bodies. The layout of inputs is that of ops/control_flow.h:
// bodies are closed, captures are trailing inputs.
#include <algorithm>
#include <cstring>

#include "runtime/executor.h"

namespace tenon::runtime {

using artifact::kAbsent;
using artifact::Program;
using artifact::Step;
using artifact::ValueIndex;

namespace {

Result<bool> ReadBool(const View& v, const char* what) {
  if (v.dtype != DType::kBool || v.sequence != nullptr || v.num_elements() != 1) {
    return BadInput("{} must be one bool, not {} of shape {}", what, DTypeName(v.dtype), v.shape.ToString());
  }
  return *v.Data<uint8_t>() != 0;
}

// An absent trip count means no limit.
Result<int64_t> ReadTripCount(const View& v) {
  if (!v.present()) return INT64_MAX;
  const auto n = ToInt64s(v);
  if (!n || n->size() != 1) return BadInput("the trip count must be one integer");
  return (*n)[0];
}

// A carried value between two iterations: owns its contents.
struct Carried {
  Tensor tensor;
  Sequence sequence;
  bool is_sequence = false;

  View view() const { return is_sequence ? View{DType::kUndefined, Shape(), nullptr, &sequence} : tensor.view(); }
  static Result<Carried> CopyOf(const View& v) {
    Carried c;
    if (v.sequence != nullptr) {
      c.is_sequence = true;
      c.sequence = *v.sequence;
      return c;
    }
    TENON_ASSIGN_OR_RETURN(c.tensor, Tensor::CopyOf(v));
    return c;
  }
};

// One element of `v` along `axis`, as an owned tensor without that axis.
Result<Tensor> ElementAt(const View& v, int axis, int64_t index) {
  Shape shape;
  for (int i = 0; i < v.shape.rank(); ++i) {
    if (i != axis) shape.push_back(v.shape[i]);
  }
  TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(v.dtype, shape));
  const int64_t outer = v.shape.Product(0, axis);
  const int64_t inner = v.shape.Product(axis + 1, v.shape.rank());
  const int64_t length = v.shape[axis];
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t from = (o * length + index) * inner;
    if (v.dtype == DType::kString) {
      std::copy_n(v.Data<std::string>() + from, inner, out.MutableData<std::string>() + o * inner);
    } else {
      const size_t bytes = DTypeBytes(v.dtype, inner);
      std::memcpy(out.MutableData<char>() + static_cast<size_t>(o) * bytes,
                  v.Data<char>() + static_cast<size_t>(from / std::max<int64_t>(1, inner)) * bytes, bytes);
    }
  }
  return out;
}

// Stacks equally shaped tensors along a new `axis`; `empty` gives the shape when there are none.
Result<Tensor> Stack(const std::vector<Tensor>& parts, int axis, DType dtype, const Shape& element) {
  const Shape& part = parts.empty() ? element : parts[0].shape();
  for (const Tensor& t : parts) {
    if (!(t.shape() == part) || t.dtype() != parts[0].dtype()) {
      return BadInput("scan outputs of shapes {} and {} cannot be stacked", part.ToString(), t.shape().ToString());
    }
  }
  if (part.rank() + 1 > kMaxRank) return Unsupported("rank {} is over the limit of {}", part.rank() + 1, kMaxRank);
  Shape shape;
  for (int i = 0; i < part.rank() + 1; ++i) {
    shape.push_back(i == axis ? static_cast<int64_t>(parts.size()) : part[i < axis ? i : i - 1]);
  }
  TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(dtype, shape));
  const int64_t outer = part.Product(0, axis);
  const int64_t inner = part.Product(axis, part.rank());
  const auto count = static_cast<int64_t>(parts.size());
  for (int64_t p = 0; p < count; ++p) {
    const Tensor& t = parts[static_cast<size_t>(p)];
    for (int64_t o = 0; o < outer; ++o) {
      if (dtype == DType::kString) {
        std::copy_n(t.Data<std::string>() + o * inner, inner, out.MutableData<std::string>() + (o * count + p) * inner);
      } else {
        const size_t bytes = DTypeBytes(dtype, inner);
        std::memcpy(out.MutableData<char>() + static_cast<size_t>(o * count + p) * bytes,
                    t.Data<char>() + static_cast<size_t>(o) * bytes, bytes);
      }
    }
  }
  return out;
}

// Iteration and condition are declared as [] or as [1].
Shape ScalarShape(const Program& body, size_t input) {
  const SymShape& s = body.values[static_cast<size_t>(body.inputs[input])].shape;
  return s.has_rank() && s.rank() == 1 ? Shape{1} : Shape();
}

DType ElementType(const Program& body, size_t output) {
  return body.values[static_cast<size_t>(body.outputs[output])].dtype;
}

// How a Scan walks its inputs and stacks its outputs.
struct ScanLayout {
  int64_t length = -1;
  std::vector<int> in_axes;
  std::vector<bool> in_backwards;
  std::vector<int64_t> out_axes;
  std::vector<bool> out_backwards;
};

Result<ScanLayout> ReadScanLayout(const Attrs& attrs, const std::vector<View>& sources, size_t outs) {
  const auto in_axes = attrs.Ints("scan_input_axes", std::vector<int64_t>(sources.size(), 0));
  const auto in_directions = attrs.Ints("scan_input_directions", std::vector<int64_t>(sources.size(), 0));
  const auto out_directions = attrs.Ints("scan_output_directions", std::vector<int64_t>(outs, 0));
  ScanLayout layout;
  layout.out_axes = attrs.Ints("scan_output_axes", std::vector<int64_t>(outs, 0));
  if (in_axes.size() != sources.size() || in_directions.size() != sources.size() || layout.out_axes.size() != outs ||
      out_directions.size() != outs) {
    return BadInput("axes and directions must have one entry for each scanned value");
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const Shape& shape = sources[i].shape;
    const int64_t axis = in_axes[i] < 0 ? in_axes[i] + shape.rank() : in_axes[i];
    if (axis < 0 || axis >= shape.rank()) return BadInput("scan axis {} is outside rank {}", in_axes[i], shape.rank());
    const int64_t length = shape[static_cast<int>(axis)];
    if (layout.length >= 0 && length != layout.length)
      return BadInput("scanned inputs have lengths {} and {}", layout.length, length);
    layout.length = length;
    layout.in_axes.push_back(static_cast<int>(axis));
    layout.in_backwards.push_back(in_directions[i] == 1);
  }
  for (int64_t d : out_directions) layout.out_backwards.push_back(d == 1);
  return layout;
}

}  // namespace

Status Executor::TakeBodyOutput(const Executor& body, size_t i, ValueIndex v) {
  if (v == kAbsent) return Status::Ok();
  const View& view = body.output(i);
  if (view.sequence != nullptr) {
    SetLateSequence(v, *view.sequence);
    return Status::Ok();
  }
  if (body.OwnsOutput(i)) {
    // Valid until the body runs again, which is after this value's last use.
    LateValue& late = late_[static_cast<size_t>(v)];
    late.Clear(&pool_);
    late.view = view;
    return Status::Ok();
  }
  TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(view));
  SetLate(v, std::move(copy));
  return Status::Ok();
}

Shape Executor::ShapeWithoutRun(size_t output, std::span<const View> inputs) {
  const auto v = static_cast<size_t>(program_->outputs[output]);
  if (!inputs.empty() && SelectPlan(inputs).ok() && current_->values[v].place != Place::kUnknown)
    return current_->values[v].view.shape;
  Shape declared;
  for (const Dim& d : program_->values[v].shape.dims()) declared.push_back(d.is_const() ? d.value() : 0);
  return declared;
}

Status Executor::RunControl(size_t index, const RunOptions& options) {
  const std::string& op = program_->steps[index].op;
  if (op == "If") return RunIf(index, options);
  if (op == "Loop") return RunLoop(index, options);
  if (op == "Scan") return RunScan(index, options);
  return RunSequenceMap(index, options);
}

Status Executor::RunIf(size_t index, const RunOptions& options) {
  const Step& step = program_->steps[index];
  if (step.inputs.empty()) return BadInput("the condition is missing");
  TENON_ASSIGN_OR_RETURN(const bool condition, ReadBool(Resolve(step.inputs[0]), "the condition"));
  const size_t branch = condition ? 0 : 1;
  TENON_RETURN_IF_ERROR(prepared_.steps[index].unfit[branch]);
  Executor& body = *prepared_.steps[index].bodies[branch];
  std::vector<View> inputs;
  for (size_t i = 1; i < step.inputs.size(); ++i) inputs.push_back(Resolve(step.inputs[i]));
  if (inputs.size() != body.program().inputs.size() || step.outputs.size() > body.num_outputs()) {
    return BadInput("the body does not match the node");
  }
  TENON_RETURN_IF_ERROR(body.Run(inputs, options));
  for (size_t i = 0; i < step.outputs.size(); ++i) TENON_RETURN_IF_ERROR(TakeBodyOutput(body, i, step.outputs[i]));
  return Status::Ok();
}

Status Executor::RunLoop(size_t index, const RunOptions& options) {
  const Step& step = program_->steps[index];
  Executor& body = *prepared_.steps[index].bodies[0];
  const auto captures = static_cast<size_t>(std::max<int64_t>(0, step.attrs.Int("captures", 0)));
  if (step.inputs.size() < 2 + captures || body.program().inputs.size() != step.inputs.size())
    return BadInput("the body does not match the node");
  const size_t carried = step.inputs.size() - 2 - captures;
  if (body.num_outputs() != step.outputs.size() + 1 || step.outputs.size() < carried)
    return BadInput("the body does not match the node");

  TENON_ASSIGN_OR_RETURN(const int64_t trips, ReadTripCount(Resolve(step.inputs[0])));
  bool condition = true;
  if (const View v = Resolve(step.inputs[1]); v.present()) {
    TENON_ASSIGN_OR_RETURN(condition, ReadBool(v, "the condition"));
  }
  std::vector<Carried> state;
  for (size_t i = 0; i < carried; ++i) {
    TENON_ASSIGN_OR_RETURN(Carried c, Carried::CopyOf(Resolve(step.inputs[2 + i])));
    state.push_back(std::move(c));
  }
  std::vector<std::vector<Tensor>> scans(step.outputs.size() - carried);
  int64_t iteration = 0;
  uint8_t condition_byte = 1;
  const auto inputs = [&] {
    std::vector<View> views;
    views.push_back({DType::kI64, ScalarShape(body.program(), 0), &iteration, nullptr});
    views.push_back({DType::kBool, ScalarShape(body.program(), 1), &condition_byte, nullptr});
    for (const Carried& c : state) views.push_back(c.view());
    for (size_t i = 2 + carried; i < step.inputs.size(); ++i) views.push_back(Resolve(step.inputs[i]));
    return views;
  };
  for (; iteration < trips && condition; ++iteration) {
    TENON_RETURN_IF_ERROR(body.Run(inputs(), options));
    TENON_ASSIGN_OR_RETURN(condition, ReadBool(body.output(0), "the body's condition"));
    std::vector<Carried> next;
    for (size_t i = 0; i < carried; ++i) {
      TENON_ASSIGN_OR_RETURN(Carried c, Carried::CopyOf(body.output(1 + i)));
      next.push_back(std::move(c));
    }
    for (size_t i = 0; i < scans.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::CopyOf(body.output(1 + carried + i)));
      scans[i].push_back(std::move(t));
    }
    state = std::move(next);   // last: the body's outputs may be views of the old values
  }
  for (size_t i = 0; i < scans.size(); ++i) {
    const size_t o = 1 + carried + i;
    const Shape element = scans[i].empty() ? body.ShapeWithoutRun(o, inputs()) : Shape();
    TENON_ASSIGN_OR_RETURN(Tensor t, Stack(scans[i], 0, ElementType(body.program(), o), element));
    SetLate(step.outputs[carried + i], std::move(t));
  }
  for (size_t i = 0; i < carried; ++i) {
    if (state[i].is_sequence) {
      SetLateSequence(step.outputs[i], std::move(state[i].sequence));
    } else {
      SetLate(step.outputs[i], std::move(state[i].tensor));
    }
  }
  return Status::Ok();
}

Status Executor::RunScan(size_t index, const RunOptions& options) {
  const Step& step = program_->steps[index];
  Executor& body = *prepared_.steps[index].bodies[0];
  const auto captures = static_cast<size_t>(std::max<int64_t>(0, step.attrs.Int("captures", 0)));
  const auto scanned = static_cast<size_t>(std::max<int64_t>(0, step.attrs.Int("num_scan_inputs", 0)));
  if (scanned == 0 || step.inputs.size() < scanned + captures || body.program().inputs.size() != step.inputs.size()) {
    return BadInput("the body does not match the node");
  }
  const size_t states = step.inputs.size() - scanned - captures;
  if (body.num_outputs() != step.outputs.size() || step.outputs.size() < states)
    return BadInput("the body does not match the node");
  const size_t outs = step.outputs.size() - states;
  std::vector<View> sources;
  for (size_t i = 0; i < scanned; ++i) sources.push_back(Resolve(step.inputs[states + i]));
  TENON_ASSIGN_OR_RETURN(const ScanLayout layout, ReadScanLayout(step.attrs, sources, outs));
  std::vector<Carried> state;
  for (size_t i = 0; i < states; ++i) {
    TENON_ASSIGN_OR_RETURN(Carried c, Carried::CopyOf(Resolve(step.inputs[i])));
    state.push_back(std::move(c));
  }
  std::vector<std::vector<Tensor>> results(outs);
  for (int64_t t = 0; t < layout.length; ++t) {
    std::vector<View> inputs;
    std::vector<Tensor> elements;
    for (const Carried& c : state) inputs.push_back(c.view());
    for (size_t i = 0; i < scanned; ++i) {
      TENON_ASSIGN_OR_RETURN(Tensor e,
                             ElementAt(sources[i], layout.in_axes[i], layout.in_backwards[i] ? layout.length - 1 - t : t));
      elements.push_back(std::move(e));
      inputs.push_back(elements.back().view());
    }
    for (size_t i = states + scanned; i < step.inputs.size(); ++i) inputs.push_back(Resolve(step.inputs[i]));
    TENON_RETURN_IF_ERROR(body.Run(inputs, options));
    for (size_t i = 0; i < outs; ++i) {
      TENON_ASSIGN_OR_RETURN(Tensor r, Tensor::CopyOf(body.output(states + i)));
      results[i].push_back(std::move(r));
    }
    std::vector<Carried> next(states);   // replaced together: an output may be a view of another state
    for (size_t i = 0; i < states; ++i) {
      TENON_ASSIGN_OR_RETURN(next[i], Carried::CopyOf(body.output(i)));
    }
    state = std::move(next);
  }
  for (size_t i = 0; i < states; ++i) SetLate(step.outputs[i], std::move(state[i].tensor));
  for (size_t i = 0; i < outs; ++i) {
    if (layout.out_backwards[i]) std::reverse(results[i].begin(), results[i].end());
    const Shape element = results[i].empty() ? body.ShapeWithoutRun(states + i, {}) : results[i][0].shape();
    const int64_t wish = layout.out_axes[i];
    const int64_t axis = wish < 0 ? wish + element.rank() + 1 : wish;
    if (axis < 0 || axis > element.rank()) return BadInput("scan axis {} is outside rank {}", wish, element.rank() + 1);
    TENON_ASSIGN_OR_RETURN(Tensor t, Stack(results[i], static_cast<int>(axis), ElementType(body.program(), states + i), element));
    SetLate(step.outputs[states + i], std::move(t));
  }
  return Status::Ok();
}

Status Executor::RunSequenceMap(size_t index, const RunOptions& options) {
  const Step& step = program_->steps[index];
  Executor& body = *prepared_.steps[index].bodies[0];
  const auto captures = static_cast<size_t>(std::max<int64_t>(0, step.attrs.Int("captures", 0)));
  if (step.inputs.empty() || step.inputs.size() <= captures || body.program().inputs.size() != step.inputs.size() ||
      body.num_outputs() != step.outputs.size()) {
    return BadInput("the body does not match the node");
  }
  const size_t mapped = step.inputs.size() - captures;
  const View first = Resolve(step.inputs[0]);
  if (first.sequence == nullptr) return BadInput("the first input must be a sequence");
  std::vector<Sequence> results(step.outputs.size());
  for (size_t t = 0; t < first.sequence->size(); ++t) {
    std::vector<View> inputs;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      View v = Resolve(step.inputs[i]);
      if (i < mapped && v.sequence != nullptr) {
        if (t >= v.sequence->size())
          return BadInput("sequences of {} and {} elements", first.sequence->size(), v.sequence->size());
        v = (*v.sequence)[t].view();
      }
      inputs.push_back(v);
    }
    TENON_RETURN_IF_ERROR(body.Run(inputs, options));
    for (size_t i = 0; i < results.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(Tensor r, Tensor::CopyOf(body.output(i)));
      results[i].push_back(std::move(r));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) SetLateSequence(step.outputs[i], std::move(results[i]));
  return Status::Ok();
}

}  // namespace tenon::runtime
