#include "generate/decoder.h"

#include <algorithm>
#include <charconv>

#include "runtime/open.h"

namespace tenon::generate {
namespace {

constexpr int64_t kBlock = kernels::kKvBlockTokens;

Result<int64_t> Number(const std::map<std::string, std::string>& metadata, const char* key, int64_t most) {
  const auto it = metadata.find(key);
  int64_t n = 0;
  if (it != metadata.end()) {
    const std::string& text = it->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size()) n = 0;
  }
  if (n < 1 || n > most)
    return BadInput("the model's metadata has no '{}' from 1 to {}; it is no language model that generates", key, most);
  return n;
}

}  // namespace

Result<std::unique_ptr<Decoder>> Decoder::Create(Session& session, const DecoderOptions& options) {
  const auto& metadata = session.metadata();
  TENON_ASSIGN_OR_RETURN(const kernels::KvShape shape, runtime::KvShapeOf(metadata));
  TENON_ASSIGN_OR_RETURN(const int64_t context, Number(metadata, "tenon.context", int64_t{1} << 32));
  TENON_ASSIGN_OR_RETURN(const int64_t vocabulary, Number(metadata, "tenon.vocabulary", int64_t{1} << 24));
  if (session.inputs().size() != 1 || session.outputs().size() != 1) {
    return BadInput("the model has {} inputs and {} outputs; a language model has one of each", session.inputs().size(),
                    session.outputs().size());
  }
  if (options.max_tokens < 0 || options.chunk < 1) {
    return Usage("{} tokens in chunks of {}; at least 0 and 1 needed", options.max_tokens, options.chunk);
  }
  const int64_t most = options.max_tokens == 0 ? context : options.max_tokens;
  TENON_ASSIGN_OR_RETURN(auto pool, runtime::KvPool::Create(shape, (most + kBlock - 1) / kBlock));
  return std::unique_ptr<Decoder>(new Decoder(session, std::move(pool), most, options.chunk, vocabulary));
}

Decoder::Decoder(Session& session, std::unique_ptr<runtime::KvPool> pool, int64_t max_tokens, int64_t chunk, int64_t vocabulary)
    : session_(session),
      pool_(std::move(pool)),
      max_tokens_(max_tokens),
      chunk_(std::min(chunk, max_tokens)),
      vocabulary_(vocabulary),
      ids_(static_cast<size_t>(std::max(chunk_, kMostScored))),
      logits_(static_cast<size_t>(vocabulary)) {
  blocks_.reserve(static_cast<size_t>(pool_->blocks()));
  tokens_.reserve(static_cast<size_t>(pool_->blocks() * kBlock));
  pool_->Describe(&step_);
  input_.name = session.inputs()[0].name;
  input_.dtype = DType::kI64;
  input_.shape = {0};
  output_.shape.reserve(4);
}

Decoder::~Decoder() = default;

Status Decoder::Append(std::span<const int32_t> tokens, const RunOptions& options) {
  const auto n = static_cast<int64_t>(tokens.size());
  if (n == 0) return Usage("no tokens given; at least one is needed");
  if (n > max_tokens_ - length()) {
    return Usage("{} tokens after {}; the sequence has room for {}", n, length(), max_tokens_);
  }
  for (int64_t i = 0; i < n; i += chunk_) {
    const int64_t count = std::min(chunk_, n - i);
    const auto piece = tokens.subspan(static_cast<size_t>(i), static_cast<size_t>(count));
    TENON_RETURN_IF_ERROR(Step(piece, i + count == n ? 1 : 0, options));
  }
  return {};
}

Status Decoder::AppendScored(std::span<const int32_t> tokens, const RunOptions& options) {
  const auto n = static_cast<int64_t>(tokens.size());
  if (n == 0 || n > kMostScored) return Usage("{} tokens with scores of each; 1 to {} allowed", n, kMostScored);
  if (n > max_tokens_ - length()) return Usage("{} tokens after {}; the sequence has room for {}", n, length(), max_tokens_);
  if (std::ssize(logits_) < n * vocabulary_) logits_.resize(static_cast<size_t>(kMostScored * vocabulary_));
  return Step(tokens, n, options);
}

Status Decoder::Step(std::span<const int32_t> tokens, int64_t scored, const RunOptions& options) {
  const auto n = static_cast<int64_t>(tokens.size());
  while (static_cast<int64_t>(blocks_.size()) * kBlock < length() + n) {
    TENON_ASSIGN_OR_RETURN(const int32_t block, pool_->Take());
    blocks_.push_back(block);
  }
  std::copy(tokens.begin(), tokens.end(), ids_.begin());
  sequence_ = {0, n, length(), blocks_.data(), static_cast<int64_t>(blocks_.size())};
  step_.sequences = {&sequence_, 1};
  for (int64_t i = 0; i < scored; ++i) output_rows_[i] = static_cast<int32_t>(n - scored + i);
  step_.output_rows = {output_rows_, static_cast<size_t>(scored)};
  input_.shape[0] = n;
  input_.data = ids_.data(), input_.bytes = static_cast<size_t>(n) * sizeof(int64_t);
  output_.data = logits_.data(), output_.bytes = static_cast<size_t>(std::max<int64_t>(1, scored) * vocabulary_) * sizeof(float);
  runtime::BindKv(session_, &step_);
  Status status = session_.RunInto(&input_, 1, &output_, 1, options);
  runtime::BindKv(session_, nullptr);
  TENON_RETURN_IF_ERROR(std::move(status));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  scored_ = std::max<int64_t>(1, scored);
  return {};
}

void Decoder::Truncate(int64_t n) {
  tokens_.resize(static_cast<size_t>(std::clamp<int64_t>(n, 0, length())));
  while (static_cast<int64_t>(blocks_.size()) * kBlock >= length() + kBlock) {
    pool_->Release(blocks_.back());
    blocks_.pop_back();
  }
}

int64_t Decoder::Reuse(std::span<const int32_t> prompt) {
  const size_t most = std::min(tokens_.size(), prompt.empty() ? 0 : prompt.size() - 1);
  const auto shared = std::mismatch(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(most), prompt.begin()).first;
  Truncate(shared - tokens_.begin());
  return length();
}

}  // namespace tenon::generate
