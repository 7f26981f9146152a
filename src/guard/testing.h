// Helpers of this folder's tests: models from text, files of arrays.
#ifndef TENON_GUARD_TESTING_H_
#define TENON_GUARD_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <filesystem>
#include <fstream>

#include "compile/lower.h"
#include "guard/source.h"
#include "ir/text.h"
#include "media/npy.h"
#include "ops/op.h"
#include "runtime/open.h"

namespace tenon::guard::testing {

/// The value; the test fails with the message when there is none.
template <typename T>
T Get(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}

inline artifact::Program ProgramOf(const std::string& text) {
  ir::Graph graph = Get(ir::Parse(text));
  const Status inferred = ops::InferGraph(graph);
  EXPECT_TRUE(inferred.ok()) << inferred.message();
  return Get(compile::Lower(graph));
}

inline std::unique_ptr<Session> SessionOf(artifact::Program program) {
  artifact::Artifact artifact;
  artifact.program = std::move(program);
  return Get(runtime::OpenArtifact(std::move(artifact), {}));
}

inline std::unique_ptr<Session> SessionOf(const std::string& text) {
  return SessionOf(ProgramOf(text));
}

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string path = ::testing::TempDir() + "guard-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string NpyBytes(const Tensor& tensor) {
  const Folder folder;
  const Status status = media::WriteNpy(folder / "a.npy", tensor.view());
  EXPECT_TRUE(status.ok()) << status.message();
  std::ifstream file(folder / "a.npy", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Entries as they are, ".npy" included in their names.
inline void WriteZip(const std::string& path, const std::vector<std::pair<std::string, std::string>>& entries, bool deflated) {
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, bytes] : entries) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_OVERWRITE);
    ASSERT_GE(index, 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

inline void WriteNpz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays, bool deflated = false) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, tensor] : arrays) entries.emplace_back(name + ".npy", NpyBytes(tensor));
  WriteZip(path, entries, deflated);
}

inline Tensor Floats(const Shape& shape, std::vector<float> values) {
  return Tensor::FromVector<float>(shape, values);
}
inline Tensor Counting(const Shape& shape, float scale = 1) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.num_elements(); ++i) values.push_back(scale * static_cast<float>(i));
  return Floats(shape, values);
}

}  // namespace tenon::guard::testing

#endif  // TENON_GUARD_TESTING_H_
