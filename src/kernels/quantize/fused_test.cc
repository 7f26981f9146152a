// QuantizedConv and QuantizedMatMul: exact sums and one rounding on every instruction set, whatever the shape.
#include <cmath>
#include <random>
#include <tuple>

#include "kernels/quantize/fused.h"
#include "kernels/row_check.h"

namespace tenon::kernels::quantize {
namespace {

Tensor Bytes(DType t, const Shape& shape, uint32_t seed) {
  std::mt19937 rng(seed);
  auto tensor = *Tensor::Allocate(t, shape);
  for (int64_t i = 0; i < shape.num_elements(); ++i) tensor.MutableData<uint8_t>()[i] = static_cast<uint8_t>(rng());
  return tensor;
}

// Rows for any shape, one an instruction set of this CPU.
int Rows(const std::string& op) {
  int count = -1;
  for (const Row& row : FindOp(op)->rows) {
    count += hw::Covers(hw::DetectIsa(), row.needs) && row.name.find("depthwise") == std::string_view::npos ? 1 : 0;
  }
  return count;
}

// Powers of two: every product and sum in f32 is exact then, and all rows must agree to the last bit.
Tensor PowersOfTwo(int64_t n, uint32_t seed, int exponent) {
  std::mt19937 rng(seed);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& f : v) f = std::ldexp(1.0F, exponent - static_cast<int>(rng() % 3));
  return Tensor::FromVector(Shape{n}, v);
}

Tensor Whole(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& f : v) f = static_cast<float>(static_cast<int>(rng() % 64) - 32) / 4;
  return Tensor::FromVector(Shape{n}, v);
}

int64_t Code(DType t) {
  return static_cast<int64_t>(t);
}

// The three results: f32, bytes, and bytes through a grid and a residual of bytes with a clamp.
struct Form {
  const char* name;
  DType output;
  bool grid, residual;
  const char* activation;
};
constexpr Form kForms[] = {
    {"float", DType::kF32, false, false, ""},     {"bytes", DType::kU8, false, false, "Relu"},
    {"signed", DType::kI8, false, false, "Clip"}, {"joined", DType::kU8, true, true, "Relu"},
    {"bfloat", DType::kBF16, false, true, ""},    {"curved", DType::kU8, false, false, "HardSwish"},
};

Attrs AttrsOf(const Form& f) {
  Attrs a;
  a.Set("x_scale", 0.25F);
  a.Set("x_zero_point", int64_t{3});
  a.Set("output_dtype", Code(f.output));
  a.Set("y_scale", 0.5F);
  a.Set("y_zero_point", int64_t{f.output == DType::kU8 ? 120 : f.output == DType::kI8 ? -7 : 0});
  a.Set("activation", std::string(f.activation));
  if (std::string(f.activation) == "Clip") a.Set("activation_params", std::vector<float>{-20, 25});
  if (f.grid) {
    a.Set("grid_dtype", Code(DType::kI8));
    a.Set("grid_scale", 0.25F);
    a.Set("grid_zero_point", int64_t{-5});
  }
  a.Set("residual_scale", 0.125F);
  a.Set("residual_zero_point", int64_t{11});
  return a;
}

bool Exactly(const Form& f) {
  return std::string(f.activation) != "HardSwish";
}

void Check(const std::string& op, const Attrs& attrs, const std::vector<Tensor>& in, const Form& f, bool exact) {
  // A step of bytes where a float lies between two of them; two roundings of bfloat16 differ by its last bit.
  const bool bytes = f.output == DType::kU8 || f.output == DType::kI8;
  EXPECT_GE(CheckRows(op, attrs, in, 1, exact ? 0 : 1e-2, exact ? 0 : bytes ? 1 : 1e-3), Rows(op)) << op << " " << f.name;
}

TEST(QuantizedMatMul, RowsAgree) {
  uint32_t seed = 1;
  for (const auto& [m, k, n] : {std::tuple{1, 1, 1},
                                {1, 128, 512},
                                {5, 3, 17},
                                {7, 13, 65},
                                {6, 20, 64},
                                {11, 37, 20},
                                {16, 64, 32},
                                {26, 12, 100},
                                {33, 131, 130},
                                {70, 200, 48}}) {
    for (const Form& f : kForms) {
      for (DType x : {DType::kU8, DType::kI8, DType::kF32}) {
        const bool turned = ++seed % 2 == 0;
        Attrs attrs = AttrsOf(f);
        attrs.Set("transB", int64_t{turned});
        if (x == DType::kF32) attrs.Set("x_dtype", Code(seed % 3 == 0 ? DType::kI8 : DType::kU8));
        const DType w = seed % 4 == 0 ? DType::kU8 : DType::kI8;
        const Tensor a = x == DType::kF32 ? RandomF32({m, k}, seed, -10, 10) : Bytes(x, {m, k}, seed);
        const Tensor b = Bytes(w, turned ? Shape{n, k} : Shape{k, n}, seed + 1);
        const Tensor bias = seed % 3 == 0 ? Tensor()
                            : seed % 3 == 1
                                ? Whole(n, seed)
                                : Tensor::FromVector<int32_t>(Shape{n}, std::vector<int32_t>(static_cast<size_t>(n), 77));
        const Tensor residual = f.residual ? Bytes(DType::kU8, {m, n}, seed + 2) : Tensor();
        const Tensor zero = seed % 5 == 0 ? Bytes(w, {n}, seed + 3) : Tensor();
        const int shrink = -4 - static_cast<int>(std::log2(k) / 2 + 3);
        if (f.residual) {
          Check("QuantizedMatMul", attrs, {a, b, PowersOfTwo(n, seed, shrink), bias, Whole(n, seed + 5), zero}, f, Exactly(f));
        }
        if (x == DType::kU8) {
          Check("QuantizedMatMul", attrs,
                {a, b, PowersOfTwo(n, seed, shrink), bias, residual, zero, Tensor::Scalar(0.5F), Tensor::Scalar<uint8_t>(9)}, f,
                Exactly(f));
        }
        const bool exact = Exactly(f);
        Check("QuantizedMatMul", attrs, {a, b, PowersOfTwo(n, seed, shrink), bias, residual, zero}, f, exact);
        Check("QuantizedMatMul", attrs, {a, b, RandomF32({n}, seed, 1e-4F, 1e-3F), bias, residual, zero}, f, false);
      }
    }
  }
}

TEST(QuantizedMatMul, DynamicRowsAgree) {
  for (const auto& [m, k, n] : {std::tuple{1, 7, 5}, {3, 128, 96}, {40, 65, 130}}) {
    Attrs attrs;
    attrs.Set("dynamic", int64_t{1});
    const Tensor a = RandomF32({2, m, k}, 5, -1, 3);
    const Tensor b = Bytes(DType::kI8, {k, n}, 6);
    EXPECT_GE(CheckRows("QuantizedMatMul", attrs, {a, b, RandomF32({n}, 7, 1e-3F, 2e-3F), RandomF32({n}, 8)}, 1, 1e-5, 1e-4),
              Rows("QuantizedMatMul"));
  }
}

struct ConvCase {
  Shape x, w;
  int64_t group, stride, dilation, pad;
};

TEST(QuantizedConv, RowsAgree) {
  const ConvCase cases[] = {
      {{2, 3, 9, 8}, {5, 3, 3, 3}, 1, 1, 1, 1},       {{1, 3, 30, 34}, {33, 3, 7, 7}, 1, 2, 1, 3},
      {{1, 8, 7, 7}, {70, 8, 1, 1}, 1, 1, 1, 0},      {{1, 64, 14, 14}, {32, 64, 3, 3}, 1, 1, 1, 1},
      {{2, 64, 7, 7}, {48, 64, 3, 3}, 1, 1, 1, 1},    {{1, 32, 15, 15}, {40, 32, 3, 3}, 1, 2, 1, 1},
      {{1, 20, 13, 17}, {24, 20, 1, 1}, 1, 2, 1, 0},  {{1, 6, 8, 9}, {6, 1, 3, 3}, 6, 2, 1, 1},
      {{1, 40, 11, 10}, {40, 1, 5, 5}, 40, 1, 1, 2},  {{1, 96, 9, 33}, {96, 1, 3, 3}, 96, 1, 1, 1},
      {{1, 16, 11, 10}, {24, 4, 3, 2}, 4, 1, 2, 2},   {{2, 3, 20}, {4, 3, 5}, 1, 2, 1, 2},
      {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, 1, 1, 1, 1}, {{1, 4, 6, 5}, {8, 4, 3, 3}, 1, 1, 1, 0},
      {{1, 128, 5, 4}, {8, 128, 3, 3}, 1, 1, 1, 0},   {{1, 300, 9, 13}, {300, 1, 3, 3}, 300, 2, 1, 1},
      {{1, 70, 12, 23}, {70, 1, 5, 5}, 70, 2, 1, 2},  {{2, 64, 8, 20}, {64, 1, 3, 3}, 64, 1, 1, 1},
      {{1, 24, 10, 9}, {24, 1, 7, 3}, 24, 1, 1, 1},   {{1, 130, 12, 7}, {130, 1, 9, 5}, 130, 1, 1, 2},
      {{1, 32, 9, 13}, {32, 1, 3, 3}, 32, 1, 1, 1},   {{1, 16, 6, 7}, {16, 1, 5, 5}, 16, 1, 1, 2},
  };
  uint32_t seed = 1;
  for (const ConvCase& c : cases) {
    const auto spatial = static_cast<size_t>(c.x.rank() - 2);
    for (const Form& f : kForms) {
      for (bool nhwc : {true, false}) {
        ++seed;
        const DType x_type = seed % 3 == 0 ? DType::kF32 : seed % 3 == 1 ? DType::kU8 : DType::kI8;
        Attrs attrs = AttrsOf(f);
        attrs.Set("group", c.group);
        attrs.Set("strides", std::vector<int64_t>(spatial, c.stride));
        attrs.Set("dilations", std::vector<int64_t>(spatial, c.dilation));
        attrs.Set("pads", std::vector<int64_t>(2 * spatial, c.pad));
        attrs.Set("data_layout", std::string(nhwc ? "NHWC" : "NCHW"));
        if (x_type == DType::kF32) attrs.Set("x_dtype", Code(seed % 2 == 0 ? DType::kU8 : DType::kI8));
        Shape xs = c.x;
        if (nhwc) {
          for (int i = 1; i + 1 < xs.rank(); ++i) xs[i] = c.x[i + 1];
          xs[xs.rank() - 1] = c.x[1];
        }
        const int64_t oc = c.w[0];
        Shape ys = xs;
        ys[nhwc ? xs.rank() - 1 : 1] = oc;
        for (size_t i = 0; i < spatial; ++i) {
          const int at = static_cast<int>(i) + (nhwc ? 1 : 2);
          ys[at] = (xs[at] + 2 * c.pad - (c.w[static_cast<int>(i) + 2] - 1) * c.dilation - 1) / c.stride + 1;
        }
        const DType w_type = seed % 5 == 0 ? DType::kU8 : DType::kI8;
        const Tensor x = x_type == DType::kF32 ? RandomF32(xs, seed, -10, 10) : Bytes(x_type, xs, seed);
        const Tensor w = Bytes(w_type, c.w, seed + 1);
        const Tensor residual = f.residual ? Bytes(DType::kU8, ys, seed + 2) : Tensor();
        const Tensor zero = seed % 7 == 0 ? Bytes(w_type, {oc}, seed + 3) : Tensor();
        const Tensor bias = seed % 4 == 0 ? Tensor() : Whole(oc, seed);
        const double terms = static_cast<double>(c.w.Product(1, c.w.rank()));
        const int shrink = -7 - static_cast<int>(std::log2(terms) / 2);
        const bool exact = Exactly(f);
        Check("QuantizedConv", attrs, {x, w, PowersOfTwo(oc, seed, shrink), bias, residual, zero}, f, exact);
      }
    }
  }
}

TEST(ByteTable, RowsAgree) {
  for (int64_t n : {0, 1, 63, 64, 65, 1000}) {
    for (DType t : {DType::kU8, DType::kI8}) CheckRows("ByteTable", {}, {Bytes(t, {n}, 1), Bytes(DType::kI8, {256}, 2)}, 1, 0, 0);
  }
  EXPECT_FALSE(Eval("ByteTable", {}, {Bytes(DType::kU8, {3}, 1), Bytes(DType::kU8, {255}, 2)}).ok());
}

TEST(QuantizedBinary, RowsAgree) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3, 5, 37}, {2, 3, 5, 37}},
                                            {{2, 3, 5, 37}, {2, 1, 1, 37}},
                                            {{2, 3, 5, 37}, {37}},
                                            {{2, 3, 5, 37}, {2, 3, 1, 1}},
                                            {{2, 3, 5, 37}, {}},
                                            {{1, 37}, {4, 1}},
                                            {{4, 1}, {2, 1, 37}},
                                            {{0, 3}, {3}},
                                            {{1, 1}, {1}}};
  uint32_t seed = 1;
  for (const auto& [a, b] : shapes) {
    for (const char* op : {"Add", "Mul"}) {
      for (DType t : {DType::kU8, DType::kI8}) {
        Attrs attrs;
        attrs.Set("op", std::string(op));
        attrs.Set("a_scale", 0.5F);
        attrs.Set("a_zero_point", int64_t{3});
        attrs.Set("b_scale", 0.25F);
        attrs.Set("b_zero_point", int64_t{-4});
        attrs.Set("y_scale", op[0] == 'A' ? 0.5F : 16.0F);
        attrs.Set("y_zero_point", int64_t{7});
        attrs.Set("output_dtype", Code(t));
        const Tensor x = Bytes(DType::kU8, a, ++seed), y = Bytes(DType::kI8, b, ++seed);
        EXPECT_GE(CheckRows("QuantizedBinary", attrs, {x, y}, 1, 0, 0), 1);
        EXPECT_GE(CheckRows("QuantizedBinary", attrs, {y, x}, 1, 0, 0), 1);
      }
    }
  }
  EXPECT_FALSE(Eval("QuantizedBinary", {}, {Bytes(DType::kU8, {2, 3}, 1), Bytes(DType::kU8, {2}, 1)}).ok());
}

TEST(Quantized, HostileInputsAreRefused) {
  const Tensor x = Bytes(DType::kU8, {2, 3}, 1), w = Bytes(DType::kI8, {3, 4}, 2), one = Tensor::Scalar(1.0F);
  const auto refused = [&](const Attrs& a, const std::vector<Tensor>& in) { return !Eval("QuantizedMatMul", a, in).ok(); };
  Attrs attrs;
  attrs.Set("y_scale", 0.0F);
  EXPECT_TRUE(refused(attrs, {x, w, one}));
  attrs = {};
  attrs.Set("output_dtype", int64_t{99});
  EXPECT_TRUE(refused(attrs, {x, w, one}));
  attrs = {};
  attrs.Set("x_zero_point", int64_t{1000});
  EXPECT_TRUE(refused(attrs, {x, w, one}));
  attrs = {};
  EXPECT_TRUE(refused(attrs, {x, w, Bytes(DType::kI8, {1}, 1)}));
  EXPECT_TRUE(refused(attrs, {x, w, RandomF32({3}, 1)}));
  EXPECT_TRUE(refused(attrs, {x, w, one, RandomF32({5}, 1)}));
  EXPECT_TRUE(refused(attrs, {x, w, one, Tensor(), RandomF32({2, 5}, 1)}));
  EXPECT_TRUE(refused(attrs, {RandomF32({2, 3}, 1), w, one}));
  EXPECT_TRUE(refused(attrs, {x, Bytes(DType::kI8, {4, 4}, 1), one}));
  EXPECT_FALSE(refused(attrs, {x, w, one}));
}

}  // namespace
}  // namespace tenon::kernels::quantize
