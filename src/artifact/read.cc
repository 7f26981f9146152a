#include <atomic>
#include <mutex>

#include "artifact/artifact.h"
#include "artifact/format.h"
#include "tenon_generated.h"

namespace tenon::artifact {
namespace {

constexpr int kMaxDepth = 32;   // nesting of bodies
constexpr size_t kMaxTables = size_t{1} << 24;

std::string Text(const flatbuffers::String* s) {
  return s == nullptr ? std::string() : s->str();
}

// The part of the weight section with packed weights; whether these are read, or else the constants behind them.
struct PackedPart {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool used = false;

  bool Skips(uint64_t at) const { return used ? at >= end : at >= begin && at < end; }
};

class Reader {
 public:
  Reader(std::shared_ptr<MappedFile> weights, uint64_t offset, uint64_t bytes, const PackedPart& packed)
      : weights_(std::move(weights)), offset_(offset), bytes_(bytes), packed_(packed) {}

  Status Get(const fb::Program& in, int depth, Program* p) {
    if (depth > kMaxDepth) return BadInput("bodies are nested deeper than {}", kMaxDepth);
    p->name = Text(in.name());
    if (in.values() != nullptr) {
      p->values.reserve(in.values()->size());
      for (const fb::Value* v : *in.values()) {
        p->values.emplace_back();
        TENON_RETURN_IF_ERROR(GetValue(*v, &p->values.back()));
      }
    }
    if (in.inputs() != nullptr) p->inputs.assign(in.inputs()->begin(), in.inputs()->end());
    if (in.outputs() != nullptr) p->outputs.assign(in.outputs()->begin(), in.outputs()->end());
    if (in.steps() != nullptr) {
      p->steps.reserve(in.steps()->size());
      for (const fb::Step* s : *in.steps()) {
        p->steps.emplace_back();
        TENON_RETURN_IF_ERROR(GetStep(*s, depth, &p->steps.back()));
      }
    }
    if (in.metadata() != nullptr) {
      for (const fb::Pair* pair : *in.metadata()) p->metadata[Text(pair->key())] = Text(pair->value());
    }
    if (in.ranges() != nullptr) {
      for (const fb::Range* r : *in.ranges()) p->ranges[Text(r->symbol())] = {r->low(), r->high()};
    }
    return Status::Ok();
  }

 private:
  Status GetTensor(const fb::TensorRef& in, Tensor* out) {
    if (!IsValidDType(in.dtype())) return BadInput("unknown element type {}", in.dtype());
    const auto dtype = static_cast<DType>(in.dtype());
    std::vector<int64_t> dims;
    if (in.dims() != nullptr) dims.assign(in.dims()->begin(), in.dims()->end());
    TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims));
    const int64_t n = shape.num_elements();
    if (dtype == DType::kString) {
      const size_t have = in.strings() == nullptr ? 0 : in.strings()->size();
      if (have != static_cast<size_t>(n)) return BadInput("{} strings for shape {}", have, shape.ToString());
      std::vector<std::string> strings;
      for (size_t i = 0; i < have; ++i) strings.push_back(in.strings()->Get(static_cast<flatbuffers::uoffset_t>(i))->str());
      *out = Tensor::FromStrings(shape, std::move(strings));
      return Status::Ok();
    }
    const size_t need = DTypeBytes(dtype, n);
    if (in.bytes() != need || in.offset() > bytes_ || need > bytes_ - in.offset() || in.offset() % kAlignment != 0) {
      return BadInput("tensor at {} with {} bytes does not fit its shape {} or the weight section", in.offset(), in.bytes(),
                      shape.ToString());
    }
    if (need == 0) {
      TENON_ASSIGN_OR_RETURN(*out, Tensor::Allocate(dtype, shape));
      return Status::Ok();
    }
    *out = Tensor(dtype, shape, Map(in.offset(), need));
    return Status::Ok();
  }

  std::shared_ptr<Buffer> Map(uint64_t offset, size_t bytes) const {
    return Buffer::Mapped(weights_->data() + offset_ + offset, bytes, [keep = weights_] {});
  }

  Status GetPacked(const fb::Step& in, Step* s) {
    if (!packed_.used || in.packed() == nullptr) return Status::Ok();
    s->packed_row = Text(in.packed_row());
    for (const fb::Piece* piece : *in.packed()) {
      if (piece->offset() < packed_.begin || piece->offset() > packed_.end || piece->bytes() > packed_.end - piece->offset() ||
          piece->offset() % kAlignment != 0) {
        return BadInput("packed weights at {} with {} bytes do not lie in their section", piece->offset(), piece->bytes());
      }
      s->packed.push_back(Map(piece->offset(), piece->bytes()));
    }
    return Status::Ok();
  }

  Status GetValue(const fb::Value& in, ProgramValue* v) {
    v->name = Text(in.name());
    if (in.dtype() != 0 && !IsValidDType(in.dtype())) return BadInput("value '{}': unknown element type {}", v->name, in.dtype());
    v->dtype = static_cast<DType>(in.dtype());
    v->is_sequence = in.is_sequence();
    if (in.has_rank()) {
      std::vector<Dim> dims;
      if (in.dims() != nullptr) {
        for (const flatbuffers::String* s : *in.dims()) dims.push_back(ParseDim(s->string_view()));
      }
      if (dims.size() > static_cast<size_t>(kMaxRank)) return BadInput("value '{}': rank {}", v->name, dims.size());
      v->shape = SymShape(std::move(dims));
    }
    if (in.constant() == nullptr) return Status::Ok();
    TENON_RETURN_IF_ERROR(GetTensor(*in.constant(), &v->constant).Within(fmt::format("value '{}'", v->name)));
    v->dtype = v->constant.dtype();
    v->shape = SymShape(v->constant.shape());
    v->packed_away = packed_.used && v->constant.bytes() > 0 && in.constant()->offset() >= packed_.end;
    return Status::Ok();
  }

  // Numbers stay numbers; any other text is one symbol, equal to itself.
  static Dim ParseDim(std::string_view text) {
    int64_t n = 0;
    const bool number = !text.empty() && text.size() < 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
    if (!number) return text.empty() || text == "?" ? Dim::Unknown() : Dim::Symbol(std::string(text));
    for (char c : text) n = n * 10 + (c - '0');
    return {n};
  }

  Status GetAttr(const fb::Attr& in, Attrs* attrs) {
    const std::string name = Text(in.name());
    switch (in.kind()) {
      case fb::AttrKind_Int: attrs->Set(name, in.i()); return Status::Ok();
      case fb::AttrKind_Float: attrs->Set(name, in.f()); return Status::Ok();
      case fb::AttrKind_String: attrs->Set(name, Text(in.s())); return Status::Ok();
      case fb::AttrKind_Ints:
        attrs->Set(name, in.ints() ? std::vector<int64_t>(in.ints()->begin(), in.ints()->end()) : std::vector<int64_t>());
        return Status::Ok();
      case fb::AttrKind_Floats:
        attrs->Set(name, in.floats() ? std::vector<float>(in.floats()->begin(), in.floats()->end()) : std::vector<float>());
        return Status::Ok();
      case fb::AttrKind_Strings: {
        std::vector<std::string> strings;
        if (in.strings() != nullptr) {
          for (const flatbuffers::String* s : *in.strings()) strings.push_back(s->str());
        }
        attrs->Set(name, std::move(strings));
        return Status::Ok();
      }
      case fb::AttrKind_Tensor: {
        if (in.tensor() == nullptr) return BadInput("attribute '{}' lacks its tensor", name);
        Tensor t;
        TENON_RETURN_IF_ERROR(GetTensor(*in.tensor(), &t).Within(fmt::format("attribute '{}'", name)));
        attrs->Set(name, std::move(t));
        return Status::Ok();
      }
    }
    return BadInput("attribute '{}' is of an unknown kind {}", name, static_cast<int>(in.kind()));
  }

  Status GetStep(const fb::Step& in, int depth, Step* s) {
    s->op = Text(in.op());
    s->name = Text(in.name());
    s->kernel = Text(in.kernel());
    if (in.inputs() != nullptr) s->inputs.assign(in.inputs()->begin(), in.inputs()->end());
    if (in.outputs() != nullptr) s->outputs.assign(in.outputs()->begin(), in.outputs()->end());
    if (in.attrs() != nullptr) {
      for (const fb::Attr* a : *in.attrs()) {
        TENON_RETURN_IF_ERROR(GetAttr(*a, &s->attrs).Within(fmt::format("step '{}' ({})", s->name, s->op)));
      }
    }
    TENON_RETURN_IF_ERROR(GetPacked(in, s).Within(fmt::format("step '{}' ({})", s->name, s->op)));
    if (in.bodies() == nullptr) return Status::Ok();
    for (const fb::Program* body : *in.bodies()) {
      s->bodies.emplace_back();
      TENON_RETURN_IF_ERROR(Get(*body, depth + 1, &s->bodies.back()));
    }
    return Status::Ok();
  }

  std::shared_ptr<MappedFile> weights_;
  uint64_t offset_;
  uint64_t bytes_;
  PackedPart packed_;
};

Result<Header> ReadHeader(const MappedFile& file) {
  Header h;
  if (file.size() < sizeof(h)) return BadInput("truncated: {} bytes, the header alone has {}", file.size(), sizeof(h));
  TENON_RETURN_IF_ERROR(file.ReadAt(0, &h, sizeof(h)));
  if (h.magic != kMagic) return BadInput("not a .tenon file");
  if (h.version != kVersion)
    return BadInput("format version {}; this build reads version {}; compile the model again", h.version, kVersion);
  if (h.header_digest != HeaderDigest(h)) return BadInput("damaged: the header does not match its digest");
  if (h.file_bytes != file.size()) return BadInput("damaged: {} bytes were written, the file has {}", h.file_bytes, file.size());
  if (h.metadata_bytes > kMaxMetadataBytes || h.metadata_offset > file.size() ||
      h.metadata_bytes > file.size() - h.metadata_offset) {
    return BadInput("truncated: metadata ends at {}, the file at {}", h.metadata_offset + h.metadata_bytes, file.size());
  }
  return h;
}

Result<PackedPart> GetPackedPart(const fb::Artifact& root, uint64_t weights_bytes, const std::string& wish) {
  PackedPart part{root.packed_begin(), root.packed_end(), false};
  if (part.begin > part.end || part.end > weights_bytes || part.begin % kChunkBytes != 0 || part.end % kChunkBytes != 0) {
    return BadInput("damaged: packed weights from {} to {} of {} bytes", part.begin, part.end, weights_bytes);
  }
  part.used = part.end > 0 && !wish.empty() && Text(root.packed_for()) == wish;
  return part;
}

Status CheckWeights(const MappedFile& file, uint64_t offset, uint64_t bytes, const PackedPart& packed,
                    const flatbuffers::Vector<uint8_t>* digests, const ForEach& for_each) {
  const uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  const uint64_t have = digests == nullptr ? 0 : digests->size();
  if (have != chunks * sizeof(ChunkDigest)) return BadInput("damaged: {} bytes of digests for {} chunks", have, chunks);
  std::mutex mutex;
  Status first;
  const std::function<void(int64_t)> check = [&](int64_t i) {
    // Read, not mapped: checking a large file must not make its pages resident.
    static thread_local std::vector<unsigned char> buffer;
    buffer.resize(kChunkBytes);
    const uint64_t begin = static_cast<uint64_t>(i) * kChunkBytes;
    if (packed.Skips(begin)) return;
    const size_t n = std::min<uint64_t>(kChunkBytes, bytes - begin);
    Status s = file.ReadAt(offset + begin, buffer.data(), n);
    if (s.ok()) {
      const ChunkDigest d = DigestChunk(buffer.data(), n);
      if (std::memcmp(d.data(), digests->data() + static_cast<size_t>(i) * d.size(), d.size()) != 0) {
        s = BadInput("damaged: weights between bytes {} and {} do not match their digest", offset + begin, offset + begin + n);
      }
    }
    if (s.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (first.ok()) first = std::move(s);
  };
  if (for_each) {
    for_each(static_cast<int64_t>(chunks), check);
  } else {
    for (uint64_t i = 0; i < chunks; ++i) check(static_cast<int64_t>(i));
  }
  return first;
}

Result<Artifact> ReadChecked(const std::string& path, const ReadOptions& options) {
  TENON_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(const Header h, ReadHeader(*file));
  const auto* metadata = reinterpret_cast<const uint8_t*>(file->data()) + h.metadata_offset;
  if (Sha256(metadata, h.metadata_bytes) != h.metadata_digest) return BadInput("damaged: the metadata does not match its digest");
  flatbuffers::Verifier verifier(metadata, h.metadata_bytes, 4 * kMaxDepth, kMaxTables);
  if (!fb::VerifyArtifactBuffer(verifier)) return BadInput("damaged: the metadata is not well formed");
  const fb::Artifact* root = fb::GetArtifact(metadata);

  Artifact artifact;
  artifact.weights = file;
  if ((h.flags & kFlagExternalWeights) != 0) {
    TENON_ASSIGN_OR_RETURN(artifact.weights, MappedFile::Open(path + ".weights"));
  }
  const uint64_t size = artifact.weights->size();
  if (h.weights_offset > size || h.weights_bytes > size - h.weights_offset) {
    return BadInput("truncated: weights end at {}, the file at {}", h.weights_offset + h.weights_bytes, size);
  }
  if (root->chunk_bytes() != kChunkBytes) return BadInput("damaged: chunk size {}", root->chunk_bytes());
  TENON_ASSIGN_OR_RETURN(const PackedPart packed, GetPackedPart(*root, h.weights_bytes, options.packed_for));
  TENON_RETURN_IF_ERROR(
      CheckWeights(*artifact.weights, h.weights_offset, h.weights_bytes, packed, root->chunk_digests(), options.for_each));
  artifact.packed_for = Text(root->packed_for());
  artifact.packed_bytes = packed.end - packed.begin;
  artifact.packed = packed.used;
  Reader reader(artifact.weights, h.weights_offset, h.weights_bytes, packed);
  TENON_RETURN_IF_ERROR(reader.Get(*root->program(), 0, &artifact.program));
  if (root->provenance() != nullptr) {
    for (const fb::Pair* pair : *root->provenance()) artifact.provenance[Text(pair->key())] = Text(pair->value());
  }
  artifact.report = Text(root->report());
  TENON_RETURN_IF_ERROR(Validate(artifact.program));
  return artifact;
}

}  // namespace

Result<Artifact> Read(const std::string& path, const ReadOptions& options) {
  auto artifact = ReadChecked(path, options);
  if (artifact.ok()) return artifact;
  return std::move(artifact).TakeStatus().Within(fmt::format("artifact '{}'", path));
}

bool LooksLikeArtifact(const std::string& path) {
  auto file = MappedFile::Open(path);
  std::array<char, 8> magic{};
  return file.ok() && (*file)->size() >= magic.size() && (*file)->ReadAt(0, magic.data(), magic.size()).ok() && magic == kMagic;
}

}  // namespace tenon::artifact
