// Random graphs of the operators that fusions look for, optimised at every level and with the passes in random order: results
// stay within rounding and every output keeps its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/text.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

class Generator {
 public:
  explicit Generator(uint32_t seed) : engine_(seed) {}

  std::string Make(bool convolutional) {
    std::string body;
    values_ = {"x", "z"};
    const int steps = 6 + Below(10);
    for (int i = 0; i < steps; ++i) body += convolutional ? ConvStep(i) : MatrixStep(i);
    // Any value may be an output, the last one always is.
    std::vector<std::string> outputs{values_.back()};
    for (int i = Below(3); i > 0; --i) {
      const std::string v = Pick();
      if (std::find(outputs.begin(), outputs.end(), v) == outputs.end()) outputs.push_back(v);
    }
    const std::string type = convolutional ? "float32[n,4,h,w]" : "float32[n,s,4]";
    std::string list;
    for (const auto& o : outputs) list += (list.empty() ? "" : ", ") + o;
    return "graph g(x: " + type + ", z: " + type + ") -> (" + list + ") {\n" + constants_ + body + "}\n";
  }

 private:
  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }
  std::string Pick() { return values_[static_cast<size_t>(Below(static_cast<int>(values_.size())))]; }
  std::string Recent() { return Below(3) != 0 ? values_.back() : Pick(); }
  std::string Const(const std::string& shape, int n, float low = -1, float high = 1) {
    const std::string name = "c" + std::to_string(count_++);
    std::uniform_real_distribution<float> uniform(low, high);
    std::string text;
    for (int i = 0; i < n; ++i) text += (i > 0 ? ", " : "") + fmt::format("{}", uniform(engine_));
    constants_ += name + ": float32[" + shape + "] = const [" + text + "]\n";
    return name;
  }
  std::string Ints(const std::vector<int>& v) {
    const std::string name = "c" + std::to_string(count_++);
    std::string text;
    for (int i : v) text += (text.empty() ? "" : ", ") + std::to_string(i);
    constants_ += name + ": int64[" + std::to_string(v.size()) + "] = const [" + text + "]\n";
    return name;
  }
  std::string Value(const std::string& name) {
    values_.push_back(name);
    return name;
  }
  std::string Unary() {
    static const char* const kOps[] = {"Relu", "Sigmoid",     "Tanh",      "HardSwish", "Identity",
                                       "Abs",  "HardSigmoid", "LeakyRelu", "Gelu"};
    return kOps[Below(9)];
  }

  std::string Common(const std::string& v, const std::string& channel_shape, int kind) {
    const std::string a = Recent();
    const std::string b = Pick();
    switch (kind) {
      case 0: return Value(v) + " = " + Unary() + "(" + a + ")\n";
      case 1: return Value(v) + " = Add(" + a + ", " + b + ")\n";
      case 2: return Value(v) + " = Mul(" + a + ", " + Const(channel_shape, 4) + ")\n";
      case 3: return Value(v) + " = Add(" + Const(channel_shape, 4) + ", " + a + ")\n";
      case 4: return Value(v) + " = " + (Below(2) != 0 ? "Mul(" : "Sub(") + a + ", " + Const("", 1) + ")\n";
      case 5: return "s" + v + " = Sigmoid(" + a + ")\n" + Value(v) + " = Mul(s" + v + ", " + a + ")\n";
      case 6: return Value(v) + " = Div(" + a + ", " + Const("1", 1, 1, 3) + ")\n";
      default: return Value(v) + " = Sub(" + a + ", " + b + ")\n";
    }
  }

  std::string ConvStep(int i) {
    const std::string v = "v" + std::to_string(i);
    const int kind = Below(18);
    if (kind < 8) return Common(v, Below(2) != 0 ? "1,4,1,1" : "4,1,1", kind);
    const std::string a = Recent();
    switch (kind) {
      case 8:
      case 9: return Value(v) + " = Conv(" + a + ", " + Const("4,4,1,1", 16) + ", " + Const("4", 4) + ")\n";
      case 10: return Value(v) + " = Conv(" + a + ", " + Const("4,4,3,3", 144, -0.2f, 0.2f) + ") {pads=[1, 1, 1, 1]}\n";
      case 11: return Value(v) + " = Conv(" + a + ", " + Const("4,1,3,3", 36, -0.3f, 0.3f) + ") {group=4, pads=[1, 1, 1, 1]}\n";
      case 12:
        return Value(v) + " = BatchNormalization(" + a + ", " + Const("4", 4) + ", " + Const("4", 4) + ", " + Const("4", 4) +
               ", " + Const("4", 4, 0.5f, 1.5f) + ")\n";
      case 13: return Value(v) + " = MaxPool(" + a + ") {kernel_shape=[3, 3], pads=[1, 1, 1, 1]}\n";
      case 14:
        return "g" + v + " = GlobalAveragePool(" + a + ")\nh" + v + " = Conv(g" + v + ", " + Const("4,4,1,1", 16) + ")\n" +
               Value(v) + " = Mul(" + a + ", h" + v + ")\n";
      case 15:
        return "p" + v + ", q" + v + " = Split(" + a + ") {axis=1, num_outputs=2}\n" + Value(v) + " = Concat(q" + v + ", p" + v +
               ") {axis=1}\n";
      case 16:
        return "t" + v + " = Transpose(" + a + ") {perm=[0, 2, 3, 1]}\nu" + v + " = Relu(t" + v + ")\n" + Value(v) +
               " = Transpose(u" + v + ") {perm=[0, 3, 1, 2]}\n";
      default: return Value(v) + " = Softmax(" + a + ") {axis=1}\n";
    }
  }

  std::string MatrixStep(int i) {
    const std::string v = "v" + std::to_string(i);
    const int kind = Below(15);
    if (kind < 8) return Common(v, "4", kind);
    const std::string a = Recent();
    const std::string b = Pick();
    const std::string c = Pick();
    switch (kind) {
      case 8:
      case 9: return Value(v) + " = MatMul(" + a + ", " + Const("4,4", 16) + ")\n";
      case 10:
        return "t" + v + " = Transpose(" + b + ") {perm=[0, 2, 1]}\nm" + v + " = MatMul(" + a + ", t" + v + ")\nk" + v +
               " = Mul(m" + v + ", " + Const("", 1) + ")\np" + v + " = Softmax(k" + v + ")\n" + Value(v) + " = MatMul(p" + v +
               ", " + c + ")\n";
      case 11: return Value(v) + " = LayerNormalization(" + a + ", " + Const("4", 4) + ", " + Const("4", 4) + ")\n";
      case 12: {
        const std::string shape = Ints({0, 0, 2, 2});
        const std::string back = Ints({0, 0, 4});
        return "r" + v + " = Reshape(" + a + ", " + shape + ")\nt" + v + " = Transpose(r" + v + ") {perm=[0, 2, 1, 3]}\nu" + v +
               " = Transpose(t" + v + ") {perm=[0, 2, 1, 3]}\n" + Value(v) + " = Reshape(u" + v + ", " + back + ")\n";
      }
      case 13:
        return "p" + v + ", q" + v + " = Split(" + a + ") {axis=2, num_outputs=2}\n" + Value(v) + " = Concat(q" + v + ", p" + v +
               ") {axis=-1}\n";
      default:
        return "e" + v + " = Expand(" + Const("1,1,4", 4) + ", " + Ints({1, 1, 4}) + ")\n" + Value(v) + " = Mul(" + a + ", e" +
               v + ")\n";
    }
  }

  std::mt19937 engine_;
  std::vector<std::string> values_;
  std::string constants_;
  int count_ = 0;
};

constexpr double kTolerance = 2e-4;  // up to fifteen operators with gains of up to 4 each, relative to 1 + |value|

TEST(Fuzz, EveryLevelKeepsResults) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const std::string text = Generator(seed).Make(seed % 2 == 0);
    for (int level : {1, 2, 3, 99}) {
      PassContext c = Context();
      c.opt_level = level;
      const Outcome o = Optimise(text, {}, c);
      ASSERT_LT(o.difference, kTolerance) << "seed " << seed << " level " << level << "\n" << text << ir::Print(o.graph);
    }
  }
}

TEST(Fuzz, EveryOrderOfPassesKeepsResults) {
  std::mt19937 engine(1);
  for (uint32_t seed = 1000; seed < 1150; ++seed) {
    const std::string text = Generator(seed).Make(seed % 2 == 0);
    std::vector<std::string> order = PassNames();
    std::shuffle(order.begin(), order.end(), engine);
    std::vector<std::string> twice = order;
    std::shuffle(order.begin(), order.end(), engine);
    twice.insert(twice.end(), order.begin(), order.end());
    const Outcome o = Optimise(text, twice);
    ASSERT_LT(o.difference, kTolerance) << "seed " << seed << "\n" << text << ir::Print(o.graph);
  }
}

}  // namespace
}  // namespace tenon::passes::testing
