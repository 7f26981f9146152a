#include <algorithm>
#include <unordered_map>

#include "artifact/artifact.h"
#include "artifact/format.h"
#include "tenon_generated.h"

namespace tenon::artifact {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// Lays tensors out in the weight section and streams them to the file with their digests. Equal buffers are stored once.
class WeightWriter {
 public:
  WeightWriter(AtomicFile* file, uint64_t base) : file_(file), base_(base) {}

  Result<uint64_t> Add(const void* data, size_t bytes) {
    auto it = known_.find(data);
    if (it != known_.end() && it->second.second == bytes) return it->second.first;
    TENON_RETURN_IF_ERROR(PadTo(kAlignment));
    const uint64_t offset = size_;
    TENON_RETURN_IF_ERROR(Put(data, bytes));
    known_[data] = {offset, bytes};
    return offset;
  }

  /// Zeros until the size is a multiple of `alignment`.
  Status PadTo(uint64_t alignment) {
    static constexpr std::array<char, 4096> kZeros{};
    uint64_t left = (alignment - size_ % alignment) % alignment;
    while (left > 0) {
      const uint64_t part = std::min<uint64_t>(left, kZeros.size());
      TENON_RETURN_IF_ERROR(Put(kZeros.data(), part));
      left -= part;
    }
    return Status::Ok();
  }

  /// Digest of the last, partial chunk included.
  std::vector<unsigned char> Finish() {
    if (!chunk_.empty()) CloseChunk();
    return digests_;
  }
  uint64_t size() const { return size_; }

 private:
  Status Put(const void* data, size_t n) {
    TENON_RETURN_IF_ERROR(file_->WriteAt(base_ + size_, data, n));
    size_ += n;
    const auto* p = static_cast<const unsigned char*>(data);
    while (n > 0) {
      const size_t part = std::min<size_t>(n, kChunkBytes - chunk_.size());
      chunk_.insert(chunk_.end(), p, p + part);
      p += part;
      n -= part;
      if (chunk_.size() == kChunkBytes) CloseChunk();
    }
    return Status::Ok();
  }
  void CloseChunk() {
    const ChunkDigest d = DigestChunk(chunk_.data(), chunk_.size());
    digests_.insert(digests_.end(), d.begin(), d.end());
    chunk_.clear();
  }

  AtomicFile* file_;
  uint64_t base_;
  uint64_t size_ = 0;
  std::vector<unsigned char> chunk_;
  std::vector<unsigned char> digests_;
  std::unordered_map<const void*, std::pair<uint64_t, size_t>> known_;
};

class Serializer {
 public:
  Serializer(WeightWriter* weights, bool with_packed) : weights_(weights), with_packed_(with_packed) {}

  Result<Offset<fb::Program>> Put(const Program& p) {
    std::vector<Offset<fb::Value>> values;
    for (const ProgramValue& v : p.values) {
      TENON_ASSIGN_OR_RETURN(const auto value, PutValue(v));
      values.push_back(value);
    }
    std::vector<Offset<fb::Step>> steps;
    for (const Step& s : p.steps) {
      TENON_ASSIGN_OR_RETURN(const auto step, PutStep(s));
      steps.push_back(step);
    }
    std::vector<Offset<fb::Range>> ranges;
    for (const auto& [symbol, range] : p.ranges) {
      ranges.push_back(fb::CreateRange(b_, b_.CreateString(symbol), range.first, range.second));
    }
    const auto values_offset = b_.CreateVector(values);
    const auto inputs = b_.CreateVector(p.inputs);
    const auto outputs = b_.CreateVector(p.outputs);
    const auto steps_offset = b_.CreateVector(steps);
    return fb::CreateProgram(b_, b_.CreateString(p.name), values_offset, inputs, outputs, steps_offset, PutPairs(p.metadata),
                             b_.CreateVector(ranges));
  }

  Offset<flatbuffers::Vector<Offset<fb::Pair>>> PutPairs(const std::map<std::string, std::string>& map) {
    std::vector<Offset<fb::Pair>> pairs;
    for (const auto& [key, value] : map) pairs.push_back(fb::CreatePair(b_, b_.CreateString(key), b_.CreateString(value)));
    return b_.CreateVector(pairs);
  }

  FlatBufferBuilder& builder() { return b_; }

 private:
  Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> PutStrings(const std::string* strings, size_t n) {
    std::vector<Offset<flatbuffers::String>> out;
    for (size_t i = 0; i < n; ++i) out.push_back(b_.CreateString(strings[i]));
    return b_.CreateVector(out);
  }

  Result<Offset<fb::TensorRef>> PutTensor(const Tensor& t) {
    const std::vector<int64_t> dims(t.shape().begin(), t.shape().end());
    const auto dims_offset = b_.CreateVector(dims);
    if (t.dtype() == DType::kString) {
      const auto strings = PutStrings(t.Data<std::string>(), static_cast<size_t>(t.shape().num_elements()));
      return fb::CreateTensorRef(b_, static_cast<int32_t>(t.dtype()), dims_offset, 0, 0, strings);
    }
    TENON_ASSIGN_OR_RETURN(const uint64_t offset, weights_->Add(t.data(), t.bytes()));
    return fb::CreateTensorRef(b_, static_cast<int32_t>(t.dtype()), dims_offset, offset, t.bytes());
  }

  Result<Offset<fb::Value>> PutValue(const ProgramValue& v) {
    std::vector<std::string> dims;
    for (const Dim& d : v.shape.dims()) dims.push_back(d.ToString());
    Offset<fb::TensorRef> constant;
    if (v.constant.defined()) {
      TENON_ASSIGN_OR_RETURN(constant, PutTensor(v.constant));
    }
    const auto dims_offset = PutStrings(dims.data(), dims.size());
    return fb::CreateValue(b_, b_.CreateString(v.name), static_cast<int32_t>(v.dtype), v.is_sequence, v.shape.has_rank(),
                           dims_offset, constant);
  }

  Result<Offset<fb::Attr>> PutAttr(const std::string& name, const AttrValue& value) {
    const auto name_offset = b_.CreateString(name);
    Offset<flatbuffers::String> s;
    Offset<flatbuffers::Vector<int64_t>> ints;
    Offset<flatbuffers::Vector<float>> floats;
    Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> strings;
    Offset<fb::TensorRef> tensor;
    int64_t i = 0;
    float f = 0;
    if (const auto* x = std::get_if<int64_t>(&value)) i = *x;
    if (const auto* x = std::get_if<float>(&value)) f = *x;
    if (const auto* x = std::get_if<std::string>(&value)) s = b_.CreateString(*x);
    if (const auto* x = std::get_if<std::vector<int64_t>>(&value)) ints = b_.CreateVector(*x);
    if (const auto* x = std::get_if<std::vector<float>>(&value)) floats = b_.CreateVector(*x);
    if (const auto* x = std::get_if<std::vector<std::string>>(&value)) strings = PutStrings(x->data(), x->size());
    if (const auto* x = std::get_if<Tensor>(&value)) {
      TENON_ASSIGN_OR_RETURN(tensor, PutTensor(*x));
    }
    // The kinds of the schema stand in the order of AttrValue's alternatives.
    return fb::CreateAttr(b_, name_offset, static_cast<fb::AttrKind>(value.index()), i, f, s, ints, floats, strings, tensor);
  }

  Result<Offset<fb::Step>> PutStep(const Step& s) {
    std::vector<Offset<fb::Attr>> attrs;
    for (const auto& [name, value] : s.attrs) {
      TENON_ASSIGN_OR_RETURN(const auto attr, PutAttr(name, value));
      attrs.push_back(attr);
    }
    std::vector<Offset<fb::Program>> bodies;
    for (const Program& body : s.bodies) {
      TENON_ASSIGN_OR_RETURN(const auto program, Put(body));
      bodies.push_back(program);
    }
    const auto op = b_.CreateString(s.op);
    const auto name = b_.CreateString(s.name);
    const auto kernel = b_.CreateString(s.kernel);
    Offset<flatbuffers::String> packed_row;
    Offset<flatbuffers::Vector<const fb::Piece*>> packed;
    if (with_packed_ && !s.packed.empty()) {
      std::vector<fb::Piece> pieces;
      for (const auto& piece : s.packed) {
        TENON_ASSIGN_OR_RETURN(const uint64_t offset, weights_->Add(piece->data(), piece->bytes()));
        pieces.emplace_back(offset, piece->bytes());
      }
      packed_row = b_.CreateString(s.packed_row);
      packed = b_.CreateVectorOfStructs(pieces);
    }
    const auto attrs_offset = b_.CreateVector(attrs);
    const auto inputs = b_.CreateVector(s.inputs);
    const auto outputs = b_.CreateVector(s.outputs);
    return fb::CreateStep(b_, op, name, attrs_offset, inputs, outputs, b_.CreateVector(bodies), kernel, packed_row, packed);
  }

  FlatBufferBuilder b_;
  WeightWriter* weights_;
  bool with_packed_;
};

// Where the parts of the weight section begin; see artifact.h.
struct Parts {
  uint64_t packed_begin = 0;
  uint64_t packed_end = 0;
};

// Strings stand in the metadata.
Status AddTensor(const Tensor& t, WeightWriter* weights) {
  return t.dtype() == DType::kString ? Status::Ok() : weights->Add(t.data(), t.bytes()).status();
}

Status AddConstants(const Program& p, bool packed_away, WeightWriter* weights) {
  for (const ProgramValue& v : p.values) {
    if (v.constant.defined() && v.packed_away == packed_away) TENON_RETURN_IF_ERROR(AddTensor(v.constant, weights));
  }
  return Status::Ok();
}

// What is always read: all constants but those of the program itself that are packed away.
Status AddAlwaysRead(const Program& p, WeightWriter* weights) {
  TENON_RETURN_IF_ERROR(AddConstants(p, false, weights));
  for (const Step& s : p.steps) {
    for (const auto& [name, value] : s.attrs) {
      if (const auto* t = std::get_if<Tensor>(&value)) TENON_RETURN_IF_ERROR(AddTensor(*t, weights));
    }
    for (const Program& body : s.bodies) TENON_RETURN_IF_ERROR(AddAlwaysRead(body, weights));
  }
  return Status::Ok();
}

// Puts the tensors in the order of the parts. The serializer then finds them where they are.
Result<Parts> AddParts(const Program& p, WeightWriter* weights) {
  Parts parts;
  TENON_RETURN_IF_ERROR(AddAlwaysRead(p, weights));
  TENON_RETURN_IF_ERROR(weights->PadTo(kChunkBytes));
  parts.packed_begin = weights->size();
  for (const Step& s : p.steps) {
    for (const auto& piece : s.packed) TENON_RETURN_IF_ERROR(weights->Add(piece->data(), piece->bytes()).status());
  }
  TENON_RETURN_IF_ERROR(weights->PadTo(kChunkBytes));
  parts.packed_end = weights->size();
  TENON_RETURN_IF_ERROR(AddConstants(p, true, weights));
  return parts;
}

}  // namespace

Status Write(const Program& program, const std::string& path, const WriteOptions& options) {
  // Weights first, behind a header that is filled in last; metadata follows them.
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  std::optional<AtomicFile> external;
  if (options.external_weights) {
    TENON_ASSIGN_OR_RETURN(AtomicFile weights_file, AtomicFile::Create(path + ".weights"));
    external.emplace(std::move(weights_file));
  }
  Header header;
  header.flags = options.external_weights ? kFlagExternalWeights : 0;
  header.weights_offset = options.external_weights ? 0 : (sizeof(Header) + kAlignment - 1) / kAlignment * kAlignment;
  WeightWriter weights(external ? &*external : &file, header.weights_offset);
  Parts parts;
  const bool with_packed = !options.packed_for.empty() && std::any_of(program.steps.begin(), program.steps.end(),
                                                                      [](const Step& s) { return !s.packed.empty(); });
  if (with_packed) {
    TENON_ASSIGN_OR_RETURN(parts, AddParts(program, &weights));
  }
  Serializer serializer(&weights, with_packed);
  TENON_ASSIGN_OR_RETURN(const auto root, serializer.Put(program));
  FlatBufferBuilder& b = serializer.builder();
  const std::vector<unsigned char> digests = weights.Finish();
  const auto provenance = serializer.PutPairs(options.provenance);
  const auto report = b.CreateString(options.report);
  const auto digests_offset = b.CreateVector(digests);
  const auto packed_for = b.CreateString(with_packed ? options.packed_for : "");
  b.Finish(fb::CreateArtifact(b, root, provenance, report, kChunkBytes, digests_offset, packed_for, parts.packed_begin,
                              parts.packed_end));

  header.weights_bytes = weights.size();
  const uint64_t end = options.external_weights ? sizeof(Header) : header.weights_offset + header.weights_bytes;
  header.metadata_offset = (end + kAlignment - 1) / kAlignment * kAlignment;
  header.metadata_bytes = b.GetSize();
  header.metadata_digest = Sha256(b.GetBufferPointer(), b.GetSize());
  header.file_bytes = header.metadata_offset + header.metadata_bytes;
  header.header_digest = HeaderDigest(header);
  TENON_RETURN_IF_ERROR(file.WriteAt(header.metadata_offset, b.GetBufferPointer(), b.GetSize()));
  TENON_RETURN_IF_ERROR(file.WriteAt(0, &header, sizeof(header)));
  if (external) TENON_RETURN_IF_ERROR(external->Commit());
  return file.Commit();
}

}  // namespace tenon::artifact
