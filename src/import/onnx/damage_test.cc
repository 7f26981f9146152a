// Damaged files: cut at every byte, every byte changed. An error or another valid model, never a crash.
#include <gmock/gmock.h>

#include "import/onnx/test_model.h"

namespace tenon::import {
namespace {

using ::testing::HasSubstr;

onnx::ModelProto Dense() {
  onnx::ModelProto m = NewModel(13);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"n", "2"});
  AddInit(g, "w", {2, 2}, {1, 2, 3, 4});
  AddNode(g, "MatMul", {"x", "w"}, {"p"}, "mm");
  SetAttr(AddNode(g, "Softmax", {"p"}, {"y"}, "s"), "axis", int64_t{-1});
  SetType(g->add_output(), "y", DType::kF32, {"n", "2"});
  return m;
}

onnx::ModelProto Old() {
  onnx::ModelProto m = NewModel(6);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"1", "2", "4"});
  AddInit(g, "b", {2}, {1, 2});
  auto* add = AddNode(g, "Add", {"x", "b"}, {"a"});
  SetAttr(add, "broadcast", int64_t{1});
  SetAttr(add, "axis", int64_t{1});
  SetAttr(AddNode(g, "Softmax", {"a"}, {"s"}), "axis", int64_t{1});
  auto* slice = AddNode(g, "Slice", {"s"}, {"y"});
  SetAttr(slice, "starts", std::vector<int64_t>{0});
  SetAttr(slice, "ends", std::vector<int64_t>{1});
  AddOutput(g, "y");
  return m;
}

onnx::ModelProto Branches() {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "c", DType::kBool, {});
  AddInput(g, "x", DType::kF32, {"2"});
  auto* n = AddNode(g, "If", {"c"}, {"y"});
  auto* a = AddGraph(n, "then_branch");
  AddNode(a, "Relu", {"x"}, {"t"});
  AddOutput(a, "t");
  AddOutput(AddGraph(n, "else_branch"), "x");
  AddOutput(g, "y");
  return m;
}

onnx::ModelProto Calls() {
  onnx::ModelProto m = NewModel(17);
  AddInput(m.mutable_graph(), "x", DType::kF32, {"2"});
  AddNode(m.mutable_graph(), "F", {"x"}, {"y"})->set_domain("l");
  AddOutput(m.mutable_graph(), "y");
  auto* f = m.add_functions();
  f->set_name("F");
  f->set_domain("l");
  f->add_input("a");
  f->add_output("b");
  AddNode(f, "Neg", {"a"}, {"b"});
  return m;
}

onnx::ModelProto Shapes() {
  onnx::ModelProto m = NewModel(17);
  auto* g = m.mutable_graph();
  AddInput(g, "x", DType::kF32, {"n", "4"});
  AddNode(g, "Shape", {"x"}, {"s"});
  AddInts(g, "i", {0});
  SetAttr(AddNode(g, "Gather", {"s", "i"}, {"n"}), "axis", int64_t{0});
  AddInts(g, "k", {2, 2});
  SetAttr(AddNode(g, "Concat", {"n", "k"}, {"t"}), "axis", int64_t{0});
  AddNode(g, "Reshape", {"x", "t"}, {"y"});
  AddOutput(g, "y");
  auto* sparse = g->add_sparse_initializer();
  sparse->mutable_values()->set_name("unused");
  sparse->mutable_values()->set_data_type(1);
  sparse->mutable_values()->add_dims(1);
  sparse->mutable_values()->add_float_data(1);
  sparse->mutable_indices()->set_data_type(7);
  sparse->mutable_indices()->add_dims(1);
  sparse->mutable_indices()->add_int64_data(3);
  sparse->add_dims(8);
  return m;
}

class Damage : public ::testing::TestWithParam<onnx::ModelProto (*)()> {
 protected:
  // Failures must say so as bad input, missing support or a limit; a success must be a sound graph.
  static void Try(const std::string& bytes, size_t at) {
    ImportOptions options;
    options.max_expanded_bytes = size_t{1} << 20;
    const auto r = ImportOnnxBytes(bytes, "", options);
    if (r.ok()) {
      EXPECT_TRUE(ir::Verify(*r).ok()) << at;
      return;
    }
    EXPECT_NE(r.status().code(), Code::kInternal) << at << ": " << r.status().message();
    EXPECT_FALSE(r.status().message().empty());
  }
};

TEST_P(Damage, IntactIsRead) {
  const auto r = Import(GetParam()());
  EXPECT_TRUE(r.ok()) << r.status().message();
}

TEST_P(Damage, CutAtEveryByte) {
  const std::string bytes = GetParam()().SerializeAsString();
  for (size_t n = 0; n < bytes.size(); ++n) Try(bytes.substr(0, n), n);
}

TEST_P(Damage, EveryByteChanged) {
  const std::string bytes = GetParam()().SerializeAsString();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int mask : {0xff, 0x01, 0x80, 0x10}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      Try(damaged, i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Damage, ::testing::Values(&Dense, &Old, &Branches, &Calls, &Shapes));

TEST(Damage, NothingIsPrintedAndTheReasonIsNamed) {
  const std::string bytes = Dense().SerializeAsString();
  testing::internal::CaptureStderr();
  const std::string message = FailureOf(ImportOnnxBytes(bytes.substr(0, bytes.size() / 2), ""));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(message, HasSubstr("truncated"));
}

TEST(Damage, TensorsOfTheWrongSize) {
  const auto with = [](DType type, std::vector<int64_t> dims, const auto& fill) {
    onnx::ModelProto m = NewModel(17);
    auto* t = m.mutable_graph()->add_initializer();
    t->set_name("w");
    t->set_data_type(static_cast<int>(type));
    for (int64_t d : dims) t->add_dims(d);
    fill(t);
    AddOutput(m.mutable_graph(), "w");
    return Import(m);
  };
  FailureOf(with(DType::kF32, {2}, [](auto* t) { t->set_raw_data(std::string(7, 'x')); }));
  FailureOf(with(DType::kF32, {2}, [](auto* t) { t->add_float_data(1); }));
  FailureOf(with(DType::kF32, {2}, [](auto* /*t*/) {}));
  FailureOf(with(DType::kI64, {2}, [](auto* t) { t->add_int32_data(1); }));
  FailureOf(with(DType::kF32, {-1}, [](auto* t) { t->add_float_data(1); }));
  FailureOf(with(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}, [](auto* /*t*/) {}), Code::kResourceLimit);
  FailureOf(with(DType::kF32, std::vector<int64_t>(13, 1), [](auto* t) { t->add_float_data(1); }), Code::kUnsupported);
  FailureOf(with(DType::kString, {2}, [](auto* t) { t->add_string_data("a"); }));
  FailureOf(with(DType::kUndefined, {}, [](auto* t) { t->add_float_data(1); }));
  FailureOf(with(DType::kI4, {3}, [](auto* t) { t->add_int32_data(0x21); }));

  auto r = with(DType::kI4, {3}, [](auto* t) {
    t->add_int32_data(0x21);
    t->add_int32_data(0x0f);
  });
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->value(r->outputs()[0]).constant.Data<uint8_t>()[0], 0x21);
  r = with(DType::kBF16, {1}, [](auto* t) { t->add_int32_data(0x3f80); });
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->value(r->outputs()[0]).constant.Data<uint16_t>()[0], 0x3f80);
  r = with(DType::kU32, {1}, [](auto* t) { t->add_uint64_data(7); });
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->value(r->outputs()[0]).constant.Data<uint32_t>()[0], 7U);
  r = with(DType::kBool, {2}, [](auto* t) { t->set_raw_data(std::string("\x02\x00", 2)); });
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->value(r->outputs()[0]).constant.Data<uint8_t>()[0], 1);
  r = with(DType::kF32, {0, 4}, [](auto* /*t*/) {});
  ASSERT_TRUE(r.ok()) << r.status().message();
}

}  // namespace
}  // namespace tenon::import
