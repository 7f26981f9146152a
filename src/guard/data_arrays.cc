// Samples in arrays: .npz files, folders of .npy files, single .npy files.
#include <algorithm>
#include <map>

#include "base/mapped_file.h"
#include "guard/source.h"
#include "media/npz.h"

namespace tenon::guard {
namespace {

namespace fs = std::filesystem;
using media::NpyArray;
using media::NpyHeader;

// Arrays by name, wherever they lie.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  virtual const std::map<std::string, NpyHeader>& arrays() const = 0;
  virtual Result<NpyArray> Read(const std::string& name) = 0;
  virtual Result<NpyArray> ReadRows(const std::string& name, int64_t begin, int64_t end) = 0;
};

class NpzArrays final : public ArrayFile {
 public:
  explicit NpzArrays(std::unique_ptr<media::NpzFile> file) : file_(std::move(file)) {}
  const std::map<std::string, NpyHeader>& arrays() const override { return file_->arrays(); }
  Result<NpyArray> Read(const std::string& name) override { return file_->Read(name); }
  Result<NpyArray> ReadRows(const std::string& name, int64_t begin, int64_t end) override {
    return file_->ReadRows(name, begin, end);
  }

 private:
  std::unique_ptr<media::NpzFile> file_;
};

class NpyArrays final : public ArrayFile {
 public:
  Status Add(const std::string& name, const std::string& path) {
    TENON_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
    auto header = media::ParseNpyHeader({file->data(), static_cast<size_t>(file->size())});
    if (!header.ok()) return std::move(header).TakeStatus().Within(fmt::format("'{}'", path));
    headers_.emplace(name, *header);
    files_.emplace(name, File{path, std::move(file)});
    return Status::Ok();
  }
  const std::map<std::string, NpyHeader>& arrays() const override { return headers_; }
  Result<NpyArray> Read(const std::string& name) override { return media::ReadNpy(files_.at(name).path); }
  Result<NpyArray> ReadRows(const std::string& name, int64_t begin, int64_t end) override {
    const NpyHeader& h = headers_.at(name);
    const File& file = files_.at(name);
    if (h.fortran && h.shape.rank() > 1) return Unsupported("'{}': a batch in column-major order is not parted", file.path);
    const auto row = static_cast<uint64_t>(h.shape.Product(1, h.shape.rank())) * h.element_bytes;
    const uint64_t have = file.mapped->size() - h.data_offset;
    if (row > 0 && static_cast<uint64_t>(end) > have / row) return BadInput("'{}': cut off inside row {}", file.path, have / row);
    Shape shape = h.shape;
    shape[0] = end - begin;
    const auto* data = reinterpret_cast<const char*>(file.mapped->data()) + h.data_offset + static_cast<uint64_t>(begin) * row;
    return media::DecodeNpy(h, shape, data, static_cast<uint64_t>(end - begin) * row);
  }

 private:
  struct File {
    std::string path;
    std::shared_ptr<MappedFile> mapped;
  };
  std::map<std::string, NpyHeader> headers_;
  std::map<std::string, File> files_;
};

Result<std::unique_ptr<ArrayFile>> OpenFile(const std::string& path, const Interface& model) {
  std::error_code error;
  auto arrays = std::make_unique<NpyArrays>();
  if (fs::is_directory(path, error)) {
    TENON_ASSIGN_OR_RETURN(const auto paths, List(path));
    for (const fs::path& p : paths) {
      if (p.extension() == ".npy") TENON_RETURN_IF_ERROR(arrays->Add(p.stem().string(), p.string()));
    }
    return {std::move(arrays)};
  }
  if (path.ends_with(".npy")) {
    TENON_RETURN_IF_ERROR(arrays->Add(model.inputs[0].name, path));
    return {std::move(arrays)};
  }
  TENON_ASSIGN_OR_RETURN(auto npz, media::NpzFile::Open(path));
  return {std::make_unique<NpzArrays>(std::move(npz))};
}

// How one input is cut out of its array.
struct Cut {
  std::string array;
  bool add_axis = false;   // the array holds one sample without the batch axis
  int64_t rows = 0;        // rows of the array in a run; 0: all
};

// A file and the runs that its samples make.
struct Block {
  std::string path;
  std::vector<Cut> cuts;       // one an input
  std::string labels;          // array; empty: none
  bool part_labels = false;
  int64_t runs = 1;
  int64_t rows = 1;            // samples of a run
};

// Words in the names of symbols that are no batch although inputs and outputs begin with them.
bool LooksLikeLength(std::string symbol) {
  std::transform(symbol.begin(), symbol.end(), symbol.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* word : {"seq", "time", "len", "frame", "step", "height", "width", "point", "token", "audio", "sample"}) {
    if (symbol.find(word) != std::string::npos) return true;
  }
  return false;
}

class BlockPlanner {
 public:
  BlockPlanner(const ArrayFile& file, const Interface& model, const DataOptions& options)
      : arrays_(file.arrays()), model_(model), options_(options) {}

  Result<Block> Plan(const std::string& path) {
    Block block;
    block.path = path;
    const auto& inputs = model_.inputs;
    for (const TensorInfo& info : inputs) {
      TENON_ASSIGN_OR_RETURN(Cut cut, FindArray(info));
      block.cuts.push_back(std::move(cut));
    }
    for (const char* name : {kLabels, kLabel}) {
      if (block.labels.empty() && arrays_.contains(name)) block.labels = name;
    }
    TENON_RETURN_IF_ERROR(FixedBatch(&block));
    if (block.runs == 1 && options_.batches == Batches::kAuto) SymbolBatch(&block);
    if (block.runs == 1) block.rows = WholeRows(block);
    TENON_RETURN_IF_ERROR(PartLabels(&block));
    if (block.runs == 0) return BadInput("holds no samples");
    for (size_t i = 0; i < inputs.size(); ++i) {
      Status fits = CheckShape(RunShape(block.cuts[i]), inputs[i]);
      TENON_RETURN_IF_ERROR(std::move(fits).Within(fmt::format("array '{}'", block.cuts[i].array)));
    }
    return block;
  }

 private:
  const Shape& ShapeOf(const Cut& cut) const { return arrays_.at(cut.array).shape; }

  Result<Cut> FindArray(const TensorInfo& info) const {
    if (info.is_sequence) return Unsupported("input '{}' is a sequence; data sets hold arrays", info.name);
    Cut cut;
    cut.array = arrays_.contains(info.name) ? info.name : FileNameOf(info.name);
    if (!arrays_.contains(cut.array)) {
      std::string have;
      for (const auto& [name, header] : arrays_) have += (have.empty() ? "'" : ", '") + name + "'";
      return BadInput("holds no array '{}', which the model takes; it holds {}", info.name, have.empty() ? "none" : have);
    }
    const Shape& shape = ShapeOf(cut);
    if (info.has_rank && static_cast<size_t>(shape.rank()) + 1 == info.dims.size() && shape.rank() < kMaxRank) {
      const auto lead = FixedExtent(info.dims[0]);
      cut.add_axis = !lead || *lead == 1;
    }
    return cut;
  }

  // A model of fixed batch size: arrays with a multiple of it are parted.
  Status FixedBatch(Block* block) {
    const auto& inputs = model_.inputs;
    int64_t runs = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Cut& cut = block->cuts[i];
      if (!inputs[i].has_rank || cut.add_axis || ShapeOf(cut).rank() == 0 || inputs[i].dims.empty()) continue;
      const auto lead = FixedExtent(inputs[i].dims[0]);
      const int64_t have = ShapeOf(cut)[0];
      if (!lead || *lead < 1 || have == *lead) continue;
      if (have % *lead != 0 || (runs != 0 && have / *lead != runs)) {
        return BadInput("array '{}': shape {}; the model takes {}, so the first extent must be a multiple of {}", cut.array,
                        ShapeOf(cut).ToString(), DimsText(inputs[i]), *lead);
      }
      runs = have / *lead;
      block->rows = *lead;
    }
    if (runs == 0) return Status::Ok();
    block->runs = runs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Cut& cut = block->cuts[i];
      if (cut.add_axis || ShapeOf(cut).rank() == 0 || ShapeOf(cut)[0] % runs != 0 || ShapeOf(cut)[0] < runs) continue;
      cut.rows = ShapeOf(cut)[0] / runs;
    }
    return Status::Ok();
  }

  // A symbol leads the inputs: a batch when the labels count as many, or when outputs begin with it too.
  void SymbolBatch(Block* block) {
    const std::string symbol = LeadingSymbol(*block);
    if (symbol.empty()) return;
    const int64_t n = LeadingExtent(*block, symbol);
    if (n < 0) return;
    bool batch = false;
    if (!block->labels.empty()) {
      const Shape& labels = arrays_.at(block->labels).shape;
      batch = labels.rank() >= 1 && labels[0] == n;
    } else {
      const auto& outputs = model_.outputs;
      batch = !LooksLikeLength(symbol) && std::any_of(outputs.begin(), outputs.end(), [&](const TensorInfo& info) {
        return !info.dims.empty() && info.dims[0] == symbol;
      });
    }
    if (!batch || n == 1) return;
    block->runs = n;
    for (size_t i = 0; i < block->cuts.size(); ++i) {
      const TensorInfo& info = model_.inputs[i];
      if (!info.dims.empty() && info.dims[0] == symbol) block->cuts[i].rows = 1;
    }
  }

  // The symbol that the first input with one begins with; empty when an array comes without its batch axis.
  std::string LeadingSymbol(const Block& block) const {
    std::string symbol;
    for (size_t i = 0; i < block.cuts.size(); ++i) {
      const TensorInfo& info = model_.inputs[i];
      if (!info.has_rank || info.dims.empty()) continue;
      if (block.cuts[i].add_axis) return "";
      if (symbol.empty() && !FixedExtent(info.dims[0])) symbol = info.dims[0];
    }
    return symbol;
  }

  // -1: the arrays do not agree.
  int64_t LeadingExtent(const Block& block, const std::string& symbol) const {
    int64_t n = -1;
    for (size_t i = 0; i < block.cuts.size(); ++i) {
      const TensorInfo& info = model_.inputs[i];
      const Shape& shape = ShapeOf(block.cuts[i]);
      if (info.dims.empty() || info.dims[0] != symbol || shape.rank() == 0) continue;
      if (n >= 0 && shape[0] != n) return -1;
      n = shape[0];
    }
    return n;
  }

  // Samples in a file that is run as a whole.
  int64_t WholeRows(const Block& block) const {
    const std::string symbol = LeadingSymbol(block);
    const int64_t n = symbol.empty() ? -1 : LeadingExtent(block, symbol);
    if (!block.labels.empty()) {
      const Shape& labels = arrays_.at(block.labels).shape;
      if (labels.rank() >= 1 && labels[0] >= 1 && labels[0] == n) return n;
    }
    return block.rows;
  }

  Status PartLabels(Block* block) const {
    if (block->labels.empty()) return Status::Ok();
    const Shape& labels = arrays_.at(block->labels).shape;
    const int64_t want = block->runs * block->rows;
    block->part_labels = labels.rank() >= 1 && labels[0] == want && block->runs > 1;
    if (block->runs > 1 && !block->part_labels)
      return BadInput("'{}' has shape {}; its first extent must be that of the data, {}", block->labels, labels.ToString(), want);
    return Status::Ok();
  }

  Shape RunShape(const Cut& cut) const {
    Shape shape = ShapeOf(cut);
    if (cut.rows > 0) shape[0] = cut.rows;
    if (!cut.add_axis) return shape;
    Shape wider = {1};
    for (int64_t d : shape) wider.push_back(d);
    return wider;
  }

  const std::map<std::string, NpyHeader>& arrays_;
  const Interface& model_;
  const DataOptions& options_;
};

class ArrayData final : public DataSet {
 public:
  ArrayData(std::string path, Interface model) : path_(std::move(path)), model_(std::move(model)) {}

  Status Init(const std::vector<std::string>& paths, const DataOptions& options) {
    for (const std::string& path : paths) {
      TENON_ASSIGN_OR_RETURN(const auto file, OpenFile(path, model_));
      auto block = BlockPlanner(*file, model_, options).Plan(path);
      if (!block.ok()) return std::move(block).TakeStatus().Within(fmt::format("'{}'", path));
      labelled_ += block->labels.empty() ? 0 : 1;
      parted_ += block->runs > 1 ? 1 : 0;
      first_.push_back(size_);
      size_ += static_cast<size_t>(block->runs);
      blocks_.push_back(std::move(*block));
    }
    if (labelled_ != 0 && labelled_ != blocks_.size()) {
      for (const Block& b : blocks_) {
        if (b.labels.empty()) return BadInput("'{}'; holds no '{}' although other files do", b.path, kLabels);
      }
    }
    return Status::Ok();
  }

  size_t size() const override { return size_; }
  bool has_labels() const override { return labelled_ > 0; }

  Result<Sample> Load(size_t i) override {
    CHECK(i < size_);
    const size_t b = static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), i) - first_.begin()) - 1;
    const Block& block = blocks_[b];
    if (open_ == nullptr || open_block_ != b) {
      TENON_ASSIGN_OR_RETURN(open_, OpenFile(block.path, model_));
      open_block_ = b;
      // It may have been replaced since it was looked at.
      auto again = BlockPlanner(*open_, model_, {}).Plan(block.path);
      const auto same = [&](const Block& now) { return now.cuts.size() == block.cuts.size() && now.labels == block.labels; };
      if (!again.ok() || !same(*again)) {
        open_ = nullptr;
        return BadInput("'{}'; it changed while it was in use", block.path);
      }
    }
    const auto run = static_cast<int64_t>(i - first_[b]);
    auto sample = LoadRun(block, run);
    const std::string where = block.runs > 1 ? fmt::format("'{}', row {}", block.path, run * block.rows) : "'" + block.path + "'";
    if (!sample.ok()) return std::move(sample).TakeStatus().Within(where);
    sample->where = where;
    return sample;
  }

  std::string Describe() const override {
    const bool npz = !blocks_.empty() && blocks_[0].path.ends_with(".npz");
    return fmt::format("{} samples, {}{} {} of '{}'{}", size_, parted_ > 0 ? "rows of " : "", blocks_.size(),
                       npz ? ".npz files" : "sets of .npy arrays", path_, has_labels() ? ", labelled" : "");
  }

 private:
  Result<NpyArray> ReadArray(const std::string& name, int64_t run, int64_t rows) {
    const auto it = open_->arrays().find(name);
    if (it == open_->arrays().end()) return BadInput("array '{}' is gone", name);
    if (rows == 0) return open_->Read(name);
    if (it->second.shape.rank() < 1 || (run + 1) * rows > it->second.shape[0]) return BadInput("array '{}' changed", name);
    return open_->ReadRows(name, run * rows, (run + 1) * rows);
  }

  Result<Sample> LoadRun(const Block& block, int64_t run) {
    Sample sample;
    sample.rows = block.rows;
    for (size_t i = 0; i < model_.inputs.size(); ++i) {
      const Cut& cut = block.cuts[i];
      TENON_ASSIGN_OR_RETURN(const NpyArray array, ReadArray(cut.array, run, cut.rows));
      auto tensor = ToType(array, model_.inputs[i].dtype);
      if (!tensor.ok()) return std::move(tensor).TakeStatus().Within(fmt::format("array '{}'", cut.array));
      if (cut.add_axis) {
        Shape wider = {1};
        for (int64_t d : tensor->shape()) wider.push_back(d);
        *tensor = tensor->Reshaped(wider);
      }
      sample.inputs.push_back(ToHost(model_.inputs[i].name, *tensor));
    }
    if (!block.labels.empty()) {
      TENON_ASSIGN_OR_RETURN(const NpyArray array, ReadArray(block.labels, run, block.part_labels ? block.rows : 0));
      sample.labels = array.tensor;
      if (sample.labels.shape().rank() == 0) sample.labels = sample.labels.Reshaped({1});
    }
    return sample;
  }

  std::string path_;
  Interface model_;
  std::vector<Block> blocks_;
  std::vector<size_t> first_;   // per block: its first sample
  size_t size_ = 0;
  size_t labelled_ = 0;
  size_t parted_ = 0;
  std::unique_ptr<ArrayFile> open_;
  size_t open_block_ = 0;
};

}  // namespace

Result<std::unique_ptr<DataSet>> OpenArrays(const std::string& path, const std::vector<std::string>& blocks,
                                            const Interface& model, const DataOptions& options) {
  auto data = std::make_unique<ArrayData>(path, model);
  TENON_RETURN_IF_ERROR(data->Init(blocks, options));
  if (data->size() == 0) return BadInput("'{}'; holds no samples", path);
  return {std::move(data)};
}

}  // namespace tenon::guard
