// TfIdfVectorizer.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "kernels/strings/internal.h"

namespace tenon::kernels::strings {
namespace {

// Appends an item to the key of an n-gram; no two lists of items share a key.
void Append(int64_t item, std::string* key) {
  key->append(reinterpret_cast<const char*>(&item), sizeof(item));
}
void Append(const std::string& item, std::string* key) {
  Append(static_cast<int64_t>(item.size()), key);
  key->append(item);
}

// Largest column of the output that an attribute may ask for.
constexpr int64_t kMaxColumn = int64_t{1} << 26;

struct Params {
  int64_t min_length = 1;
  int64_t max_length = 1;
  int64_t max_skip = 0;
  bool use_counts = true;
  std::vector<float> weights;  // by n-gram; empty: all 1
  std::vector<int64_t> columns;
  int64_t width = 0;
};

Result<Params> Parse(const Attrs& attrs) {
  Params p;
  p.min_length = attrs.Int("min_gram_length", 0);
  p.max_length = attrs.Int("max_gram_length", 0);
  p.max_skip = attrs.Int("max_skip_count", 0);
  if (p.min_length < 1 || p.max_length < p.min_length || p.max_skip < 0) {
    return BadInput(
        "TfIdfVectorizer: min_gram_length {}, max_gram_length {}, max_skip_count {}; allowed are 1 <= min <= max, skip >= 0",
        p.min_length, p.max_length, p.max_skip);
  }
  const std::string mode = attrs.String("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    return BadInput("TfIdfVectorizer: mode '{}'; allowed are TF, IDF and TFIDF", mode);
  }
  p.use_counts = mode != "IDF";
  if (mode != "TF") p.weights = attrs.Floats("weights");
  p.columns = attrs.Ints("ngram_indexes");
  if (!p.weights.empty() && p.weights.size() != p.columns.size()) {
    return BadInput("TfIdfVectorizer: {} weights for {} n-grams", p.weights.size(), p.columns.size());
  }
  for (int64_t c : p.columns) {
    if (c < 0 || c > kMaxColumn) return BadInput("TfIdfVectorizer: n-gram index {} is outside [0, {}]", c, kMaxColumn);
    p.width = std::max(p.width, c + 1);
  }
  if (p.width == 0) return BadInput("TfIdfVectorizer: ngram_indexes is empty");
  return p;
}

// Keys of the pool's n-grams with their place in ngram_indexes. `items` is pool_int64s or pool_strings.
template <typename T>
Status AddPool(const std::vector<T>& items, const Attrs& attrs, const Params& p, std::unordered_map<std::string, size_t>* pool) {
  const std::vector<int64_t> starts = attrs.Ints("ngram_counts");
  const auto size = static_cast<int64_t>(items.size());
  size_t id = 0;
  for (size_t k = 0; k < starts.size(); ++k) {
    const auto n = static_cast<int64_t>(k) + 1;
    const int64_t end = k + 1 < starts.size() ? starts[k + 1] : size;
    if (starts[k] < 0 || end < starts[k] || end > size || (end - starts[k]) % n != 0) {
      return BadInput("TfIdfVectorizer: ngram_counts gives {} to {} of {} pool items to the {}-grams", starts[k], end, size, n);
    }
    for (int64_t at = starts[k]; at < end; at += n, ++id) {
      std::string key;
      for (int64_t i = 0; i < n; ++i) Append(items[static_cast<size_t>(at + i)], &key);
      if (n >= p.min_length && n <= p.max_length) pool->emplace(std::move(key), id);
    }
  }
  if (id != p.columns.size()) return BadInput("TfIdfVectorizer: {} n-grams in the pool, {} n-gram indexes", id, p.columns.size());
  return Status::Ok();
}

class TfIdfKernel final : public Kernel {
 public:
  TfIdfKernel(Params params, std::unordered_map<std::string, size_t> pool) : p_(std::move(params)), pool_(std::move(pool)) {}

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int rank = x.shape.rank();
    if (rank != 1 && rank != 2)
      return BadInput("TfIdfVectorizer: input of shape {}; allowed are [c] and [b, c]", x.shape.ToString());
    const int64_t rows = rank == 2 ? x.shape[0] : 1;
    const int64_t cols = x.shape[rank - 1];
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, rank == 2 ? Shape({rows, p_.width}) : Shape({p_.width})));
    auto* out = args.out[0].Data<float>();
    if (args.out[0].bytes() > 0) std::memset(out, 0, args.out[0].bytes());
    for (int64_t r = 0; r < rows; ++r) {
      if (x.dtype == DType::kString) {
        CountRow(x.Data<std::string>() + r * cols, cols, out + r * p_.width);
      } else if (x.dtype == DType::kI64) {
        CountRow(x.Data<int64_t>() + r * cols, cols, out + r * p_.width);
      } else if (x.dtype == DType::kI32) {
        CountRow(x.Data<int32_t>() + r * cols, cols, out + r * p_.width);
      } else {
        return BadInput("TfIdfVectorizer: input must be string, int32 or int64, not {}", DTypeName(x.dtype));
      }
    }
    return Status::Ok();
  }

 private:
  template <typename T>
  void CountRow(const T* items, int64_t cols, float* out) const {
    std::string key;
    for (int64_t n = p_.min_length; n <= std::min(p_.max_length, cols); ++n) {
      const int64_t most_skip = n == 1 ? 0 : std::min(p_.max_skip, cols);
      for (int64_t step = 1; step <= most_skip + 1 && (n - 1) * step < cols; ++step) {
        for (int64_t at = 0; at + (n - 1) * step < cols; ++at) {
          key.clear();
          for (int64_t i = 0; i < n; ++i) Append(items[at + i * step], &key);
          const auto found = pool_.find(key);
          if (found == pool_.end()) continue;
          const float weight = p_.weights.empty() ? 1.0f : p_.weights[found->second];
          float& cell = out[p_.columns[found->second]];
          cell = p_.use_counts ? cell + weight : weight;
        }
      }
    }
  }

  Params p_;
  std::unordered_map<std::string, size_t> pool_;
};

}  // namespace

Status InferTfIdfVectorizer(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Params p, Parse(args.attrs));
  const SymShape& x = args.in[0].shape;
  SymShape shape;
  if (x.has_rank()) {
    if (x.rank() != 1 && x.rank() != 2)
      return BadInput("TfIdfVectorizer: input of shape {}; allowed are [c] and [b, c]", x.ToString());
    shape = x;
    shape[x.rank() - 1] = Dim(p.width);
  }
  movement::SetTensor(&args.out[0], DType::kF32, std::move(shape));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeTfIdfVectorizer(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(Params p, Parse(problem.attrs));
  std::unordered_map<std::string, size_t> pool;
  if (problem.in[0].dtype == DType::kString) {
    TENON_RETURN_IF_ERROR(AddPool(problem.attrs.Strings("pool_strings"), problem.attrs, p, &pool));
  } else {
    TENON_RETURN_IF_ERROR(AddPool(problem.attrs.Ints("pool_int64s"), problem.attrs, p, &pool));
  }
  return std::unique_ptr<Kernel>(new TfIdfKernel(std::move(p), std::move(pool)));
}

}  // namespace tenon::kernels::strings
