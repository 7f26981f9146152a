// StringNormalizer.
#include <locale.h>
#include <wctype.h>

#include <unordered_set>

#include "kernels/strings/internal.h"

namespace tenon::kernels::strings {
namespace {

enum class Case { kNone, kLower, kUpper };

Result<Case> ParseCase(const Attrs& attrs) {
  const std::string action = attrs.String("case_change_action", "NONE");
  if (action == "NONE") return Case::kNone;
  if (action == "LOWER") return Case::kLower;
  if (action == "UPPER") return Case::kUpper;
  return BadInput("StringNormalizer: case_change_action '{}'; allowed are NONE, LOWER and UPPER", action);
}

// Length of the valid UTF-8 sequence that begins at `i`, with its code point; 1 and the byte for what is none.
size_t Decode(const std::string& s, size_t i, uint32_t* code) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(s[k]); };
  const uint8_t lead = byte(i);
  *code = lead;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
  if (length == 1 || i + length > s.size()) return 1;
  uint32_t c = lead & (0x7fu >> length);
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 1;
    c = c << 6 | (byte(i + k) & 0x3f);
  }
  *code = c;
  return length;
}

void Encode(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    if (c < 0x10000) {
      out->push_back(static_cast<char>(0xe0 | c >> 12));
    } else {
      out->push_back(static_cast<char>(0xf0 | c >> 18));
      out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    }
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

std::string ChangeCase(const std::string& s, Case action) {
  if (action == Case::kNone) return s;
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string out;
  for (size_t i = 0; i < s.size();) {
    uint32_t c;
    const size_t length = Decode(s, i, &c);
    uint32_t mapped = c;
    if (c < 0x80) {
      mapped = static_cast<uint32_t>(action == Case::kLower && c >= 'A' && c <= 'Z'   ? c + 32
                                     : action == Case::kUpper && c >= 'a' && c <= 'z' ? c - 32
                                                                                      : c);
    } else if (length > 1 && unicode != nullptr) {
      mapped = action == Case::kLower ? towlower_l(c, unicode) : towupper_l(c, unicode);
    }
    if (mapped == c) {
      out.append(s, i, length);  // bytes that are no UTF-8 stay as they are
    } else {
      Encode(mapped, &out);
    }
    i += length;
  }
  return out;
}

class NormalizerKernel final : public Kernel {
 public:
  static Status Check(const Problem& p) { return ParseCase(p.attrs).status(); }
  explicit NormalizerKernel(const Problem& p)
      : action_(*ParseCase(p.attrs)), fold_(p.attrs.Int("is_case_sensitive", 0) != 0 ? Case::kNone : Case::kLower) {
    for (const std::string& word : p.attrs.Strings("stopwords")) stop_.insert(ChangeCase(word, fold_));
  }

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    TENON_RETURN_IF_ERROR(NeedStrings("StringNormalizer", x.dtype));
    const int rank = x.shape.rank();
    if (rank != 1 && (rank != 2 || x.shape[0] != 1)) {
      return BadInput("StringNormalizer: input of shape {}; allowed are [c] and [1, c]", x.shape.ToString());
    }
    std::vector<std::string> kept;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const std::string& s = x.Data<std::string>()[i];
      if (stop_.empty() || stop_.find(ChangeCase(s, fold_)) == stop_.end()) kept.push_back(ChangeCase(s, action_));
    }
    if (kept.empty()) kept.emplace_back();
    const auto n = static_cast<int64_t>(kept.size());
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, rank == 1 ? Shape({n}) : Shape({1, n})));
    for (size_t i = 0; i < kept.size(); ++i) args.out[0].Data<std::string>()[i] = std::move(kept[i]);
    return Status::Ok();
  }

 private:
  Case action_;
  Case fold_;  // how words are compared
  std::unordered_set<std::string> stop_;
};

}  // namespace

Status InferStringNormalizer(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(NeedStrings("StringNormalizer", args.in[0].dtype));
  const SymShape& x = args.in[0].shape;
  SymShape shape = x;
  if (x.has_rank()) {
    if (x.rank() != 1 && x.rank() != 2)
      return BadInput("StringNormalizer: input of shape {}; allowed are [c] and [1, c]", x.ToString());
    shape = SymShape::OfRank(x.rank());
    if (x.rank() == 2) shape[0] = Dim(1);
  }
  movement::SetTensor(&args.out[0], DType::kString, std::move(shape));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeStringNormalizer(const Problem& p) {
  return movement::Make<NormalizerKernel>(p);
}

}  // namespace tenon::kernels::strings
