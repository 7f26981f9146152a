// Signal processing: ONNX's own cases, fast transforms against the plain sum for many lengths and layouts, hostile numbers.
#include "kernels/signal/signal.h"

#include "kernels/golden_test_util.h"
#include "kernels/row_check.h"

namespace tenon::kernels::signal {
namespace {

TEST(Signal, OnnxNodeCases) {
  testing::RunGoldens("signal.golden", 8);
}

TEST(Signal, DftOfEveryKindOfLength) {
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 25, 30, 31, 37, 49, 60, 62, 64, 74, 97, 100, 120, 128}) {
    for (int width : {1, 2}) {
      for (int inverse : {0, 1}) {
        for (int onesided : {0, 1}) {
          if (onesided == 1 && width != (inverse == 1 ? 2 : 1)) continue;
          Attrs attrs;
          attrs.Set("inverse", int64_t{inverse});
          attrs.Set("onesided", int64_t{onesided});
          const int64_t extent = onesided == 1 && inverse == 1 ? n / 2 + 1 : n;
          const Tensor x = RandomF32({3, extent, 2, width}, static_cast<uint32_t>(n));
          const std::vector<Tensor> in = {x, Tensor::Scalar<int64_t>(n), Tensor::Scalar<int64_t>(1)};
          EXPECT_GE(CheckRows("DFT", attrs, in, 1, 1e-5, 2e-6 * static_cast<double>(n) + 1e-6), 1) << n;
        }
      }
    }
  }
}

TEST(Signal, DftPadsAndCuts) {
  for (int64_t n : {5, 8, 11, 20}) {
    const Tensor x = RandomF32({7, 11, 1}, 3);
    EXPECT_GE(CheckRows("DFT", {}, {x, Tensor::Scalar<int64_t>(n), Tensor()}, 1, 1e-5, 2e-5), 1);
  }
}

TEST(Signal, StftOfManyFrames) {
  for (int64_t frame : {16, 25, 200}) {
    for (int width : {1, 2}) {
      Attrs attrs;
      attrs.Set("onesided", int64_t{width == 1});
      const Tensor x = RandomF32({2, 1200, width}, 4);
      const Tensor window = RandomF32({frame}, 5);
      EXPECT_GE(CheckRows("STFT", attrs, {x, Tensor::Scalar<int64_t>(40), window, Tensor()}, 1, 1e-5, 1e-3), 1);
      EXPECT_GE(CheckRows("STFT", attrs, {x, Tensor::Scalar<int32_t>(77), Tensor(), Tensor::Scalar<int32_t>(30)}, 1, 1e-5, 1e-3),
                1);
    }
  }
}

TEST(Signal, SymmetricWindowsPeakAtOne) {
  Attrs attrs;
  attrs.Set("periodic", int64_t{0});
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    const auto w = Eval(op, attrs, {Tensor::Scalar<int64_t>(9)});
    ASSERT_TRUE(w.ok());
    EXPECT_NEAR((*w)[0].Data<float>()[4], 1.0f, 1e-6) << op;
    EXPECT_FLOAT_EQ((*w)[0].Data<float>()[1], (*w)[0].Data<float>()[7]) << op;
    const auto one = Eval(op, attrs, {Tensor::Scalar<int32_t>(1)});
    ASSERT_TRUE(one.ok());
    EXPECT_NEAR((*one)[0].Data<float>()[0], 1.0f, 1e-6) << op;
  }
}

TEST(Signal, RefusesBadInput) {
  const auto code = [](const char* op, const Attrs& attrs, const std::vector<Tensor>& in) {
    const auto r = Eval(op, attrs, in);
    return r.ok() ? Code::kOk : r.status().code();
  };
  const Tensor x = RandomF32({2, 8, 1}, 1);
  const auto number = [](int64_t v) { return Tensor::Scalar<int64_t>(v); };
  for (int64_t n : {int64_t{0}, int64_t{-5}, int64_t{1} << 60}) EXPECT_EQ(code("DFT", {}, {x, number(n)}), Code::kBadInput) << n;
  for (int64_t axis : {-1, 2, 5, -9}) EXPECT_EQ(code("DFT", {}, {x, Tensor(), number(axis)}), Code::kBadInput) << axis;
  EXPECT_EQ(code("DFT", {}, {RandomF32({2, 8, 3}, 1)}), Code::kBadInput);
  EXPECT_EQ(code("STFT", {}, {x, number(0), Tensor(), number(4)}), Code::kBadInput);
  EXPECT_EQ(code("STFT", {}, {x, number(2), Tensor(), number(9)}), Code::kBadInput);
  EXPECT_EQ(code("STFT", {}, {x, number(2), RandomF32({3}, 1), number(4)}), Code::kBadInput);
  EXPECT_EQ(code("HannWindow", {}, {number(-1)}), Code::kBadInput);
  EXPECT_EQ(code("HannWindow", {}, {number(int64_t{1} << 50)}), Code::kBadInput);
  EXPECT_EQ(code("MelWeightMatrix", {}, {number(8), number(16), number(8192), Tensor::Scalar(0.0f), Tensor::Scalar(1e9f)}),
            Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::signal
