// Col2Im: ONNX's formula by brute force, the f32 row against the reference, symbols, hostile operands.
#include "kernels/col2im/col2im.h"

#include "kernels/movement/testing.h"
#include "kernels/row_check.h"

namespace tenon::kernels::testing {
namespace {

using V = std::vector<int64_t>;

TEST(Col2Im, SumsOverlappingBlocks) {
  // Blocks of 1 x 2 over a row of three pixels: the middle one lies in both.
  const Tensor x = Of<int64_t>({1, 2, 2}, {1, 2, 10, 20});
  EXPECT_EQ(Values<int64_t>(Eval("Col2Im", A(), {x, I64({1, 3}), I64({1, 2})})[0]), (V{1, 12, 20}));
  const Tensor half = Of<Half>({1, 2, 2}, {Half(1), Half(2), Half(10), Half(20)});
  EXPECT_EQ(static_cast<float>(Eval("Col2Im", A(), {half, I64({1, 3}), I64({1, 2})})[0].Data<Half>()[1]), 12);
}

TEST(Col2Im, RowsEqualTheReference) {
  struct {
    Shape x;
    V image, block, dilations, pads, strides;
  } cases[] = {
      {{2, 3 * 4, 16}, {5, 5}, {2, 2}, {}, {}, {}},
      {{1, 2 * 6, 4 * 3}, {7, 6}, {2, 3}, {1, 2}, {0, 1, 1, 0}, {2, 1}},
      {{1, 9, 4}, {4, 5}, {3, 3}, {}, {1, 1, 1, 1}, {2, 3}},
      {{2, 8, 8}, {3, 3, 3}, {2, 2, 2}, {}, {}, {}},
      {{1, 3, 4}, {10}, {3}, {2}, {0, 1}, {2}},
      {{0, 4, 1}, {2, 2}, {2, 2}, {}, {}, {}},
      {{1, 5, 2}, {1, 1}, {1, 5}, {}, {0, 2, 0, 3}, {}},
  };
  for (const auto& c : cases) {
    Attrs attrs;
    if (!c.dilations.empty()) attrs.Set("dilations", c.dilations);
    if (!c.pads.empty()) attrs.Set("pads", c.pads);
    if (!c.strides.empty()) attrs.Set("strides", c.strides);
    EXPECT_EQ(CheckRows("Col2Im", attrs, {RandomF32(c.x, 1), I64(c.image), I64(c.block)}, 1, 1e-6, 1e-6), 1) << c.x.ToString();
  }
}

TEST(Col2Im, KeepsSymbols) {
  const Dim n = Dim::Symbol("n"), h = Dim::Symbol("h");
  const auto out = Infer("Col2Im", A(), {Sym(DType::kF32, {n, 8, Dim::Unknown()}), Symbols({h, 7}), Symbols({2, 2})});
  EXPECT_EQ(out[0].shape.ToString(), "[n,2,h,7]");
}

TEST(Col2Im, RefusesWhatDoesNotFit) {
  const Tensor x = RandomF32({1, 4, 4}, 1);
  EXPECT_BAD_INPUT(TryEval("Col2Im", A(), {x, I64({4, 4}), I64({2, 2})}), "third 9");
  EXPECT_BAD_INPUT(TryEval("Col2Im", A(), {x, I64({3, 3}), I64({3, 2})}), "multiple of 6");
  EXPECT_BAD_INPUT(TryEval("Col2Im", A(), {x, I64({1, 3}), I64({2, 2})}), "larger than the padded image");
  EXPECT_BAD_INPUT(TryEval("Col2Im", A(), {x, I64({3, 3}), I64({2, 0})}), "block_shape holds 0");
  EXPECT_BAD_INPUT(TryEval("Col2Im", A(), {x, I64({3, -3}), I64({2, 2})}), "image_shape holds -3");
  EXPECT_BAD_INPUT(TryEval("Col2Im", A("strides", V{0, 1}), {x, I64({3, 3}), I64({2, 2})}), "strides holds 0");
  EXPECT_BAD_INPUT(TryEval("Col2Im", A("pads", V{0, 1}), {x, I64({3, 3}), I64({2, 2})}), "2 numbers for 2 axes");
  EXPECT_EQ(TryEval("Col2Im", A(), {x, I64({int64_t{1} << 30, int64_t{1} << 30}), I64({2, 2})}).status().code(),
            Code::kResourceLimit);
}

}  // namespace
}  // namespace tenon::kernels::testing
