// What the readers of data sets share: names of inputs, types, labels.
#ifndef TENON_GUARD_SOURCE_H_
#define TENON_GUARD_SOURCE_H_

#include <filesystem>
#include <string>
#include <vector>

#include "base/dim_value.h"
#include "guard/data.h"
#include "media/npy.h"
#include "runtime/host_tensor.h"

namespace tenon::guard {

/// What a model takes and gives.
struct Interface {
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
};

inline constexpr const char* kLabels = "labels";
inline constexpr const char* kLabel = "label";

/// `name` as `tenon run --output` writes it: characters that a file name cannot hold become '_'.
std::string FileNameOf(const std::string& name);

/// "[batch, 3, 224, 224]".
std::string DimsText(const TensorInfo& info);

/// `array` as a tensor of type `want`: the same, another width of the same kind (values that do not fit are refused), or raw
/// elements of the same size.
Result<Tensor> ToType(const media::NpyArray& array, DType want);

/// kBadInput unless `shape` fits what `info` declares.
Status CheckShape(const Shape& shape, const TensorInfo& info);

using runtime::ToHost;

/// Paths below `folder` in order of their names, files or folders. kBadInput when it cannot be read.
Result<std::vector<std::filesystem::path>> List(const std::string& folder);

// One file of each kind: data_<kind>.cc. `path` is what the user gave.
/// `blocks`: .npz files, .npy files (models with one input), or folders with an .npy for each input.
Result<std::unique_ptr<DataSet>> OpenArrays(const std::string& path, const std::vector<std::string>& blocks,
                                            const Interface& model, const DataOptions& options);
/// `files`: .jsonl.
Result<std::unique_ptr<DataSet>> OpenJsonLines(const std::string& path, const std::vector<std::string>& files,
                                               const Interface& model);
/// A picture, or a folder of them. Labels stand in `labels.txt` (or .csv, .tsv) in it, a line each: name, then a tab, comma or
/// space, then the label; or pictures lie in one folder a class, whose place in the order of names is the label.
Result<std::unique_ptr<DataSet>> OpenPictures(const std::string& path, const Interface& model, const DataOptions& options);
bool IsPicture(const std::filesystem::path& path);
/// `path`'s extension in lower case.
std::string Extension(const std::filesystem::path& path);

}  // namespace tenon::guard

#endif  // TENON_GUARD_SOURCE_H_
