// A run allocates nothing once its shapes have been seen: operator new is counted for the whole test program. Not under
// sanitizers, which bring their own operator new.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/open.h"

namespace {
std::atomic<int64_t> allocations{0};
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size > 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace tenon::runtime {
namespace {

using artifact::ProgramValue;
using artifact::Step;

// y = Softmax(Reshape(Relu(x * w), Shape(x))): kernels, a view, and shape arithmetic.
artifact::Program Sample() {
  const SymShape shape({Dim::Symbol("n"), Dim(8)});
  artifact::Program p;
  const auto value = [](const char* name, DType t, SymShape s) { return ProgramValue{name, t, false, std::move(s), {}}; };
  p.values = {value("x", DType::kF32, shape),
              {"w", DType::kF32, false, SymShape(Shape{8, 8}), *Tensor::Zeros(DType::kF32, {8, 8})},
              value("a", DType::kF32, shape),
              value("r", DType::kF32, shape),
              value("s", DType::kI64, SymShape(Shape{2})),
              value("v", DType::kF32, shape),
              value("y", DType::kF32, shape)};
  p.steps = {Step{"MatMul", "matmul", {}, {0, 1}, {2}, {}, ""}, Step{"Relu", "relu", {}, {2}, {3}, {}, ""},
             Step{"Shape", "shape", {}, {0}, {4}, {}, ""}, Step{"Reshape", "reshape", {}, {3, 4}, {5}, {}, ""},
             Step{"Softmax", "softmax", {}, {5}, {6}, {}, ""}};
  p.inputs = {0};
  p.outputs = {6};
  return p;
}

TEST(Session, RunsOfKnownShapesAllocateNothing) {
  artifact::Artifact artifact;
  artifact.program = Sample();
  auto session = OpenArtifact(std::move(artifact), {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> x(32 * 8, 1.0f);
  std::vector<float> y(32 * 8);
  HostTensor in;
  in.name = "x";
  in.dtype = DType::kF32;
  in.data = x.data();
  HostTensor out;
  out.name = "y";
  out.data = y.data();
  out.bytes = y.size() * sizeof(float);
  for (int round = 0; round < 3; ++round) {
    const int64_t before = allocations;
    for (int64_t n : {32, 4}) {
      in.shape.assign({n, 8});
      in.bytes = static_cast<size_t>(n) * 8 * sizeof(float);
      ASSERT_TRUE((*session)->RunInto(&in, 1, &out, 1).ok());
      EXPECT_FLOAT_EQ(y[0], 0.125f);
    }
    if (round > 0) {
      EXPECT_EQ(allocations - before, 0);
    }
  }
}

}  // namespace
}  // namespace tenon::runtime

#endif  // sanitizers
