// S03 and G14: external data stays inside the model's directory, and is checked before use.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "import/onnx/test_model.h"

namespace tenon::import {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExternalDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "tenon_import_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / "model" / "sub");
    const std::vector<float> weights{1, 2, 3, 4};
    for (const char* file : {"model/w.bin", "model/sub/w.bin", "model/w..bin", "outside.bin", "model/..w"}) Write(file, weights);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::vector<float>& values) {
    std::ofstream(root_ / file, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  }

  static onnx::ModelProto Model(const std::string& location, const std::string& offset = "", const std::string& length = "") {
    onnx::ModelProto m = NewModel(17);
    auto* g = m.mutable_graph();
    AddInput(g, "x", DType::kF32, {"2"});
    auto* w = g->add_initializer();
    w->set_name("w");
    w->set_data_type(1);
    w->add_dims(2);
    w->set_data_location(onnx::TensorProto::EXTERNAL);
    const auto entry = [&](const char* key, const std::string& value) {
      auto* e = w->add_external_data();
      e->set_key(key);
      e->set_value(value);
    };
    entry("location", location);
    if (!offset.empty()) entry("offset", offset);
    if (!length.empty()) entry("length", length);
    AddNode(g, "Add", {"x", "w"}, {"y"});
    AddOutput(g, "y");
    return m;
  }

  Result<ir::Graph> Load(const onnx::ModelProto& m, const ImportOptions& options = {}) {
    const std::string path = root_ / "model" / "m.onnx";
    std::ofstream(path, std::ios::binary) << m.SerializeAsString();
    return ImportOnnx(path, options);
  }

  static std::vector<float> Weights(const Result<ir::Graph>& r) {
    EXPECT_TRUE(r.ok()) << r.status().message();
    if (!r.ok()) return {};
    const Tensor& t = r->value(r->FindValue("w")).constant;
    return {t.Data<float>(), t.Data<float>() + t.shape().num_elements()};
  }

  fs::path root_;
};

TEST_F(ExternalDataTest, ReadsWhatLiesInside) {
  EXPECT_THAT(Weights(Load(Model("w.bin"))), ElementsAre(1, 2));
  EXPECT_THAT(Weights(Load(Model("w.bin", "8", "8"))), ElementsAre(3, 4));
  EXPECT_THAT(Weights(Load(Model("sub/w.bin", "4"))), ElementsAre(2, 3));
  EXPECT_THAT(Weights(Load(Model("./sub/w.bin", "4"))), ElementsAre(2, 3));
  // Two dots inside a word leave nothing.
  EXPECT_THAT(Weights(Load(Model("w..bin"))), ElementsAre(1, 2));
  EXPECT_THAT(Weights(Load(Model("..w"))), ElementsAre(1, 2));
  // An address that does not suit the type is copied.
  std::ofstream(root_ / "model/odd.bin", std::ios::binary)
      << "z" << std::string(reinterpret_cast<const char*>("\0\0\x80\x3f\0\0\0\x40"), 8);
  EXPECT_THAT(Weights(Load(Model("odd.bin", "1"))), ElementsAre(1, 2));
}

TEST_F(ExternalDataTest, S03RefusesWhatLeavesTheDirectory) {
  fs::create_symlink(root_ / "outside.bin", root_ / "model/link.bin");
  fs::create_directory_symlink(root_, root_ / "model/up");
  fs::create_symlink("loop", root_ / "model/loop");
  fs::create_hard_link(root_ / "outside.bin", root_ / "model/hard.bin");
  ASSERT_EQ(mkfifo((root_ / "model/pipe").c_str(), 0600), 0);
  const std::string nul("w.bin\0x", 7);
  for (const std::string& location : {std::string("../outside.bin"),
                                      std::string("../../etc/passwd"),
                                      std::string("/etc/passwd"),
                                      std::string("a/../../outside.bin"),
                                      std::string("sub/../../outside.bin"),
                                      std::string(".."),
                                      std::string("."),
                                      std::string(""),
                                      std::string("C:\\x"),
                                      std::string("c:/x"),
                                      std::string("\\\\host\\x"),
                                      std::string("..\\outside.bin"),
                                      std::string("link.bin"),
                                      std::string("up/outside.bin"),
                                      std::string("loop"),
                                      std::string("hard.bin"),
                                      std::string("pipe"),
                                      std::string("sub"),
                                      std::string("missing.bin"),
                                      (root_ / "outside.bin").string(),
                                      nul,
                                      std::string("~/w.bin"),
                                      std::string("file:///etc/passwd")}) {
    EXPECT_THAT(FailureOf(Load(Model(location))), HasSubstr("m.onnx: initializer 'w'")) << location;
  }
  ImportOptions trusting;
  trusting.allow_hard_links = true;
  EXPECT_THAT(Weights(Load(Model("hard.bin"), trusting)), ElementsAre(1, 2));
}

TEST_F(ExternalDataTest, LinksThatStayInsideAreFollowed) {
  fs::create_symlink("sub/w.bin", root_ / "model/inner.bin");
  EXPECT_THAT(Weights(Load(Model("inner.bin"))), ElementsAre(1, 2));
  // A cache of files under their digest: the model and its data are links into the same folder.
  fs::create_directories(root_ / "snapshot");
  ASSERT_TRUE(Load(Model("w.bin")).ok());
  fs::create_symlink(root_ / "model/m.onnx", root_ / "snapshot/m.onnx");
  fs::create_symlink(root_ / "model/w.bin", root_ / "snapshot/w.bin");
  EXPECT_THAT(Weights(ImportOnnx(root_ / "snapshot/m.onnx")), ElementsAre(1, 2));
}

TEST_F(ExternalDataTest, S03RefusesWrongRanges) {
  for (const auto& [offset, length] : std::vector<std::pair<std::string, std::string>>{{"12", ""},
                                                                                       {"16", ""},
                                                                                       {"17", ""},
                                                                                       {"9", "8"},
                                                                                       {"-1", ""},
                                                                                       {"-8", "8"},
                                                                                       {"0", "-1"},
                                                                                       {"0", "9"},
                                                                                       {"0", "4"},
                                                                                       {"0", "16"},
                                                                                       {"18446744073709551615", ""},
                                                                                       {"18446744073709551608", "8"},
                                                                                       {"99999999999999999999", ""},
                                                                                       {"1e1", ""},
                                                                                       {"0x0", ""},
                                                                                       {" 0", ""},
                                                                                       {"0", "8 "}}) {
    FailureOf(Load(Model("w.bin", offset, length)));
  }
}

TEST_F(ExternalDataTest, G14BytesInMemoryNeedABaseDirectory) {
  const std::string bytes = Model("w.bin").SerializeAsString();
  EXPECT_THAT(FailureOf(ImportOnnxBytes(bytes, "")), HasSubstr("external data needs a base directory"));
  EXPECT_THAT(Weights(ImportOnnxBytes(bytes, root_ / "model")), ElementsAre(1, 2));
}

TEST_F(ExternalDataTest, MissingAndForeignModels) {
  EXPECT_THAT(FailureOf(ImportOnnx(root_ / "none.onnx")), HasSubstr("none.onnx"));
  EXPECT_THAT(FailureOf(ImportOnnx(root_ / "model")), HasSubstr("not a regular file"));
  const auto with = [&](const std::string& text) {
    std::ofstream(root_ / "x.onnx", std::ios::binary) << text;
    return FailureOf(ImportOnnx(root_ / "x.onnx"));
  };
  EXPECT_THAT(with(""), HasSubstr("is empty"));
  EXPECT_THAT(with("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS"));
  EXPECT_THAT(with("GGUF...."), HasSubstr("GGUF"));
  EXPECT_THAT(with("hello world, this is no model"), HasSubstr("not"));
}

}  // namespace
}  // namespace tenon::import
