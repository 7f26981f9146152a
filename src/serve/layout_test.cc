// Tensors of requests in one run, and its results given back.
#include "serve/layout.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/dtype.h"
#include "serve/blocks.h"

namespace tenon::serve {
namespace {

using Kind = BatchInput::Kind;

TensorInfo Info(const std::string& name, DType dtype, std::vector<std::string> dims) {
  return {name, dtype, false, true, std::move(dims)};
}

template <typename T>
HostTensor Tensor(const std::string& name, std::vector<int64_t> shape, std::vector<T> values) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  EXPECT_EQ(ElementsOf(shape), static_cast<int64_t>(owner->size()));
  HostTensor t;
  t.name = name;
  t.dtype = DTypeOf<T>::value;
  t.shape = std::move(shape);
  t.data = owner->data();
  t.bytes = owner->size() * sizeof(T);
  t.owner = owner;
  return t;
}

template <typename T>
std::vector<T> Values(const HostTensor& t) {
  const T* data = static_cast<const T*>(t.data);
  return {data, data + t.bytes / sizeof(T)};
}

// ids, mask [batch, seq] -> hidden [batch, seq, 2], halves [batch, floor(seq/2)], pooled [batch, 2].
Signature Encoder() {
  return {{Info("ids", DType::kI64, {"batch", "seq"}), Info("mask", DType::kI32, {"batch", "seq"})},
          {Info("hidden", DType::kF32, {"batch", "seq", "2"}), Info("halves", DType::kF32, {"batch", "floor(seq/2)"}),
           Info("pooled", DType::kF32, {"batch", "2"})}};
}

ModelConfig Padding() {
  ModelConfig config;
  config.max_batch = 8;
  config.pad = {{"ids", 9}, {"mask", 0}};
  return config;
}

Request Sentence(int64_t rows, int64_t length, int64_t id) {
  const auto n = static_cast<size_t>(rows * length);
  return {Tensor<int64_t>("ids", {rows, length}, std::vector<int64_t>(n, id)),
          Tensor<int32_t>("mask", {rows, length}, std::vector<int32_t>(n, 1))};
}

std::string MessageOf(const ModelConfig& config, const Signature& model) {
  const auto layout = Layout::Make(config, model);
  return layout.ok() ? "" : layout.status().message();
}

TEST(Layout, PadsToTheLongestAndCutsResultsBack) {
  auto layout = Layout::Make(Padding(), Encoder());
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  const Request a = Sentence(1, 2, 5), b = Sentence(2, 4, 6);
  EXPECT_EQ(layout->FitOf(a)->key, layout->FitOf(b)->key);
  EXPECT_EQ(layout->FitOf(b)->tokens, 8);
  std::vector<std::vector<char>> buffers;
  Request joined;
  ASSERT_TRUE(layout->Join({&a, &b}, &buffers, &joined).ok());
  EXPECT_EQ(joined[0].shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(Values<int64_t>(joined[0]), (std::vector<int64_t>{5, 5, 9, 9, 6, 6, 6, 6, 6, 6, 6, 6}));
  EXPECT_EQ(Values<int32_t>(joined[1]), (std::vector<int32_t>{1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}));

  std::vector<float> hidden(24), pooled(6);
  std::iota(hidden.begin(), hidden.end(), 0.0F);
  std::iota(pooled.begin(), pooled.end(), 0.0F);
  const std::vector<HostTensor> outputs = {Tensor<float>("hidden", {3, 4, 2}, hidden),
                                           Tensor<float>("halves", {3, 2}, {0, 1, 2, 3, 4, 5}),
                                           Tensor<float>("pooled", {3, 2}, pooled)};
  Parting parting(*layout, outputs, 3);
  const auto first = parting.Next(a, 1, {});
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ((*first)[0].shape, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_EQ(Values<float>((*first)[0]), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ((*first)[1].shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(Values<float>((*first)[2]), (std::vector<float>{0, 1}));
  parting.Advance(a, 1);
  const auto second = parting.Next(b, 2, {"halves", "hidden"});
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(Values<float>((*second)[0]), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ((*second)[1].shape, (std::vector<int64_t>{2, 4, 2}));
  EXPECT_EQ(Values<float>((*second)[1])[0], 8);
}

TEST(Layout, WithoutPaddingOnlyEqualShapesJoin) {
  ModelConfig config;
  config.max_batch = 8;
  const auto layout = Layout::Make(config, Encoder());
  EXPECT_NE(layout->FitOf(Sentence(1, 2, 5))->key, layout->FitOf(Sentence(1, 4, 5))->key);
  EXPECT_EQ(layout->FitOf(Sentence(1, 4, 5))->key, layout->FitOf(Sentence(3, 4, 5))->key);
}

// Padding would hide that the inputs of a request disagree: the session has to see it as it came.
TEST(Layout, ARequestWhoseInputsDisagreeRunsAlone) {
  const auto layout = Layout::Make(Padding(), Encoder());
  Request odd = Sentence(1, 4, 5);
  odd[1] = Sentence(1, 3, 5)[1];
  EXPECT_EQ(layout->FitOf(odd)->key, "");
  odd[1] = Sentence(2, 4, 5)[1];
  EXPECT_EQ(layout->FitOf(odd)->key, "");
}

TEST(Layout, OpenExtentsGoByTheirNames) {
  for (const auto& [h, w] : {std::pair("h", "w"), std::pair("extent_of_the_picture_down", "extent_of_the_picture_across")}) {
    const Signature model = {{Info("x", DType::kF32, {"n", h, w}), Info("mask", DType::kF32, {"n", w, h})},
                             {Info("y", DType::kF32, {"n", h, w})}};
    ModelConfig config;
    config.max_batch = 8;
    const Layout layout = *Layout::Make(config, model);
    const auto fit = [&](std::vector<int64_t> x, std::vector<int64_t> mask) {
      const auto zeros = [](const std::vector<int64_t>& shape) {
        return std::vector<float>(static_cast<size_t>(ElementsOf(shape)));
      };
      return *layout.FitOf({Tensor<float>("x", x, zeros(x)), Tensor<float>("mask", mask, zeros(mask))});
    };
    EXPECT_EQ(fit({2, 3, 5}, {2, 5, 3}).extents, (std::vector<int64_t>{3, 5}));
    EXPECT_EQ(fit({2, 4, 4}, {2, 4, 4}).extents, (std::vector<int64_t>{4, 4}));
    EXPECT_NE(fit({2, 3, 5}, {2, 5, 3}).key, "");
    EXPECT_NE(fit({2, 3, 5}, {2, 5, 3}).key, fit({2, 3, 4}, {2, 4, 3}).key);
    EXPECT_EQ(fit({2, 3, 5}, {2, 3, 5}).key, "");   // it disagrees
  }
}

TEST(Layout, RefusesPaddingThatCouldNotBeTakenBack) {
  ModelConfig config = Padding();
  EXPECT_EQ(MessageOf(config, Encoder()), "");
  config.pad = {{"ids", 0}};
  EXPECT_NE(MessageOf(config, Encoder()).find("'mask' shares extent 'seq'"), std::string::npos);
  config.pad = {{"ids", 0.5}, {"mask", 0}};
  EXPECT_NE(MessageOf(config, Encoder()).find("does not hold 0.5"), std::string::npos);
  config.pad = {{"ids", 1e19}, {"mask", 0}};
  EXPECT_NE(MessageOf(config, Encoder()).find("does not hold"), std::string::npos);
  config.pad = {{"nobody", 0}};
  EXPECT_NE(MessageOf(config, Encoder()).find("no input 'nobody'"), std::string::npos);
  config = Padding();
  Signature counts = Encoder();
  counts.outputs[0].dims[1] = "?";
  EXPECT_NE(MessageOf(config, counts).find("extent '?' does not follow"), std::string::npos);
  counts.outputs[0].dims[1] = "found";
  EXPECT_NE(MessageOf(config, counts).find("extent 'found' does not follow"), std::string::npos);
  config.max_batch = 0;
  EXPECT_NE(MessageOf(config, Encoder()).find("do not join"), std::string::npos);
}

// values [n], ends [requests] -> sums [requests], same [n].
Signature Ragged(Kind kind) {
  Signature s{{Info("values", DType::kF32, {"n"}), Info("ends", DType::kI32, {"m"})},
              {Info("sums", DType::kF32, {"m"}), Info("same", DType::kF32, {"n"})}};
  if (kind == Kind::kItemShape) s.inputs[1].dims = {"m", "2"};
  return s;
}

ModelConfig RaggedConfig(Kind kind) {
  ModelConfig config;
  config.max_batch = 8;
  config.ragged_inputs = {{"values", {-1, -1}}};
  config.batch_inputs = {{kind, {"ends"}, "values", DType::kI32}};
  config.batch_outputs = {{{"same"}, "values", {-1, -1}}};
  return config;
}

// Of a request of two rows of shape [3, 1] and one of a row of shape [2, 2].
std::vector<int32_t> EndsOf(Kind kind, std::vector<int64_t>* shape) {
  auto layout = Layout::Make(RaggedConfig(kind), Ragged(kind));
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  const Request a = {Tensor<float>("values", {2, 3, 1}, {0, 1, 2, 3, 4, 5})},
                b = {Tensor<float>("values", {1, 2, 2}, {6, 7, 8, 9})};
  EXPECT_EQ(layout->FitOf(a)->key, layout->FitOf(b)->key);
  std::vector<std::vector<char>> buffers;
  Request joined;
  EXPECT_TRUE(layout->Join({&a, &b}, &buffers, &joined).ok());
  EXPECT_EQ(joined[0].shape, (std::vector<int64_t>{10}));
  EXPECT_EQ(Values<float>(joined[0])[9], 9);
  *shape = joined[1].shape;
  return Values<int32_t>(joined[1]);
}

TEST(Layout, BatchInputsTellHowRequestsLie) {
  using Shape = std::vector<int64_t>;
  using Counts = std::vector<int32_t>;
  Shape shape;
  EXPECT_EQ(EndsOf(Kind::kElementCount, &shape), (Counts{6, 4}));
  EXPECT_EQ(shape, (Shape{2}));
  EXPECT_EQ(EndsOf(Kind::kAccumulatedElementCount, &shape), (Counts{6, 10}));
  EXPECT_EQ(EndsOf(Kind::kAccumulatedElementCountWithZero, &shape), (Counts{0, 6, 10}));
  EXPECT_EQ(EndsOf(Kind::kMaxElementCountAsShape, &shape), (Counts{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(shape, (Shape{6}));
  EXPECT_EQ(EndsOf(Kind::kItemShape, &shape), (Counts{3, 1, 3, 1, 2, 2}));
  EXPECT_EQ(shape, (Shape{3, 2}));
  EXPECT_EQ(EndsOf(Kind::kItemShapeFlatten, &shape), (Counts{3, 1, 3, 1, 2, 2}));
  EXPECT_EQ(shape, (Shape{6}));
}

TEST(Layout, RaggedOutputsGoBackInTheShapeOfTheirInput) {
  const auto layout = Layout::Make(RaggedConfig(Kind::kElementCount), Ragged(Kind::kElementCount));
  EXPECT_EQ(layout->requests().Input("ends"), nullptr);
  EXPECT_EQ(layout->requests().Input("values")->dims, (std::vector<std::string>{"batch", "?", "?"}));
  const Request a = {Tensor<float>("values", {1, 3, 1}, {0, 1, 2})}, b = {Tensor<float>("values", {1, 2, 2}, {6, 7, 8, 9})};
  const std::vector<HostTensor> outputs = {Tensor<float>("sums", {2}, {3, 30}),
                                           Tensor<float>("same", {7}, {0, 1, 2, 6, 7, 8, 9})};
  Parting parting(*layout, outputs, 2);
  parting.Advance(a, 1);
  const auto second = parting.Next(b, 1, {});
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(Values<float>((*second)[0]), (std::vector<float>{30}));
  EXPECT_EQ((*second)[1].shape, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_EQ(Values<float>((*second)[1]), (std::vector<float>{6, 7, 8, 9}));

  const std::vector<HostTensor> few = {outputs[0], Tensor<float>("same", {6}, {0, 1, 2, 6, 7, 8})};
  Parting wrong(*layout, few, 2);
  wrong.Advance(a, 1);
  EXPECT_NE(wrong.Next(b, 1, {}).status().message().find("6 elements given; its requests make 7"), std::string::npos);
}

TEST(Layout, ARaggedRequestMustSayItsRows) {
  const auto layout = Layout::Make(RaggedConfig(Kind::kElementCount), Ragged(Kind::kElementCount));
  EXPECT_NE(layout->FitOf({}).status().message().find("'values' is missing"), std::string::npos);
  EXPECT_FALSE(layout->FitOf({Tensor<float>("values", {0, 1, 1}, {})}).ok());
  EXPECT_EQ(layout->FitOf({Tensor<float>("values", {1, 0, 1}, {})})->tokens, 1);
}

TEST(Layout, RefusesRaggedSettingsThatDoNotFitTheModel) {
  const Kind kind = Kind::kElementCount;
  const auto with = [&](auto change) {
    ModelConfig config = RaggedConfig(kind);
    change(&config);
    return MessageOf(config, Ragged(kind));
  };
  EXPECT_EQ(with([](ModelConfig*) {}), "");
  EXPECT_NE(with([](ModelConfig* c) { c->max_batch = 0; }).find("max_batch_size is 0"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->ragged_inputs[0].name = "z"; }).find("no 'z'"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->ragged_inputs.clear(); }).find("no input has allow_ragged_batch"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->batch_inputs[0].source = "z"; }).find("source_input is 'z'"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->batch_inputs[0].targets = {"values"}; }).find("float32; int32 given"),
            std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->batch_inputs[0].dtype = DType::kI64; }).find("int32; int64 given"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->batch_inputs.push_back(c->batch_inputs[0]); }).find("named twice"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->batch_inputs[0].kind = Kind::kItemShape; }).find("in 1 dimensions; 2"),
            std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->batch_outputs[0].targets = {"z"}; }).find("no 'z'"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->batch_outputs[0].dims = {-1, -1, -1}; }).find("extent 2 is -1"), std::string::npos);
  EXPECT_NE(with([](ModelConfig* c) { c->pad["values"] = 0; }).find("ragged"), std::string::npos);
}

// A count that the type cannot hold is an error, not another number.
TEST(Layout, CountsStayExact) {
  ModelConfig config = RaggedConfig(Kind::kAccumulatedElementCount);
  Signature model = Ragged(Kind::kAccumulatedElementCount);
  config.batch_inputs[0].dtype = model.inputs[1].dtype = DType::kF32;
  model.inputs[0].dtype = DType::kBool;
  const auto layout = Layout::Make(config, model);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  const auto zeros = std::make_shared<std::vector<char>>((1 << 24) + 1);
  HostTensor t;
  t.name = "values";
  t.dtype = DType::kBool;
  t.shape = {1, static_cast<int64_t>(zeros->size()), 1};
  t.data = zeros->data();
  t.bytes = zeros->size();
  const Request request = {t};
  std::vector<std::vector<char>> buffers;
  Request joined;
  EXPECT_EQ(layout->Join({&request}, &buffers, &joined).code(), Code::kResourceLimit);
}

}  // namespace
}  // namespace tenon::serve
