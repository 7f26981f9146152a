#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon::runtime {
namespace {

using artifact::Program;
using artifact::Step;

artifact::ProgramValue Value(const char* name, DType t, SymShape shape) {
  return {name, t, false, std::move(shape), {}};
}
artifact::ProgramValue Constant(const char* name, Tensor t) {
  return {name, t.dtype(), false, SymShape(t.shape()), t};
}
Dim N() {
  return Dim::Symbol("n");
}

struct Runner {
  explicit Runner(Program p) : program(std::move(p)), machine(hw::DetectIsa(), 2, {}, 0) {
    EXPECT_TRUE(Validate(program).ok());
    machine.team.Enter();
    auto e = Executor::Create(program, machine, 2);
    EXPECT_TRUE(e.ok()) << e.status().message();
    if (e.ok()) executor = std::move(e).value();
  }
  std::vector<float> Run(const Tensor& x, const RunOptions& options = {}) {
    const View in = x.view();
    Status s = executor->Run({&in, 1}, options);
    EXPECT_TRUE(s.ok()) << s.message();
    const View& y = executor->output(0);
    return {y.Data<float>(), y.Data<float>() + y.num_elements()};
  }
  Program program;
  hw::Machine machine;
  std::unique_ptr<Executor> executor;
};

// y = Reshape(Relu(x + w), Concat(Shape(x)[0:1], [2, 1]))
Program ThreeOps() {
  Program p;
  p.values = {Value("x", DType::kF32, SymShape({N(), Dim(2)})), Constant("w", Tensor::FromVector<float>({2}, {1, -3})),
              Value("a", DType::kF32, SymShape({N(), Dim(2)})), Value("r", DType::kF32, SymShape({N(), Dim(2)})),
              Value("s", DType::kI64, SymShape(Shape{1})),      Constant("tail", Tensor::FromVector<int64_t>({2}, {2, 1})),
              Value("t", DType::kI64, SymShape(Shape{3})),      Value("y", DType::kF32, SymShape({N(), Dim(2), Dim(1)}))};
  Step shape{"Shape", "shape", {}, {0}, {4}, {}, ""};
  shape.attrs.Set("start", int64_t{0});
  shape.attrs.Set("end", int64_t{1});
  Step concat{"Concat", "concat", {}, {4, 5}, {6}, {}, ""};
  concat.attrs.Set("axis", int64_t{0});
  p.steps = {Step{"Add", "add", {}, {0, 1}, {2}, {}, ""}, Step{"Relu", "relu", {}, {2}, {3}, {}, ""}, shape, concat,
             Step{"Reshape", "reshape", {}, {3, 6}, {7}, {}, ""}};
  p.inputs = {0};
  p.outputs = {7};
  return p;
}

TEST(Executor, ObserversSeeTheValuesTheyAskFor) {
  struct Values final : StepObserver {
    bool WantsValues() const override { return wants; }
    void OnStep(const StepRecord& r) override {
      ++steps;
      for (const HostTensor& t : r.outputs) {
        if (t.name != "r") continue;
        const auto* f = static_cast<const float*>(t.data);
        seen.assign(f, f + t.bytes / sizeof(float));
      }
    }
    bool wants = false;
    int steps = 0;
    std::vector<float> seen;
  };
  Runner runner(ThreeOps());
  Values values;
  RunOptions options;
  options.observer = &values;
  const Tensor x = Tensor::FromVector<float>({2, 2}, {1, 2, -3, 4});
  runner.Run(x, options);
  EXPECT_GT(values.steps, 0);
  EXPECT_TRUE(values.seen.empty());
  values.wants = true;
  runner.Run(x, options);
  EXPECT_EQ(values.seen, (std::vector<float>{2, 0, 0, 1}));
}

TEST(Executor, ObserversSeeWhatOperatorsCost) {
  struct Costs final : StepObserver {
    bool WantsShapes() const override { return false; }
    bool WantsDetails() const override { return details; }
    void BeforeStep() override { ++before; }
    void OnStep(const StepRecord& r) override {
      EXPECT_TRUE(r.shapes.empty());
      EXPECT_TRUE(r.outputs.empty());
      EXPECT_EQ(r.details != nullptr, details);
      steps.push_back(r.step);
      if (r.details == nullptr) return;
      ASSERT_EQ(r.details->outputs.size(), 1U);
      EXPECT_EQ(r.details->outputs[0].shape, (std::vector<int64_t>{2, 2}));
      EXPECT_EQ(r.details->outputs[0].dtype, DType::kF32);
      EXPECT_GE(r.details->flops, 4);
      EXPECT_GE(r.details->bytes, 32);
      EXPECT_EQ(r.details->threads, 1);
      EXPECT_FALSE(r.details->dynamic);
    }
    bool details = false;
    int before = 0;
    std::vector<const void*> steps;
  };
  Runner runner(ThreeOps());
  Costs costs;
  RunOptions options;
  options.observer = &costs;
  const Tensor x = Tensor::FromVector<float>({2, 2}, {1, 2, -3, 4});
  runner.Run(x, options);
  const std::vector<const void*> first = std::exchange(costs.steps, {});
  costs.details = true;
  runner.Run(x, options);
  EXPECT_EQ(costs.steps, first) << "a step is known again";
  EXPECT_EQ(costs.before, static_cast<int>(2 * first.size()));
}

TEST(Executor, ShapeArithmeticIsDoneWhilePlanning) {
  Runner r(ThreeOps());
  for (int64_t n : {1, 3, 2, 5, 1, 3}) {
    std::vector<float> x;
    std::vector<float> want;
    for (int64_t i = 0; i < 2 * n; ++i) {
      x.push_back(static_cast<float>(i));
      want.push_back(std::max(0.0f, static_cast<float>(i) + (i % 2 == 0 ? 1.0f : -3.0f)));
    }
    EXPECT_EQ(r.Run(Tensor::FromVector<float>({n, 2}, x)), want);
    EXPECT_EQ(r.executor->output(0).shape, (Shape{n, 2, 1}));
    EXPECT_FALSE(r.executor->plan()->has_late);
    int run = 0;
    for (const auto& s : r.executor->plan()->steps) run += s.kind == StepKind::kRun ? 1 : 0;
    EXPECT_EQ(run, 2);
    EXPECT_LE(r.executor->cached_shapes(), 2);
  }
}

TEST(Executor, ValuesWithoutElementsHaveBuffersInAnEmptyArena) {
  Program p;
  p.values = {Value("x", DType::kF32, SymShape({N(), Dim(2)})), Value("s", DType::kF32, SymShape({N(), Dim(2)})),
              Value("y", DType::kF32, SymShape({N(), Dim(2)}))};
  p.steps = {Step{"Softmax", "s", {}, {0}, {1}, {}, ""}, Step{"Softmax", "y", {}, {1}, {2}, {}, ""}};
  p.inputs = {0};
  p.outputs = {2};
  Runner r(std::move(p));
  for (int64_t n : {0, 2, 0}) {
    const std::vector<float> x(static_cast<size_t>(2 * n), 1.0f);
    EXPECT_EQ(r.Run(Tensor::FromVector<float>({n, 2}, x)), std::vector<float>(x.size(), 0.5f));
  }
}

TEST(Executor, DataDependentShapesAreLate) {
  // y = Gather(x, t) with t = Cast(x): a value that only the run knows, used as a target shape.
  Program p;
  p.values = {Value("x", DType::kF32, SymShape({N()})), Value("i", DType::kI64, SymShape({N()})),
              Constant("flat", Tensor::FromVector<float>({6}, {0, 1, 2, 3, 4, 5})), Value("y", DType::kF32, SymShape::OfRank(2)),
              Value("z", DType::kF32, SymShape::OfRank(2))};
  Step cast{"Cast", "cast", {}, {0}, {1}, {}, ""};
  cast.attrs.Set("to", static_cast<int64_t>(DType::kI64));
  p.steps = {cast, Step{"Reshape", "reshape", {}, {2, 1}, {3}, {}, ""}, Step{"Relu", "relu", {}, {3}, {4}, {}, ""}};
  p.inputs = {0};
  p.outputs = {4};
  Runner r(p);
  const std::vector<float> want = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(r.Run(Tensor::FromVector<float>({2}, {2, 3})), want);
  EXPECT_EQ(r.executor->output(0).shape, (Shape{2, 3}));
  EXPECT_EQ(r.Run(Tensor::FromVector<float>({2}, {6, 1})), want);
  EXPECT_EQ(r.executor->output(0).shape, (Shape{6, 1}));
  const Tensor bad = Tensor::FromVector<float>({2}, {4, 3});
  const View in = bad.view();
  Status s = r.executor->Run({&in, 1}, {});
  EXPECT_EQ(s.code(), Code::kBadInput);
  EXPECT_NE(s.message().find("reshape"), std::string::npos);
}

TEST(Executor, LoopCarriesAndStacks) {
  // for i in 0..4: s = s + x; scan s
  Program body;
  body.values = {Value("i", DType::kI64, SymShape(Shape())), Value("c", DType::kBool, SymShape(Shape())),
                 Value("s", DType::kF32, SymShape()), Value("x", DType::kF32, SymShape({N()})),
                 Value("s2", DType::kF32, SymShape())};
  body.steps = {Step{"Add", "add", {}, {2, 3}, {4}, {}, ""}};
  body.inputs = {0, 1, 2, 3};
  body.outputs = {1, 4, 4};
  Program p;
  p.values = {Value("x", DType::kF32, SymShape({N()})), Constant("m", Tensor::Scalar<int64_t>(4)),
              Value("last", DType::kF32, SymShape()), Value("all", DType::kF32, SymShape())};
  Step loop{"Loop", "loop", {}, {1, artifact::kAbsent, 0, 0}, {2, 3}, {body}, ""};
  loop.attrs.Set("captures", int64_t{1});
  p.steps = {loop};
  p.inputs = {0};
  p.outputs = {3};
  Runner r(p);
  EXPECT_EQ(r.Run(Tensor::FromVector<float>({2}, {1, 10})), (std::vector<float>{2, 20, 3, 30, 4, 40, 5, 50}));
  EXPECT_EQ(r.executor->output(0).shape, (Shape{4, 2}));
}

TEST(Executor, ALoopWithoutIterationsStacksShapesOfItsBody) {
  // no iteration of: scan x + x, whose extents only the input tells
  Program body;
  body.values = {Value("i", DType::kI64, SymShape(Shape())), Value("c", DType::kBool, SymShape(Shape())),
                 Value("x", DType::kF32, SymShape({N(), Dim(3)})), Value("y", DType::kF32, SymShape({Dim::Symbol("m"), Dim(3)}))};
  body.steps = {Step{"Add", "add", {}, {2, 2}, {3}, {}, ""}};
  body.inputs = {0, 1, 2};
  body.outputs = {1, 3};
  Program p;
  p.values = {Value("x", DType::kF32, SymShape({N(), Dim(3)})), Constant("m", Tensor::Scalar<int64_t>(0)),
              Value("all", DType::kF32, SymShape())};
  Step loop{"Loop", "loop", {}, {1, artifact::kAbsent, 0}, {2}, {body}, ""};
  loop.attrs.Set("captures", int64_t{1});
  p.steps = {loop};
  p.inputs = {0};
  p.outputs = {2};
  Runner r(p);
  EXPECT_TRUE(r.Run(*Tensor::Zeros(DType::kF32, {5, 3})).empty());
  EXPECT_EQ(r.executor->output(0).shape, (Shape{0, 5, 3}));
}

TEST(Executor, ABranchThatDoesNotFitIsAFaultOnlyWhenTaken) {
  // if x: reshape w to [2] (it has 3 elements), else w
  Program bad;
  bad.values = {Value("w", DType::kF32, SymShape(Shape{3})), Constant("s", Tensor::FromVector<int64_t>({1}, {2})),
                Value("r", DType::kF32, SymShape())};
  bad.steps = {Step{"Reshape", "misfit", {}, {0, 1}, {2}, {}, ""}};
  bad.inputs = {0};
  bad.outputs = {2};
  Program good;
  good.values = {Value("w", DType::kF32, SymShape(Shape{3}))};
  good.inputs = {0};
  good.outputs = {0};
  Program p;
  p.values = {Value("x", DType::kBool, SymShape(Shape())), Constant("w", Tensor::FromVector<float>({3}, {1, 2, 3})),
              Value("y", DType::kF32, SymShape())};
  Step branch{"If", "branch", {}, {0, 1}, {2}, {bad, good}, ""};
  branch.attrs.Set("captures", int64_t{1});
  p.steps = {branch};
  p.inputs = {0};
  p.outputs = {2};
  Runner r(p);
  EXPECT_EQ(r.Run(Tensor::Scalar<bool>(false)), (std::vector<float>{1, 2, 3}));
  const Tensor yes = Tensor::Scalar<bool>(true);
  const View in = yes.view();
  const Status s = r.executor->Run({&in, 1}, {});
  EXPECT_EQ(s.code(), Code::kBadInput);
  EXPECT_NE(s.message().find("misfit"), std::string::npos) << s.message();
  r.executor->Trim();
}

TEST(Executor, CancelStopsTheRun) {
  Runner r(ThreeOps());
  CancelToken cancel;
  cancel.Cancel();
  const Tensor x = Tensor::FromVector<float>({1, 2}, {1, 2});
  const View in = x.view();
  RunOptions options;
  options.cancel = &cancel;
  EXPECT_EQ(r.executor->Run({&in, 1}, options).code(), Code::kCancelled);
  options.cancel = nullptr;
  options.deadline = std::chrono::steady_clock::now();
  EXPECT_EQ(r.executor->Run({&in, 1}, options).code(), Code::kCancelled);
}

TEST(Executor, MemoryLimitIsAnError) {
  const Program p = ThreeOps();
  hw::Machine machine(hw::DetectIsa(), 1, {}, 5000);
  machine.team.Enter();
  auto e = Executor::Create(p, machine, 2);
  ASSERT_TRUE(e.ok());
  const Tensor x = *Tensor::Zeros(DType::kF32, {100000, 2});
  const View in = x.view();
  const Status s = (*e)->Run({&in, 1}, {});
  EXPECT_EQ(s.code(), Code::kResourceLimit);
  EXPECT_NE(s.message().find("5000"), std::string::npos);
}

TEST(MemoryPlan, RandomPlansNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks(1 + random() % 60);
    uint64_t sum = 0;
    for (Block& b : blocks) {
      b.bytes = random() % 5000;
      b.first = static_cast<int>(random() % 50);
      b.last = b.first + static_cast<int>(random() % 10);
      sum += b.bytes;
    }
    const MemoryPlan plan = PlanMemory(blocks);
    EXPECT_TRUE(IsValidPlan(blocks));
    EXPECT_GE(plan.before, sum);
    EXPECT_LE(plan.peak, plan.before);
    for (const Block& b : blocks) EXPECT_LE(b.offset + b.bytes, plan.peak);
  }
}

}  // namespace
}  // namespace tenon::runtime
