#include <algorithm>
#include <cmath>

#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

using F = std::vector<float>;
using L = std::vector<int64_t>;

TEST(TopK, OrderTiesAndTypes) {
  const auto run = [](const Tensor& x, int64_t k, const Attrs& a) { return Eval("TopK", a, {x, I64({k})}, 2); };
  auto out = run(Of<float>({2, 4}, {1, 3, 3, 2, -0.0f, 0, NAN, -1}), 3, A());
  EXPECT_EQ(Values<int64_t>(out[1]), (L{1, 2, 3, 2, 0, 1}));
  EXPECT_EQ(Values<float>(out[0])[0], 3);
  out = run(Of<float>({4}, {2, -5, 7, -5}), 2, A("largest", 0));
  EXPECT_EQ(Values<int64_t>(out[1]), (L{1, 3}));
  out = run(Of<int64_t>({3, 2}, {INT64_MIN, 1, INT64_MAX, -1, 0, 5}), 2, A("axis", 0));
  EXPECT_EQ(Values<int64_t>(out[0]), (L{INT64_MAX, 5, 0, 1}));
  EXPECT_EQ(Values<int64_t>(out[1]), (L{1, 2, 2, 0}));
  out = run(Of<uint8_t>({3}, {200, 100, 255}), 1, A());
  EXPECT_EQ(Values<int64_t>(out[1]), L{2});
  out = run(Of<BFloat16>({3}, {BFloat16(-1.f), BFloat16(-3.f), BFloat16(-2.f)}), 3, A());
  EXPECT_EQ(Values<int64_t>(out[1]), (L{0, 2, 1}));
  EXPECT_EQ(run(Iota(Shape({2, 3})), 0, A())[0].shape(), Shape({2, 0}));
  EXPECT_BAD_INPUT(TryEval("TopK", A(), {Iota(Shape({3})), I64({4})}, 2), "k 4 is outside [0, 3]");
  EXPECT_BAD_INPUT(TryEval("TopK", A(), {Iota(Shape({3})), I64({-1})}, 2), "k -1");
}

TEST(TopK, BothMethodsAgree) {
  std::vector<float> v(5000);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 7919 % 1000);
  const Tensor x = Of<float>({2, 2500}, v);
  const auto small = Eval("TopK", A(), {x, I64({32})}, 2);
  const auto large = Eval("TopK", A(), {x, I64({33})}, 2);
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(small[1].Data<int64_t>()[r * 32 + i], large[1].Data<int64_t>()[r * 33 + i]);
  }
}

// Long lines are scanned against the worst kept element: ties, NaN and infinities in every place, against a stable sort.
TEST(TopK, LongLinesAgreeWithSorting) {
  for (const int64_t n : {70, 300, 5000}) {
    for (const int64_t k : {int64_t{1}, int64_t{5}, int64_t{32}, int64_t{33}, n / 2, n}) {
      if (k > n) continue;
      for (const bool many_nans : {false, true}) {
        for (const bool largest : {true, false}) {
          std::vector<float> v(static_cast<size_t>(n));
          for (size_t i = 0; i < v.size(); ++i) {
            v[i] = static_cast<float>(i * 7919 % 211) - 100.0f;
            if (many_nans ? i % 3 != 0 : i % 97 == 5) v[i] = NAN;
            if (i % 101 == 7) v[i] = i % 2 == 0 ? INFINITY : -INFINITY;
          }
          std::vector<int64_t> order(v.size());
          for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            const float x = v[static_cast<size_t>(a)], y = v[static_cast<size_t>(b)];
            if (largest) return std::isnan(x) ? !std::isnan(y) : x > y;
            return std::isnan(y) ? !std::isnan(x) : x < y;
          });
          order.resize(static_cast<size_t>(k));
          Attrs attrs = A("largest", largest ? 1 : 0);
          const auto row = Eval("TopK", attrs, {Tensor::FromVector<float>({n}, v), I64({k})}, 2);
          EXPECT_EQ(Values<int64_t>(row[1]), order) << n << " " << k << " " << many_nans << largest;
          attrs.Set("axis", int64_t{0});
          const auto column = Eval("TopK", attrs, {Tensor::FromVector<float>({n, 1}, v), I64({k})}, 2);
          EXPECT_EQ(Values<int64_t>(column[1]), order);
        }
      }
    }
  }
}

TEST(NonZero, ZerosOfAllKinds) {
  const auto out = Eval("NonZero", A(), {Of<float>({2, 2}, {-0.0f, 1, NAN, 0})});
  EXPECT_EQ(out[0].shape(), Shape({2, 2}));
  EXPECT_EQ(Values<int64_t>(out[0]), (L{0, 1, 1, 0}));
  EXPECT_EQ(Eval("NonZero", A(), {Tensor::Scalar(5.f)})[0].shape(), Shape({0, 1}));
  EXPECT_EQ(Eval("NonZero", A(), {Of<bool>({3}, {false, false, false})})[0].shape(), Shape({1, 0}));
}

TEST(Compress, ConditionLengths) {
  const Tensor x = Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Values<float>(Eval("Compress", A("axis", 0), {x, Of<bool>({2}, {false, true})})[0]), (F{3, 4}));
  EXPECT_EQ(Values<float>(Eval("Compress", A(), {x, Of<bool>({5}, {false, true, false, false, true})})[0]), (F{2, 5}));
  EXPECT_EQ(Eval("Compress", A("axis", -1), {x, Of<bool>({2}, {false, false})})[0].shape(), Shape({3, 0}));
  EXPECT_BAD_INPUT(TryEval("Compress", A("axis", 1), {x, Of<bool>({3}, {false, true, true})}), "condition 2 holds");
}

TEST(Unique, OrderAndTypes) {
  auto out = Eval("Unique", A("sorted", 0), {Of<float>({6}, {2, 1, 1, 3, 4, 3})}, 4);
  EXPECT_EQ(Values<float>(out[0]), (F{2, 1, 3, 4}));
  EXPECT_EQ(Values<int64_t>(out[1]), (L{0, 1, 3, 4}));
  EXPECT_EQ(Values<int64_t>(out[2]), (L{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(Values<int64_t>(out[3]), (L{1, 2, 2, 1}));
  out = Eval("Unique", A("axis", 0), {Of<int32_t>({3, 2}, {2, 3, 1, 0, 2, 3})}, 4);
  EXPECT_EQ(Values<int32_t>(out[0]), (std::vector<int32_t>{1, 0, 2, 3}));
  EXPECT_EQ(Values<int64_t>(out[2]), (L{1, 0, 1}));
  out = Eval("Unique", A(), {Tensor::FromStrings(Shape({3}), {"b", "a", "b"})}, 1);
  EXPECT_EQ(Values<std::string>(out[0]), (std::vector<std::string>{"a", "b"}));
  out = Eval("Unique", A(), {Of<float>({3}, {NAN, 1, NAN})}, 1);
  EXPECT_EQ(out[0].shape(), Shape({2}));
}

const std::vector<float> kBoxes = {0, 0,    1, 1,    0, 0.1f,  1, 1.1f,  0, -0.1f, 1, 0.9f,
                                   0, 10.f, 1, 11.f, 0, 10.1f, 1, 11.1f, 0, 100.f, 1, 101.f};
const std::vector<float> kScores = {0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f};

L Nms(const std::vector<float>& boxes, const std::vector<float>& scores, int64_t batches, int64_t most, const Attrs& attrs = {},
      float iou = 0.5f, float score = 0.0f) {
  const int64_t n = static_cast<int64_t>(boxes.size()) / 4 / batches;
  const auto out = Eval("NonMaxSuppression", attrs,
                        {Of<float>({batches, n, 4}, boxes), Of<float>({batches, 1, n}, scores), I64({most}), Tensor::Scalar(iou),
                         Tensor::Scalar(score)});
  EXPECT_EQ(out[0].shape().rank(), 2);
  EXPECT_EQ(out[0].shape()[1], 3);
  return Values<int64_t>(out[0]);
}

TEST(FieldCase, N16_NonMaxSuppression) {
  const L want = {0, 0, 3, 0, 0, 0, 0, 0, 5};
  EXPECT_EQ(Nms(kBoxes, kScores, 1, 3), want);
  // (a) Two equal batches give equal picks.
  std::vector<float> boxes = kBoxes;
  std::vector<float> scores = kScores;
  boxes.insert(boxes.end(), kBoxes.begin(), kBoxes.end());
  scores.insert(scores.end(), kScores.begin(), kScores.end());
  EXPECT_EQ(Nms(boxes, scores, 2, 3), (L{0, 0, 3, 0, 0, 0, 0, 0, 5, 1, 0, 3, 1, 0, 0, 1, 0, 5}));
  // (b) Flipped corners.
  boxes = kBoxes;
  for (size_t i = 0; i < boxes.size(); i += 8) std::swap(boxes[i], boxes[i + 2]), std::swap(boxes[i + 1], boxes[i + 3]);
  EXPECT_EQ(Nms(boxes, scores = kScores, 1, 3), want);
  // (c) Exactly the selected rows, (e) whatever the limit.
  EXPECT_EQ(Nms(kBoxes, kScores, 1, int64_t{1} << 30), want);
  EXPECT_EQ(Nms(kBoxes, kScores, 1, INT64_MAX), want);
  EXPECT_EQ(Nms(kBoxes, kScores, 1, 0), L{});
  EXPECT_EQ(Nms(kBoxes, kScores, 1, -1), L{});
  EXPECT_EQ(Nms(kBoxes, kScores, 1, 3, A(), 0.5f, 0.4f), (L{0, 0, 3, 0, 0, 0}));
  // (d) Centres and sizes.
  std::vector<float> centers;
  for (size_t i = 0; i < kBoxes.size(); i += 4) {
    const float* b = &kBoxes[i];
    for (float v : {(b[1] + b[3]) / 2, (b[0] + b[2]) / 2, b[3] - b[1], b[2] - b[0]}) centers.push_back(v);
  }
  EXPECT_EQ(Nms(centers, kScores, 1, 3, A("center_point_box", 1)), want);
  // Ties go to the lower index; empty boxes and NaN scores do no harm.
  EXPECT_EQ(Nms({0, 0, 1, 1, 0, 0, 1, 1}, {0.5f, 0.5f}, 1, 5), (L{0, 0, 0}));
  EXPECT_EQ(Nms({0, 0, 0, 0, 0, 0, 0, 0}, {0.5f, 0.6f}, 1, 5), (L{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(Nms({0, 0, 1, 1, 5, 5, 6, 6}, {NAN, 0.6f}, 1, 5), (L{0, 0, 1}));
}

TEST(NonMaxSuppression, Errors) {
  EXPECT_BAD_INPUT(TryEval("NonMaxSuppression", A(), {Of<float>({1, 2, 4}, F(8)), Of<float>({1, 1, 3}, F(3)), I64({1})}),
                   "allowed are");
  EXPECT_BAD_INPUT(
      TryEval("NonMaxSuppression", A(), {Of<float>({1, 1, 4}, F(4)), Of<float>({1, 1, 1}, F(1)), I64({1}), Tensor::Scalar(2.f)}),
      "iou_threshold 2");
}

}  // namespace
}  // namespace tenon::kernels::testing
