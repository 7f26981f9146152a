// Built-in steps, each on tensors whose results are known.
#include "serve/steps/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "serve/steps/text_geometry.h"

namespace tenon::serve {
namespace {

using Values = std::map<std::string, std::string>;

std::unique_ptr<Step> Make(const char* kind, const Values& parameters = {}, const Values& metadata = {}) {
  auto step = MakeStep(*FindStepKind(kind), parameters, metadata);
  EXPECT_TRUE(step.ok()) << step.status().message();
  return step.ok() ? std::move(step).value() : nullptr;
}

template <typename T>
HostTensor Of(DType dtype, std::vector<int64_t> shape, std::vector<T> values) {
  const auto kept = std::make_shared<std::vector<T>>(std::move(values));
  HostTensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.data = kept->data();
  t.bytes = kept->size() * sizeof(T);
  t.owner = kept;
  return t;
}
HostTensor Floats(std::vector<int64_t> shape, std::vector<float> values) {
  return Of<float>(DType::kF32, std::move(shape), std::move(values));
}
HostTensor Page(int width, int height, uint8_t level = 0) {
  return Of<uint8_t>(DType::kU8, {height, width, 3},
                     std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, level));
}

std::vector<HostTensor> Go(const Step& step, const std::vector<HostTensor>& inputs) {
  StepContext context;
  auto outputs = step.Run(inputs, context);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? std::move(outputs).value() : std::vector<HostTensor>{};
}
Code CodeOf(const Step& step, const std::vector<HostTensor>& inputs, uint64_t bytes = UINT64_MAX) {
  StepContext context;
  context.bytes_left = bytes;
  return step.Run(inputs, context).status().code();
}
std::vector<float> ToFloats(const HostTensor& t) {
  return {Data<float>(t), Data<float>(t) + t.bytes / sizeof(float)};
}

TEST(Steps, ParametersAreChecked) {
  for (const Values& wrong : {Values{{"grow", "fast"}}, Values{{"threshold", "2"}}, Values{{"most", "1.5"}},
                              Values{{"colour", "red"}}, Values{{"dilate", "yes"}}, Values{{"threshold", "nan"}}}) {
    EXPECT_EQ(MakeStep(*FindStepKind("text_boxes"), wrong, {}).status().code(), Code::kBadInput) << wrong.begin()->first;
  }
  EXPECT_EQ(MakeStep(*FindStepKind("ctc_text"), {}, {}).status().code(), Code::kBadInput);
  EXPECT_EQ(MakeStep(*FindStepKind("preprocess"), {{"resize", "-1"}}, {}).status().code(), Code::kBadInput);
  EXPECT_EQ(FindStepKind("fly"), nullptr);
}

TEST(Steps, HostilePicturesAreRefused) {
  const auto decode = Make("decode_picture");
  EXPECT_EQ(CodeOf(*decode, {Of<uint8_t>(DType::kU8, {4}, {1, 2, 3, 4})}), Code::kBadInput);
  EXPECT_EQ(CodeOf(*decode, {Of<uint8_t>(DType::kU8, {0}, {})}), Code::kBadInput);
  // A PNG file that says it is 65535 x 65535.
  std::vector<uint8_t> png = {0x89, 'P', 'N', 'G', 13,  10, 26, 10,  0,   0, 0, 13, 'I', 'H', 'D',
                              'R',  0,   0,   255, 255, 0,  0,  255, 255, 8, 2, 0,  0,   0};
  EXPECT_EQ(CodeOf(*decode, {Of<uint8_t>(DType::kU8, {29}, png)}), Code::kResourceLimit);
  const auto page = Make("text_page");
  EXPECT_EQ(CodeOf(*page, {Page(5000, 3)}), Code::kUsage);
  EXPECT_EQ(CodeOf(*page, {Floats({1}, {0})}), Code::kUsage);
  EXPECT_EQ(CodeOf(*page, {Page(100, 100)}, 1000), Code::kResourceLimit);
  const auto prepare = Make("preprocess", {{"resize", "{width: 30000, height: 30000}"}});
  EXPECT_EQ(CodeOf(*prepare, {Page(4, 4)}, 1 << 20), Code::kResourceLimit);
}

TEST(Steps, PreprocessPrepares) {
  const auto step = Make("preprocess", {{"scale", "0.5"}, {"layout", "NHWC"}});
  const auto out = Go(*step, {Of<uint8_t>(DType::kU8, {1, 1, 3}, {10, 20, 30})});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(ToFloats(out[0]), (std::vector<float>{5, 10, 15}));
}

TEST(Steps, PageOfALineGetsRoom) {
  const auto out = Go(*Make("text_page"), {Page(335, 24, 255)});
  ASSERT_EQ(out.size(), 3u);
  const auto frame = ToFloats(out[1]);
  EXPECT_GT(frame[2], 0);                       // room above
  EXPECT_EQ(out[0].shape[0] % 2, 0);
  EXPECT_EQ(out[2].shape[2] % 32, 0);
  EXPECT_GE(std::min(out[2].shape[2], out[2].shape[3]), 736 - 16);
  EXPECT_EQ(Data<uint8_t>(out[0])[0], 0);       // which is black
}

TEST(Geometry, SmallestRectangle) {
  // A square that stands on its corner, with points inside.
  std::vector<Point> points = {{0, 5}, {5, 0}, {10, 5}, {5, 10}, {5, 5}, {4, 6}};
  const TurnedRect rect = MinAreaRect(points);
  EXPECT_NEAR(rect.width, std::sqrt(50.0), 1e-9);
  EXPECT_NEAR(rect.height, std::sqrt(50.0), 1e-9);
  EXPECT_NEAR(rect.center.x, 5, 1e-9);
  std::vector<Point> one = {{3, 4}};
  EXPECT_EQ(MinAreaRect(one).width, 0);
  std::vector<Point> line = {{0, 0}, {1, 1}, {2, 2}};
  EXPECT_NEAR(MinAreaRect(line).ShorterSide(), 0, 1e-9);
  const Quad q = OrderCorners({Point{10, 0}, Point{0, 1}, Point{10, 9}, Point{0, 8}});
  EXPECT_EQ(q[0].y, 1);
  EXPECT_EQ(q[1].y, 0);
  EXPECT_EQ(q[2].y, 9);
  EXPECT_EQ(q[3].y, 8);
}

TEST(Geometry, SetsTouchAtCorners) {
  const std::vector<uint8_t> on = {1, 0, 0, 1,   //
                                   0, 1, 0, 1,   //
                                   0, 0, 0, 0,   //
                                   1, 1, 0, 1};
  EXPECT_EQ(TouchingSets(on, 4, 4, 100).size(), 4u);
  EXPECT_EQ(TouchingSets(on, 4, 4, 2).size(), 2u);
  const std::vector<uint8_t> horseshoe = {1, 0, 1,   //
                                          1, 0, 1,   //
                                          1, 1, 1};
  EXPECT_EQ(TouchingSets(horseshoe, 3, 3, 100).size(), 1u);
}

TEST(Steps, BoxesOfAMap) {
  // Two bright bars on a map of 100 x 60, the page twice as large; the lower one is faint.
  std::vector<float> map(6000, 0.0f);
  const auto bar = [&](int x0, int x1, int y0, int y1, float v) {
    for (int y = y0; y < y1; ++y) std::fill(map.begin() + y * 100 + x0, map.begin() + y * 100 + x1, v);
  };
  bar(20, 80, 10, 20, 0.9f);
  bar(20, 80, 40, 50, 0.4f);
  const auto out = Go(*Make("text_boxes", {{"dilate", "false"}}), {Floats({1, 1, 60, 100}, map), Page(200, 120)});
  ASSERT_EQ(out[0].shape, (std::vector<int64_t>{1, 4, 2}));
  EXPECT_NEAR(Data<float>(out[1])[0], 0.9, 1e-6);
  const auto corners = ToFloats(out[0]);
  const double grown = 59.0 * 9 * 1.6 / (2 * (59 + 9));
  EXPECT_NEAR(corners[0], 2 * (20 - grown), 1);
  EXPECT_NEAR(corners[1], 2 * (10 - grown), 1);
  EXPECT_NEAR(corners[4], 2 * (79 + grown), 1);
  const auto none = Go(*Make("text_boxes"), {Floats({1, 1, 60, 100}, std::vector<float>(6000, NAN)), Page(200, 120)});
  EXPECT_EQ(none[0].shape[0], 0);
  const auto all = Go(*Make("text_boxes"), {Floats({1, 1, 60, 100}, std::vector<float>(6000, 1.0f)), Page(200, 120)});
  EXPECT_EQ(all[0].shape[0], 1);
  EXPECT_EQ(CodeOf(*Make("text_boxes"), {Floats({1, 2, 1, 1}, {0, 0}), Page(2, 2)}), Code::kUsage);
}

TEST(Steps, CropsAreTurnedAndChecked) {
  const auto step = Make("text_crops");
  const auto out = Go(*step, {Page(100, 100), Floats({2, 4, 2}, {0, 0, 60, 0, 60, 20, 0, 20, 0, 0, 20, 0, 20, 60, 0, 60})});
  const auto crops = AsList(out[0]);
  ASSERT_EQ(crops.size(), 2u);
  EXPECT_EQ(crops[0].shape, (std::vector<int64_t>{20, 60, 3}));
  EXPECT_EQ(crops[1].shape, (std::vector<int64_t>{20, 60, 3}));   // stood upright
  for (float bad : {-1.0f, 101.0f, NAN, INFINITY}) {
    EXPECT_EQ(CodeOf(*step, {Page(100, 100), Floats({1, 4, 2}, {bad, 0, 60, 0, 60, 20, 0, 20})}), Code::kUsage);
  }
  EXPECT_EQ(Go(*step, {Page(100, 100), Floats({0, 4, 2}, {})})[0].sequence.size(), 0u);
}

TEST(Steps, BatchesJoinSimilarWidths) {
  const HostTensor crops = FromList({Page(480, 48), Page(48, 48), Page(96, 48)});
  const auto out = Go(*Make("text_batches", {{"rows", "2"}, {"least_width", "64"}}), {crops});
  const auto batches = AsList(out[0]);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].shape, (std::vector<int64_t>{2, 3, 48, 96}));
  EXPECT_EQ(batches[1].shape, (std::vector<int64_t>{1, 3, 48, 480}));
  EXPECT_EQ(std::vector<int64_t>(Data<int64_t>(out[1]), Data<int64_t>(out[1]) + 3), (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(Data<float>(batches[0])[0], -1.0f);
  EXPECT_EQ(Data<float>(batches[0])[95], 0.0f);   // beyond the narrow one
}

TEST(Steps, TurnsThoseThatAreSurelyUpsideDown) {
  const HostTensor crop = Of<uint8_t>(DType::kU8, {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto step = Make("text_turn");
  const HostTensor order = Of<int64_t>(DType::kI64, {2}, {1, 0});
  const auto out = Go(*step, {FromList({crop, crop}), FromList({Floats({2, 2}, {0.05f, 0.95f, 0.2f, 0.8f})}), order});
  EXPECT_EQ(Data<uint8_t>(AsList(out[0])[0])[0], 1);
  EXPECT_EQ(Data<uint8_t>(AsList(out[0])[1])[0], 4);
  const HostTensor twice = Of<int64_t>(DType::kI64, {2}, {1, 1}), far = Of<int64_t>(DType::kI64, {2}, {0, 7});
  for (const HostTensor& bad : {twice, far})
    EXPECT_EQ(CodeOf(*step, {FromList({crop, crop}), FromList({Floats({2, 2}, {0, 1, 0, 1})}), bad}), Code::kUsage);
}

TEST(Steps, CtcReads) {
  const auto step = Make("ctc_text", {}, {{"character", "a\nb"}});
  const float hi = 0.8f, lo = 0.05f;
  const auto row = [&](int c) {
    return std::vector<float>{c == 0 ? hi : lo, c == 1 ? hi : lo, c == 2 ? hi : lo, c == 3 ? hi : lo};
  };
  std::vector<float> p;
  for (int c : {1, 1, 0, 1, 3, 2}) {
    const auto r = row(c);
    p.insert(p.end(), r.begin(), r.end());
  }
  const auto out = Go(*step, {Floats({1, 6, 4}, p), {}});
  EXPECT_EQ(out[0].strings, std::vector<std::string>{"aa b"});
  EXPECT_NEAR(Data<float>(out[1])[0], hi, 1e-6);
}

TEST(Steps, LinesGoBackToThePicture) {
  const auto out = Go(*Make("text_lines"), {FromStrings({"yes", "no"}), Floats({2}, {0.9f, 0.1f}),
                                            Floats({2, 4, 2}, {10, 30, 20, 30, 20, 40, 10, 40, 0, 0, 1, 0, 1, 1, 0, 1}),
                                            Floats({5}, {2, 2, 25, 30, 100})});
  EXPECT_EQ(out[0].strings, std::vector<std::string>{"yes"});
  EXPECT_EQ(ToFloats(out[1]), (std::vector<float>{20, 10, 30, 10, 30, 30, 20, 30}));
}

TEST(Steps, TopLabels) {
  const auto out = Go(*Make("top_labels", {{"count", "2"}, {"softmax", "true"}}), {Floats({1, 3}, {1, 3, 3})});
  EXPECT_EQ(out[0].strings, (std::vector<std::string>{"1", "2"}));
  EXPECT_NEAR(Data<float>(out[1])[0], 1 / (2 + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(Go(*Make("top_labels"), {Floats({1, 3}, {NAN, 1, NAN})})[0].strings[0], "1");
  EXPECT_EQ(Go(*Make("top_labels"), {Floats({2, 0}, {})})[0].strings.size(), 0u);
}

TEST(Steps, NmsKeepsTheBest) {
  const auto step = Make("nms");
  const HostTensor boxes = Floats({4, 4}, {0, 0, 10, 10, 1, 1, 11, 11, 20, 20, 30, 30, 0, 0, 10, 10});
  const auto out = Go(*step, {boxes, Floats({4, 2}, {0.8f, 0, 0.9f, 0, 0.5f, 0, 0, 0.7f})});
  EXPECT_EQ(ToFloats(out[1]), (std::vector<float>{0.9f, 0.7f, 0.5f}));   // the third class apart
  EXPECT_EQ(Data<int64_t>(out[2])[1], 1);
  EXPECT_EQ(Go(*step, {Floats({1, 4}, {NAN, NAN, NAN, NAN}), Floats({1, 1}, {NAN})})[1].shape[0], 0);
  EXPECT_EQ(CodeOf(*step, {boxes, Floats({3, 1}, {0, 0, 0})}), Code::kUsage);
}

}  // namespace
}  // namespace tenon::serve
