#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

// A value of a test: a tensor, a sequence, or nothing.
struct Value {
  Tensor tensor;
  std::optional<Sequence> sequence;
};
Value Seq(Sequence s) {
  return {{}, std::move(s)};
}

class Outputs final : public OutputAllocator {
 public:
  explicit Outputs(DType dtype) : dtype_(dtype) {}
  Result<MutView> Allocate(size_t, const Shape& shape) override {
    TENON_ASSIGN_OR_RETURN(tensor, Tensor::Allocate(dtype_, shape));
    return tensor.mutable_view();
  }
  Tensor tensor;

 private:
  DType dtype_;
};

// Runs an operator with one output as the executor does.
Result<Value> Try(std::string_view op, const Attrs& attrs, const std::vector<Value>& in, bool sequence_hint = false) {
  std::vector<View> views(in.size());
  std::vector<ValueInfo> infos(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].tensor.defined()) views[i] = in[i].tensor.view();
    if (in[i].sequence) {
      views[i].sequence = &*in[i].sequence;
      infos[i].is_sequence = true;
      infos[i].dtype = in[i].sequence->empty() ? DType::kF32 : in[i].sequence->front().dtype();
    } else {
      infos[i].dtype = views[i].dtype;
      infos[i].shape = views[i].shape;
    }
    infos[i].present = views[i].present();
  }
  std::vector<ValueInfo> out(1);
  out[0].present = true;
  out[0].is_sequence = sequence_hint;
  TENON_RETURN_IF_ERROR(InferShapes(op, {attrs, infos, out}));
  TENON_ASSIGN_OR_RETURN(Choice choice, ChooseRow({op, attrs, infos, out}));
  TENON_ASSIGN_OR_RETURN(auto kernel, choice.row->make({op, attrs, infos, out}));
  Value result;
  std::vector<MutView> out_views(1);
  out_views[0].dtype = out[0].dtype;
  if (out[0].is_sequence) {
    result.sequence.emplace();
    out_views[0] = {DType::kUndefined, {}, nullptr, &*result.sequence};
  }
  Outputs allocator(out[0].dtype);
  hw::Team team(1);
  TENON_RETURN_IF_ERROR(kernel->Run({views, out_views, nullptr, nullptr, team, &allocator}));
  result.tensor = allocator.tensor;
  return result;
}

Value Do(std::string_view op, const Attrs& attrs, const std::vector<Value>& in, bool sequence_hint = false) {
  auto r = Try(op, attrs, in, sequence_hint);
  EXPECT_TRUE(r.ok()) << op << ": " << r.status().message();
  return r.ok() ? *r : Value();
}

Value T(Tensor t) {
  return {std::move(t), std::nullopt};
}
Value At(int64_t i) {
  return T(Tensor::Scalar(i));
}

// First elements, to tell tensors apart.
std::vector<float> Firsts(const Value& v) {
  std::vector<float> out;
  for (const Tensor& t : v.sequence.value_or(Sequence())) out.push_back(*t.Data<float>());
  return out;
}

const Tensor a = Of<float>({1}, {1});
const Tensor b = Of<float>({2}, {2, 20});
using F = std::vector<float>;

TEST(Sequence, ConstructInsertEraseAt) {
  const Value s = Do("SequenceConstruct", A(), {T(a), T(b)});
  EXPECT_EQ(Firsts(s), (F{1, 2}));
  EXPECT_NE((*s.sequence)[0].data(), a.data());  // owns its bytes
  const Tensor c = Of<float>({1}, {3});
  EXPECT_EQ(Firsts(Do("SequenceInsert", A(), {s, T(c)})), (F{1, 2, 3}));
  EXPECT_EQ(Firsts(Do("SequenceInsert", A(), {s, T(c), At(0)})), (F{3, 1, 2}));
  EXPECT_EQ(Firsts(Do("SequenceInsert", A(), {s, T(c), At(-1)})), (F{1, 3, 2}));
  EXPECT_EQ(Firsts(Do("SequenceInsert", A(), {s, T(c), At(2)})), (F{1, 2, 3}));
  EXPECT_BAD_INPUT(Try("SequenceInsert", A(), {s, T(c), At(3)}), "position 3 is outside [-2, 2]");
  EXPECT_BAD_INPUT(Try("SequenceInsert", A(), {s, T(I64({1}))}), "does not fit");
  EXPECT_EQ(Firsts(Do("SequenceErase", A(), {s})), F{1});
  EXPECT_EQ(Firsts(Do("SequenceErase", A(), {s, At(-2)})), F{2});
  EXPECT_BAD_INPUT(Try("SequenceErase", A(), {s, At(2)}), "outside [-2, 1]");
  EXPECT_BAD_INPUT(Try("SequenceErase", A(), {Seq({})}), "empty");
  EXPECT_EQ(Values<float>(Do("SequenceAt", A(), {s, At(-1)}).tensor), (F{2, 20}));
  EXPECT_BAD_INPUT(Try("SequenceAt", A(), {s, At(2)}), "outside [-2, 1]");
  EXPECT_BAD_INPUT(Try("SequenceAt", A(), {T(a), At(0)}), "must be a sequence");
  EXPECT_EQ(Values<int64_t>(Do("SequenceLength", A(), {s}).tensor), std::vector<int64_t>{2});
  EXPECT_EQ(Do("SequenceEmpty", A("dtype", 7), {}).sequence->size(), 0u);
}

TEST(Sequence, SplitAndConcat) {
  const Tensor x = Iota(Shape({3, 2}));
  EXPECT_EQ(Firsts(Do("SplitToSequence", A(), {T(x), At(2)})), (F{0, 4}));
  EXPECT_EQ(Firsts(Do("SplitToSequence", A("axis", 1), {T(x), T(I64({2}))})), F{0});
  EXPECT_EQ((*Do("SplitToSequence", A("keepdims", 0), {T(x)}).sequence)[2].shape(), Shape({2}));
  EXPECT_EQ((*Do("SplitToSequence", A("keepdims", 0), {T(x), At(1)}).sequence)[2].shape(), Shape({1, 2}));
  EXPECT_BAD_INPUT(Try("SplitToSequence", A(), {T(x), At(0)}), "at least 1");
  EXPECT_BAD_INPUT(Try("SplitToSequence", A(), {T(x), T(I64({1, 1}))}), "does not fit");
  EXPECT_BAD_INPUT(Try("SplitToSequence", A(), {T(x), T(I64({4, -1}))}), "does not fit");
  EXPECT_EQ(Try("SplitToSequence", A(), {T(*Tensor::Zeros(DType::kF32, Shape({int64_t{1} << 40, 0})))}).status().code(),
            Code::kResourceLimit);
  EXPECT_EQ(Values<float>(Do("ConcatFromSequence", A("axis", 0), {Seq({a, b})}).tensor), (F{1, 2, 20}));
  const Tensor stacked = Do("ConcatFromSequence", A("axis", 1, "new_axis", 1), {Seq({b, b})}).tensor;
  EXPECT_EQ(stacked.shape(), Shape({2, 2}));
  EXPECT_EQ(Values<float>(stacked), (F{2, 2, 20, 20}));
  EXPECT_BAD_INPUT(Try("ConcatFromSequence", A("axis", 0, "new_axis", 1), {Seq({a, b})}), "does not fit");
  EXPECT_BAD_INPUT(Try("ConcatFromSequence", A("axis", 0), {Seq({})}), "empty");
}

TEST(Optional, Elements) {
  const Value some = Do("Optional", A(), {T(b)});
  const Value none = Do("Optional", A(), {});
  EXPECT_EQ(Values<float>(Do("OptionalGetElement", A(), {some}).tensor), (F{2, 20}));
  EXPECT_EQ(Values<float>(Do("OptionalGetElement", A(), {T(b)}).tensor), (F{2, 20}));
  EXPECT_EQ(Firsts(Do("OptionalGetElement", A(), {Seq({a, b})}, true)), (F{1, 2}));
  EXPECT_BAD_INPUT(Try("OptionalGetElement", A(), {none}), "0 elements");
  EXPECT_EQ(Values<bool>(Do("OptionalHasElement", A(), {some}).tensor), std::vector<bool>{true});
  EXPECT_EQ(Values<bool>(Do("OptionalHasElement", A(), {none}).tensor), std::vector<bool>{false});
  EXPECT_EQ(Values<bool>(Do("OptionalHasElement", A(), {T(a)}).tensor), std::vector<bool>{true});
  EXPECT_EQ(Values<bool>(Do("OptionalHasElement", A(), {}).tensor), std::vector<bool>{false});
}

}  // namespace
}  // namespace tenon::kernels::testing
