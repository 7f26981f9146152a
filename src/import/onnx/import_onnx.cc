// ImportOnnx and ImportOnnxBytes: file or bytes to a finished graph.
#include <onnx/onnx_pb.h>

#include <filesystem>

#include "import/import.h"
#include "import/onnx/graph_reader.h"
#include "import/onnx/load.h"

namespace tenon::import {

namespace {

namespace fs = std::filesystem;
using onnx_format::ExternalData;
using onnx_format::GraphReader;
using onnx_format::TensorReader;

// Operators of a graph do not say which opset they came from; messages should.
std::string OpsetsText(const std::map<std::string, int64_t>& opsets) {
  std::string text;
  for (const auto& [domain, version] : opsets) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : domain, version);
  }
  return text;
}

Result<ir::Graph> Read(onnx::ModelProto* model, std::vector<std::string> directories, const ImportOptions& options,
                       ImportReport* report) {
  ImportReport unread;
  if (report == nullptr) report = &unread;
  *report = ImportReport();
  TensorReader tensors(ExternalData(std::move(directories), options.allow_hard_links), options.max_expanded_bytes);
  GraphReader reader(model, std::move(tensors), options, report);
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, reader.Read());
  graph.metadata["onnx.opset_import"] = OpsetsText(report->opsets);
  return graph;
}

}  // namespace

Result<ir::Graph> ImportOnnxBytes(std::string_view bytes, const std::string& base_dir, const ImportOptions& options,
                                  ImportReport* report) {
  onnx::ModelProto model;
  TENON_RETURN_IF_ERROR(onnx_format::ParseModel(bytes, &model));
  std::vector<std::string> directories;
  if (!base_dir.empty()) directories.push_back(base_dir);
  return Read(&model, std::move(directories), options, report);
}

Result<ir::Graph> ImportOnnx(const std::string& path, const ImportOptions& options, ImportReport* report) {
  onnx::ModelProto model;
  {
    TENON_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path, true, true));
    const std::string_view bytes(reinterpret_cast<const char*>(file->data()), file->size());
    TENON_RETURN_IF_ERROR(onnx_format::ParseModel(bytes, &model, [&](size_t n) { ReleasePages(file->data(), n); }).Within(path));
  }  // the parsed model holds all bytes: the file's pages are given back before anything else is allocated
  const auto directory_of = [](const fs::path& file) { return file.has_parent_path() ? file.parent_path().string() : "."; };
  std::error_code error;
  std::vector<std::string> directories{directory_of(path)};
  const fs::path real = fs::canonical(path, error);
  if (!error) directories.push_back(directory_of(real));
  auto graph = Read(&model, std::move(directories), options, report);
  if (!graph.ok()) return std::move(graph).TakeStatus().Within(path);
  return graph;
}

}  // namespace tenon::import
