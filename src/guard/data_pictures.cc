// Samples that are pictures.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/mapped_file.h"
#include "guard/source.h"
#include "media/preprocess.h"

namespace tenon::guard {

namespace fs = std::filesystem;

namespace {

// Without a file of steps: resized to the extents that the model fixes, levels scaled to 0..1 for floats.
Result<media::Preprocess> StepsOf(const DataOptions& options, const TensorInfo& info) {
  if (!options.preprocess.empty()) return media::ReadPreprocess(options.preprocess);
  media::Preprocess p;
  p.channels_last = info.dims[3] == "3" && info.dims[1] != "3";
  p.resize_height = static_cast<int>(FixedExtent(info.dims[p.channels_last ? 1 : 2]).value_or(0));
  p.resize_width = static_cast<int>(FixedExtent(info.dims[p.channels_last ? 2 : 3]).value_or(0));
  if (IsFloat(info.dtype)) p.scale = 1.0 / 255;
  return p;
}

std::optional<int64_t> Integer(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// Pictures of a folder, each with its label; those of inner folders are labelled by the order of the folders' names.
struct Listing {
  std::vector<std::string> files;
  std::vector<std::string> labels;
};

// Names may hold spaces where a tab or a comma parts them from the label.
size_t LabelCut(const std::string& line) {
  for (const char c : {'\t', ',', ' '}) {
    if (const size_t cut = line.find(c); cut != std::string::npos) return cut;
  }
  return std::string::npos;
}

Status ReadLabels(const std::string& path, Listing* listing) {
  constexpr uint64_t kMaxBytes = uint64_t{256} << 20;
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  std::map<std::string, std::string> labels;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const size_t cut = LabelCut(line);
    if (cut == std::string::npos)
      return BadInput("'{}', line {}: allowed: a picture's name, a tab, comma or space, its label", path, number);
    labels[line.substr(0, cut)] = line.substr(cut + 1);
  }
  for (const std::string& file : listing->files) {
    const auto it = labels.find(fs::path(file).filename().string());
    if (it == labels.end()) return BadInput("'{}'; has no label for '{}'", path, fs::path(file).filename().string());
    listing->labels.push_back(it->second);
  }
  return Status::Ok();
}

Status ListClasses(const std::vector<fs::path>& folders, Listing* listing) {
  int label = 0;
  std::error_code error;
  for (const fs::path& p : folders) {
    if (!fs::is_directory(p, error)) continue;
    TENON_ASSIGN_OR_RETURN(const auto inner, List(p.string()));
    for (const fs::path& file : inner) {
      if (!IsPicture(file)) continue;
      listing->files.push_back(file.string());
      listing->labels.push_back(std::to_string(label));
    }
    ++label;
  }
  return Status::Ok();
}

Result<Listing> ListPictures(const std::string& path) {
  Listing listing;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    listing.files.push_back(path);
    return listing;
  }
  TENON_ASSIGN_OR_RETURN(const auto paths, List(path));
  for (const fs::path& p : paths) {
    if (IsPicture(p)) listing.files.push_back(p.string());
  }
  if (listing.files.empty()) {
    TENON_RETURN_IF_ERROR(ListClasses(paths, &listing));
    return listing;
  }
  for (const char* name : {"labels.txt", "labels.csv", "labels.tsv"}) {
    const fs::path labels = fs::path(path) / name;
    if (!fs::exists(labels, error)) continue;
    TENON_RETURN_IF_ERROR(ReadLabels(labels.string(), &listing));
    break;
  }
  return listing;
}

class PictureData final : public DataSet {
 public:
  PictureData(std::string path, std::vector<std::string> files, std::vector<std::string> labels, TensorInfo input,
              media::Preprocess steps)
      : path_(std::move(path)), files_(std::move(files)), labels_(std::move(labels)), input_(std::move(input)), steps_(steps) {
    integers_ = std::all_of(labels_.begin(), labels_.end(), [](const std::string& l) { return Integer(l).has_value(); });
  }
  size_t size() const override { return files_.size(); }
  bool has_labels() const override { return !labels_.empty(); }

  Result<Sample> Load(size_t i) override {
    Sample sample;
    sample.where = "'" + files_[i] + "'";
    TENON_ASSIGN_OR_RETURN(const Picture picture, ReadPicture(files_[i]));
    auto tensor = media::Prepare(picture, steps_, input_.dtype);
    if (!tensor.ok()) return std::move(tensor).TakeStatus().Within(sample.where);
    TENON_RETURN_IF_ERROR(CheckShape(tensor->shape(), input_).Within(sample.where));
    sample.inputs.push_back(ToHost(input_.name, *tensor));
    if (!labels_.empty()) {
      sample.labels =
          integers_ ? Tensor::FromVector<int64_t>({1}, {*Integer(labels_[i])}) : Tensor::FromStrings({1}, {labels_[i]});
    }
    return sample;
  }

  std::string Describe() const override {
    return fmt::format("{} samples, pictures of '{}'{}", files_.size(), path_, has_labels() ? ", labelled" : "");
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
  std::vector<std::string> labels_;
  TensorInfo input_;
  media::Preprocess steps_;
  bool integers_ = false;
};

}  // namespace

bool IsPicture(const fs::path& path) {
  constexpr std::array kKnown = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2"};
  return std::find(kKnown.begin(), kKnown.end(), Extension(path)) != kKnown.end();
}

Result<std::unique_ptr<DataSet>> OpenPictures(const std::string& path, const Interface& model, const DataOptions& options) {
  if (model.inputs.size() != 1 || (model.inputs[0].has_rank && model.inputs[0].dims.size() != 4)) {
    return BadInput("'{}'; pictures are for models with one input of rank 4; allowed here: .npz, .npy, .jsonl", path);
  }
  if (!model.inputs[0].has_rank && options.preprocess.empty())
    return BadInput("'{}'; the model does not say what it takes; --preprocess FILE says how pictures are prepared", path);
  TENON_ASSIGN_OR_RETURN(const media::Preprocess steps, StepsOf(options, model.inputs[0]));
  TENON_ASSIGN_OR_RETURN(Listing listing, ListPictures(path));
  return {std::make_unique<PictureData>(path, std::move(listing.files), std::move(listing.labels), model.inputs[0], steps)};
}

}  // namespace tenon::guard
