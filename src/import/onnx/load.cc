#include "import/onnx/load.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <climits>

namespace tenon::import::onnx_format {

namespace {

// Sub-graphs nest three messages a level, so this allows about 33 levels.
constexpr int kMaxNesting = 100;

std::string GuessFormat(std::string_view bytes) {
  const auto starts = [&](std::string_view prefix) { return bytes.substr(0, prefix.size()) == prefix; };
  if (bytes.empty()) return "the file is empty";
  if (starts("version https://git-lfs")) return "this is a Git LFS pointer; fetch the real file with 'git lfs pull'";
  if (starts("GGUF")) return "this is a GGUF file";
  if (starts("PK\x03\x04")) return "this is a zip archive";
  if (starts("<")) return "this is an HTML or XML page";
  if (bytes.size() > 8 && bytes.substr(4, 4) == "ORTM") return "this is an ORT-format model; convert the ONNX file instead";
  return {};
}

// Finds where the framing of the model's own fields breaks: what a truncated file shows.
std::string FramingError(std::string_view bytes) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  for (;;) {
    const int at = in.CurrentPosition();
    const uint32_t tag = in.ReadTag();
    if (tag == 0) return at == static_cast<int>(bytes.size()) ? "" : fmt::format("no field begins at byte {}", at);
    const uint32_t field = tag >> 3;
    uint64_t n = 0;
    bool ok = true;
    switch (tag & 7) {
      case 0: ok = in.ReadVarint64(&n); break;
      case 1: ok = in.Skip(8); break;
      case 2:
        ok = in.ReadVarint64(&n);
        if (ok && n > bytes.size() - static_cast<size_t>(in.CurrentPosition())) {
          return fmt::format("truncated: field {} at byte {} needs {} bytes, {} are left", field, at, n,
                             bytes.size() - static_cast<size_t>(in.CurrentPosition()));
        }
        ok = ok && in.Skip(static_cast<int>(n));
        break;
      case 5: ok = in.Skip(4); break;
      default: return fmt::format("byte {} begins no field of a model", at);
    }
    if (!ok) return fmt::format("truncated in field {} at byte {}", field, at);
  }
}

// Hands out the bytes in pieces and tells when a piece is done with.
class PiecewiseStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  PiecewiseStream(std::string_view bytes, const std::function<void(size_t)>& parsed) : bytes_(bytes), parsed_(parsed) {}

  bool Next(const void** data, int* size) override {
    constexpr size_t kPiece = size_t{4} << 20;
    if (parsed_) parsed_(at_);
    if (at_ == bytes_.size()) return false;
    const size_t n = std::min(kPiece, bytes_.size() - at_);
    *data = bytes_.data() + at_;
    *size = static_cast<int>(n);
    at_ += n;
    return true;
  }
  void BackUp(int count) override { at_ -= static_cast<size_t>(count); }
  bool Skip(int count) override {
    const size_t n = std::min(static_cast<size_t>(count), bytes_.size() - at_);
    at_ += n;
    return n == static_cast<size_t>(count);
  }
  int64_t ByteCount() const override { return static_cast<int64_t>(at_); }

 private:
  std::string_view bytes_;
  const std::function<void(size_t)>& parsed_;
  size_t at_ = 0;
};

}  // namespace

Status ParseModel(std::string_view bytes, onnx::ModelProto* model, const std::function<void(size_t)>& parsed) {
  const std::string guess = GuessFormat(bytes);
  if (!guess.empty()) return BadInput("is not an ONNX model; {}", guess);
  if (bytes.size() > INT_MAX) {
    return BadInput("is {} bytes long; one protobuf file holds at most {}, weights beyond that are external data", bytes.size(),
                    INT_MAX);
  }
  google::protobuf::LogSilencer silence;
  bool complete = false;
  {
    PiecewiseStream pieces(bytes, parsed);
    google::protobuf::io::CodedInputStream in(&pieces);
    in.SetRecursionLimit(kMaxNesting);
    complete = model->ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
  }
  if (!complete) {
    const std::string framing = FramingError(bytes);
    return BadInput("is not a readable ONNX model; {}",
                    framing.empty() ? fmt::format("damaged within the {} bytes", bytes.size()) : framing);
  }
  if (!model->has_graph()) return BadInput("is not an ONNX model; it has no graph");
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
