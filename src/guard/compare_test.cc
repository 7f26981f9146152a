#include "guard/compare.h"

#include <chrono>
#include <random>

#include "compile/stages.h"
#include "guard/compare_report.h"
#include "guard/slice.h"
#include "guard/testing.h"

namespace tenon::guard::testing {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::unique_ptr<Comparer> comparer;
  std::unique_ptr<DataSet> data;
  std::vector<size_t> samples;
};

Case Make(artifact::Program a, artifact::Program b, size_t samples = 2) {
  Case c;
  auto truth = Get(TruthFromProgram(WithReferenceKernels(b), "reference", {}));
  c.comparer = Get(Comparer::Create(std::move(a), std::move(truth), {}));
  c.data = Get(DataSet::Random(c.comparer->session(), samples));
  for (size_t i = 0; i < samples; ++i) c.samples.push_back(i);
  return c;
}

artifact::Program Optimised(const std::string& text) {
  compile::Imported imported;
  imported.graph = Get(ir::Parse(text));
  EXPECT_TRUE(ops::InferGraph(imported.graph).ok());
  hw::Team team(1);
  CompileReport report;
  const Status status = compile::Optimize(&imported, {}, team, &report);
  EXPECT_TRUE(status.ok()) << status.message();
  return Get(compile::Finish(imported, &report));
}

// Random networks: a chain of operators that keep the shape, with short cuts.
class Network {
 public:
  Network(uint32_t seed, bool pictures) : random_(seed), pictures_(pictures) {
    text_ = pictures ? "graph g(x: float32[1,4,6,6]) -> (y) {\n" : "graph g(x: float32[n,8]) -> (y) {\n";
  }

  std::string Build(int length) {
    std::vector<std::string> values = {"x"};
    for (int i = 0; i < length; ++i) {
      const std::string name = i + 1 == length ? "y" : fmt::format("v{}", i);
      const std::string& in = values.back();
      const std::string& other = values[random_() % values.size()];
      text_ += fmt::format(" {} = {} @\"node{}\"\n", name, pictures_ ? Picture(i, in, other) : Vector(i, in, other), i);
      values.push_back(name);
    }
    return text_ + "}";
  }

 private:
  std::string Constant(int i, const std::string& shape, int count, bool positive = false) {
    std::string name = fmt::format("c{}{}", i, positive ? "p" : count > 8 ? "w" : "b");
    std::string values;
    for (int k = 0; k < count; ++k) {
      const double v = static_cast<double>(random_() % 2001) / 1000 - 1;
      values += fmt::format("{}{:.3f}", k > 0 ? ", " : "", positive ? std::abs(v) + 0.5 : v);
    }
    text_ += fmt::format(" {}: float32[{}] = const [{}]\n", name, shape, values);
    return name;
  }
  std::string Vector(int i, const std::string& in, const std::string& other) {
    switch (random_() % 10) {
      case 0:
      case 1: return fmt::format("MatMul({}, {})", in, Constant(i, "8,8", 64));
      case 2: return fmt::format("Gemm({}, {}, {})", in, Constant(i, "8,8", 64), Constant(i, "8", 8));
      case 3: return fmt::format("Add({}, {})", in, other);
      case 4: return fmt::format("Relu({})", in);
      case 5: return fmt::format("Sigmoid({})", in);
      case 6: return fmt::format("Softmax({})", in);
      case 7: return fmt::format("LayerNormalization({}, {}, {})", in, Constant(i, "8", 8, true), Constant(i, "8", 8));
      case 8: return fmt::format("Gelu({})", in);
      default: return fmt::format("Mul({}, {})", in, Constant(i, "8", 8, true));
    }
  }
  std::string Picture(int i, const std::string& in, const std::string& other) {
    switch (random_() % 8) {
      case 0:
      case 1: return fmt::format("Conv({}, {}, {}) {{pads=[1, 1, 1, 1]}}", in, Constant(i, "4,4,3,3", 144), Constant(i, "4", 4));
      case 2: return fmt::format("Conv({}, {})", in, Constant(i, "4,4,1,1", 16));
      case 3: return fmt::format("Add({}, {})", in, other);
      case 4: return fmt::format("Relu({})", in);
      case 5: return fmt::format("MaxPool({}) {{kernel_shape=[3, 3], pads=[1, 1, 1, 1]}}", in);
      case 6: return fmt::format("HardSwish({})", in);
      default: return fmt::format("Mul({}, {})", in, Constant(i, "4,1,1", 4, true));
    }
  }

  std::mt19937 random_;
  bool pictures_;
  std::string text_;
};

TEST(Compare, FindsTheSabotagedOperator) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    const auto start = std::chrono::steady_clock::now();
    const std::string text = Network(seed, seed % 2 == 0).Build(6 + static_cast<int>(seed % 7));
    artifact::Program program = Optimised(text);
    std::mt19937 random(seed);
    std::vector<size_t> candidates;
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const kernels::OpKernels* op = kernels::FindOp(program.steps[s].op);
      if (op != nullptr && !op->is_view) candidates.push_back(s);
    }
    ASSERT_FALSE(candidates.empty()) << text;
    const size_t guilty = candidates[random() % candidates.size()];
    Case honest = Make(program, ProgramOf(text));
    const Comparison fine = Get(honest.comparer->Compare(*honest.data, honest.samples));
    EXPECT_LT(fine.first_bad, 0) << text;
    EXPECT_GT(fine.compared, 0u) << text;
    program.steps[guilty].kernel = "sabotaged";
    Case c = Make(program, ProgramOf(text));
    const Comparison comparison = Get(c.comparer->Compare(*c.data, c.samples));
    ASSERT_GE(comparison.first_bad, 0) << text;
    const Verdict verdict = Get(c.comparer->Bisect(*c.data, c.samples, comparison));
    ASSERT_GE(verdict.guilty, 0) << verdict.explanation << "\n" << text;
    EXPECT_EQ(comparison.ops[static_cast<size_t>(verdict.guilty)].step, static_cast<int>(guilty)) << verdict.explanation << "\n"
                                                                                                  << text;
    Comparison single = comparison;
    ASSERT_TRUE(c.comparer->SingleOps(*c.data, c.samples, &single).ok());
    for (const OpComparison& op : single.ops)
      EXPECT_EQ(op.own_bad, op.step == static_cast<int>(guilty)) << op.name << "\n" << text;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
  }
}

// A graph that differs, not a kernel: the other side's right values show it.
TEST(Compare, FindsTheAlteredWeight) {
  int found = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::string text = Network(seed, seed % 2 == 0).Build(10);
    artifact::Program altered = ProgramOf(text);
    std::vector<size_t> constants;
    for (size_t v = 0; v < altered.values.size(); ++v) {
      if (altered.values[v].constant.defined()) constants.push_back(v);
    }
    if (constants.empty()) continue;
    const size_t v = constants[seed % constants.size()];
    Tensor copy = Get(Tensor::CopyOf(altered.values[v].constant.view()));
    copy.MutableData<float>()[0] += 2;
    altered.values[v].constant = copy;
    Case c = Make(altered, ProgramOf(text));
    const Comparison comparison = Get(c.comparer->Compare(*c.data, c.samples));
    if (comparison.first_bad < 0) continue;   // the weight meets zeros only
    const Verdict verdict = Get(c.comparer->Bisect(*c.data, c.samples, comparison));
    ASSERT_GE(verdict.guilty, 0) << verdict.explanation;
    const auto& step = altered.steps[static_cast<size_t>(comparison.ops[static_cast<size_t>(verdict.guilty)].step)];
    EXPECT_NE(std::find(step.inputs.begin(), step.inputs.end(), static_cast<int>(v)), step.inputs.end())
        << verdict.explanation << text;
    ++found;
  }
  EXPECT_GE(found, 15);
}

const char* const kSmall =
    "graph g(x: float32[2,3]) -> (y) {\n w: float32[3,3] = const [1, 2, 3, 4, 5, 6, 7, 8, 9]\n a = MatMul(x, w) @\"mul, "
    "\\\"one\\\"\"\n"
    " b = Sqrt(a) @\"root\"\n y = Softmax(b) @\"soft\"\n}";

TEST(Compare, ReadsDumps) {
  const Folder folder;
  const Tensor x = Counting({2, 3});
  auto session = SessionOf(WithAllOutputs(ProgramOf(kSmall)));
  std::vector<std::pair<std::string, Tensor>> arrays = {{"x", x}};
  const HostTensor input = ToHost("x", x);
  for (const HostTensor& t : Get(session->Run({input}))) {
    std::vector<float> values(static_cast<const float*>(t.data), static_cast<const float*>(t.data) + t.bytes / 4);
    if (t.name == "b") values[4] += 0.5f;   // the other runtime's Sqrt is wrong
    if (t.name != "y") arrays.emplace_back(t.name, Floats(Shape(std::span<const int64_t>(t.shape)), values));
  }
  WriteNpz(folder / "dump.npz", arrays);
  auto comparer = Get(Comparer::Create(ProgramOf(kSmall), Get(TruthFromDumps(folder / "dump.npz")), {}));
  auto sample = Get(SampleFromDumps(folder / "dump.npz", comparer->session().inputs()));
  ASSERT_TRUE(sample.has_value());
  auto data = DataSet::Of({*sample}, "dump");
  const std::vector<size_t> samples = {0};
  const Comparison comparison = Get(comparer->Compare(*data, samples));
  EXPECT_EQ(comparison.compared, 2u);
  EXPECT_THAT(comparison.ops[2].reason, HasSubstr("no value of this name"));
  const Verdict verdict = Get(comparer->Bisect(*data, samples, comparison));
  ASSERT_EQ(verdict.guilty, 1);
  const std::string csv = ToCsv(comparison, false);
  EXPECT_THAT(csv, HasSubstr("Index,OpSequence,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,OverFlow,"
                             "CosineSimilarity,MaxAbsoluteError,AccumulatedRelativeError,RelativeEuclideanDistance,"
                             "KullbackLeiblerDivergence,StandardDeviation,MeanAbsoluteError,RootMeanSquareError,MaxRelativeError,"
                             "MeanRelativeError,CompareFailReason\n"));
  EXPECT_THAT(csv, HasSubstr("0,0,MatMul,\"mul, \"\"one\"\"\",float32,,a,float32,a:output:0,\"[2,3]\",NO,1,0,0,0,0,\""));
}

TEST(Compare, FindsWhereNumbersEnd) {
  const std::string text =
      "graph g(x: float32[2,3]) -> (y) {\n m: float32[] = const [-1]\n a = Add(x, x) @\"sum\"\n b = Mul(a, m) @\"negative\"\n"
      " c = Sqrt(b) @\"root\"\n y = Relu(c) @\"last\"\n}";
  const std::string fine =
      "graph g(x: float32[2,3]) -> (y) {\n m: float32[] = const [1]\n a = Add(x, x) @\"sum\"\n b = Mul(a, m) @\"negative\"\n"
      " c = Sqrt(b) @\"root\"\n y = Relu(c) @\"last\"\n}";
  Case c = Make(ProgramOf(text), ProgramOf(fine));
  const Comparison comparison = Get(c.comparer->Compare(*c.data, c.samples));
  ASSERT_GE(comparison.first_not_finite, 0);
  EXPECT_EQ(comparison.ops[static_cast<size_t>(comparison.first_not_finite)].name, "root");
  EXPECT_EQ(comparison.ops[static_cast<size_t>(Get(c.comparer->Bisect(*c.data, c.samples, comparison)).guilty)].name, "negative");
}

TEST(Errors, ColumnsAsPublished) {
  const Tensor x = Floats({4}, {1, 2, 3, 4});
  const Tensor y = Floats({4}, {1, 2, 4, 0});
  const Errors e = Get(CompareValues(x.view(), y.view()));
  EXPECT_NEAR(e.cosine, 17 / std::sqrt(30.0 * 21), 1e-12);
  EXPECT_NEAR(e.max_abs, 4, 1e-12);
  EXPECT_NEAR(e.accumulated_relative, 0.25, 1e-12);   // 0 has no relative error
  EXPECT_NEAR(e.relative_euclidean, std::sqrt(17.0 / 21), 1e-12);
  EXPECT_NEAR(e.mean_abs, 1.25, 1e-12);
  EXPECT_NEAR(e.rmse, std::sqrt(17.0 / 4), 1e-12);
  EXPECT_NEAR(e.max_relative, 0.25, 1e-12);
  EXPECT_NEAR(e.mean_relative, 0.0625, 1e-12);
  EXPECT_EQ(e.StandardDeviationText(), "(2.500;1.118),(1.750;1.479)");
  EXPECT_NEAR(e.Score(), 1, 1e-12);
  // p = x, q = y, both scaled to [eps, 1] and to sum 1.
  const double eps = 0x1p-23;
  const std::vector<double> p = {eps, 1.0 / 3, 2.0 / 3, 1};
  const std::vector<double> q = {0.25, 0.5, 1, eps};
  double kl = 0;
  for (size_t i = 0; i < 4; ++i) kl += p[i] / (2 + eps) * std::log(p[i] / (2 + eps) / (q[i] / (1.75 + eps)));
  EXPECT_NEAR(e.kl_divergence, kl, 1e-9);
}

TEST(Compare, LeavesRandomValuesOut) {
  const std::string text =
      "graph g(x: float32[2,3]) -> (y) {\n a = Relu(x)\n r = RandomNormalLike(a)\n s = Add(r, a)\n y = Relu(s)\n}";
  Case c = Make(ProgramOf(text), ProgramOf(text));
  Comparison comparison = Get(c.comparer->Compare(*c.data, c.samples));
  EXPECT_EQ(comparison.first_bad, -1);
  EXPECT_EQ(comparison.compared, 1u);
  EXPECT_EQ(comparison.ops[3].reason, "random");
  ASSERT_TRUE(c.comparer->SingleOps(*c.data, c.samples, &comparison).ok());
  EXPECT_EQ(comparison.ops[1].own_reason, "random");
  EXPECT_TRUE(comparison.ops[2].own_compared);   // alone, on right inputs, it can be judged
  EXPECT_FALSE(comparison.ops[2].own_bad);
}

TEST(Errors, TextsAndSequences) {
  const Tensor x = Tensor::FromStrings({2}, {"a", "b"});
  const Tensor y = Tensor::FromStrings({2}, {"a", "c"});
  EXPECT_EQ(Get(CompareValues(x.view(), x.view())).Score(), 0);
  EXPECT_EQ(Get(CompareValues(x.view(), y.view())).Score(), 1);
  HostTensor a;
  a.is_sequence = true;
  a.sequence = {ToHost("", Floats({1}, {1})), ToHost("", Floats({2}, {1, 2}))};
  HostTensor b = a;
  EXPECT_EQ(Get(CompareValues(a, b)).Score(), 0);
  b.sequence[1] = ToHost("", Floats({2}, {1, 4}));
  EXPECT_NEAR(Get(CompareValues(a, b)).max_abs, 2, 1e-12);
  b.sequence.pop_back();
  EXPECT_EQ(CompareValues(a, b).status().code(), Code::kBadInput);
}

TEST(Errors, NumbersThatAreNone) {
  const Tensor x = Floats({4}, {NAN, INFINITY, NAN, 1});
  const Tensor y = Floats({4}, {NAN, INFINITY, 1, 1});
  const Errors e = Get(CompareValues(x.view(), y.view()));
  EXPECT_EQ(e.nan, 1);
  EXPECT_EQ(e.infinite, 0);
  EXPECT_TRUE(std::isinf(e.Score()));
  EXPECT_EQ(Get(CompareValues(y.view(), y.view())).Score(), 0);
  EXPECT_EQ(CompareValues(x.view(), Floats({2}, {1, 2}).view()).status().code(), Code::kBadInput);
  const Tensor zero = Floats({2}, {0, 0});
  EXPECT_EQ(Get(CompareValues(zero.view(), zero.view())).Score(), 0);
  EXPECT_TRUE(std::isinf(Get(CompareValues(Floats({2}, {0, 1}).view(), zero.view())).Score()));
  EXPECT_EQ(Get(CompareValues(Floats({0}, {}).view(), Floats({0}, {}).view())).Score(), 0);
}

}  // namespace
}  // namespace tenon::guard::testing
