#include "guard/data.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "guard/source.h"

namespace tenon::guard {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Strings(const std::vector<fs::path>& paths, const char* extension) {
  std::vector<std::string> out;
  for (const fs::path& p : paths) {
    if (Extension(p) == extension) out.push_back(p.string());
  }
  return out;
}

bool IsJsonLines(const fs::path& path) {
  const std::string extension = Extension(path);
  return extension == ".jsonl" || extension == ".ndjson";
}

bool HoldsPictures(const std::vector<fs::path>& paths) {
  std::error_code error;
  return std::any_of(paths.begin(), paths.end(), [&](const fs::path& p) {
    if (IsPicture(p)) return true;
    if (!fs::is_directory(p, error)) return false;
    const auto inner = List(p.string());
    return inner.ok() && std::any_of(inner->begin(), inner->end(), IsPicture);
  });
}

constexpr const char* kAllowed = "allowed: .npz, .npy, .jsonl, pictures";

Status NotData(const std::string& path) {
  if (Extension(path) == ".txt")
    return Unsupported("'{}'; text needs a tokenizer, which this version does not have; allowed here: its ids in .npz or .jsonl",
                       path);
  return BadInput("'{}'; holds no data that is known; {}", path, kAllowed);
}

bool HasArrayOfEachInput(const fs::path& folder, const Interface& model) {
  std::error_code error;
  return std::all_of(model.inputs.begin(), model.inputs.end(), [&](const TensorInfo& info) {
    return fs::is_regular_file(folder / (FileNameOf(info.name) + ".npy"), error);
  });
}

Result<std::unique_ptr<DataSet>> OpenFolder(const std::string& path, const Interface& model, const DataOptions& options) {
  TENON_ASSIGN_OR_RETURN(const auto paths, List(path));
  if (HasArrayOfEachInput(path, model)) return OpenArrays(path, {path}, model, options);
  const auto npz = Strings(paths, ".npz");
  if (!npz.empty()) return OpenArrays(path, npz, model, options);
  std::vector<std::string> folders;
  std::error_code error;
  for (const fs::path& p : paths) {
    if (fs::is_directory(p, error) && HasArrayOfEachInput(p, model)) folders.push_back(p.string());
  }
  if (!folders.empty()) return OpenArrays(path, folders, model, options);
  std::vector<std::string> lines;
  for (const fs::path& p : paths) {
    if (IsJsonLines(p)) lines.push_back(p.string());
  }
  if (!lines.empty()) return OpenJsonLines(path, lines, model);
  const auto npy = Strings(paths, ".npy");
  if (!npy.empty()) {
    if (model.inputs.size() == 1) return OpenArrays(path, npy, model, options);
    return BadInput("'{}'; a model with {} inputs needs an .npy file of each, as '{}.npy'", path, model.inputs.size(),
                    FileNameOf(model.inputs[0].name));
  }
  if (HoldsPictures(paths)) return OpenPictures(path, model, options);
  return NotData(path);
}

}  // namespace

std::string Extension(const fs::path& path) {
  std::string e = path.extension().string();
  std::transform(e.begin(), e.end(), e.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return e;
}

Result<std::unique_ptr<DataSet>> DataSet::Open(const std::string& path, const Session& session, const DataOptions& options) {
  const Interface model{session.inputs(), session.outputs()};
  if (model.inputs.empty()) return Usage("'{}'; the model takes no inputs, so no data", path);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return BadInput("'{}'; there is no such file or folder", path);
  if (fs::is_directory(status)) return OpenFolder(path, model, options);
  const std::string extension = Extension(path);
  if (extension == ".npz") return OpenArrays(path, {path}, model, options);
  if (extension == ".npy") {
    if (model.inputs.size() == 1) return OpenArrays(path, {path}, model, options);
    return BadInput("'{}'; one array is not enough for a model with {} inputs", path, model.inputs.size());
  }
  if (IsJsonLines(path)) return OpenJsonLines(path, {path}, model);
  if (IsPicture(path)) return OpenPictures(path, model, options);
  return NotData(path);
}

Result<Split> SplitSamples(size_t samples, double held_out, uint64_t seed) {
  if (!(held_out > 0 && held_out < 1)) return Usage("share of held-out data {}; allowed: between 0 and 1", held_out);
  if (samples < 2) return BadInput("{} sample; at least 2 are needed, one to decide by and one to judge by", samples);
  std::vector<size_t> order(samples);
  for (size_t i = 0; i < samples; ++i) order[i] = i;
  // Own shuffle: the standard one may differ between libraries, and the split must not.
  std::mt19937_64 random(seed);
  for (size_t i = samples - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
  const auto wish = static_cast<size_t>(std::llround(static_cast<double>(samples) * held_out));
  const auto cut = static_cast<std::ptrdiff_t>(samples - std::clamp<size_t>(wish, 1, samples - 1));
  Split split;
  split.deciding.assign(order.begin(), order.begin() + cut);
  split.held_out.assign(order.begin() + cut, order.end());
  std::sort(split.deciding.begin(), split.deciding.end());
  std::sort(split.held_out.begin(), split.held_out.end());
  return split;
}

}  // namespace tenon::guard
