#include "guard/source.h"

#include <algorithm>
#include <limits>

namespace tenon::guard {

namespace fs = std::filesystem;

std::string FileNameOf(const std::string& name) {
  std::string file = name;
  for (char& c : file) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f || std::string_view("/\\:*?\"<>|").find(c) != std::string_view::npos) c = '_';
  }
  return file;
}

std::string DimsText(const TensorInfo& info) {
  if (!info.has_rank) return "any shape";
  std::string text = "[";
  for (const std::string& d : info.dims) text += (text.size() > 1 ? ", " : "") + d;
  return text + "]";
}

namespace {

template <typename From>
Status Narrow(const std::vector<From>& values, DType want, Tensor* out) {
  Status status;
  const bool known = DispatchDType<TENON_NUMERIC_TYPES>(want, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* p = out->template MutableData<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        const auto low = static_cast<__int128>(std::numeric_limits<T>::min());
        const auto high = static_cast<__int128>(std::numeric_limits<T>::max());
        const auto v = static_cast<__int128>(values[i]);
        if (v < low || v > high) {
          status = BadInput("the value {} does not fit {}", values[i], DTypeName(want));
          return;
        }
        p[i] = static_cast<T>(values[i]);
      } else if constexpr (std::is_same_v<T, double>) {
        p[i] = static_cast<double>(values[i]);
      } else {
        p[i] = static_cast<T>(static_cast<float>(values[i]));
      }
    }
  });
  if (!known) return BadInput("elements cannot be made {}", DTypeName(want));
  return status;
}

// NumPy has no packed types: one element a byte.
Result<Tensor> Pack(const Tensor& t, DType want) {
  const int bits = DTypeBits(want);
  TENON_ASSIGN_OR_RETURN(Tensor packed, Tensor::Zeros(want, t.shape()));
  const int per_byte = 8 / bits;
  for (int64_t i = 0; i < t.shape().num_elements(); ++i) {
    const int value = t.Data<uint8_t>()[i] & ((1 << bits) - 1);
    packed.MutableData<uint8_t>()[i / per_byte] |= static_cast<uint8_t>(value << (i % per_byte * bits));
  }
  return packed;
}

}  // namespace

Result<Tensor> ToType(const media::NpyArray& array, DType want) {
  const Tensor& t = array.tensor;
  if (t.dtype() == want) return t;
  const int bits = DTypeBits(want);
  if (array.raw && bits == DTypeBits(t.dtype())) return Tensor(want, t.shape(), t.buffer());
  const bool bytes = t.dtype() == DType::kU8 || t.dtype() == DType::kI8;
  if (bits != 0 && bits < 8 && bytes) return Pack(t, want);
  const bool same_kind = (IsFloat(t.dtype()) && IsFloat(want)) || (IsInteger(t.dtype()) && IsInteger(want));
  if (same_kind && !array.raw && bits >= 8) {
    TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(want, t.shape()));
    if (const auto values = IsFloat(want) ? ToDoubles(t.view()) : std::nullopt) {
      TENON_RETURN_IF_ERROR(Narrow(*values, want, &out));
      return out;
    }
    if (const auto values = IsInteger(want) ? ToInt64s(t.view()) : std::nullopt) {
      const bool wrapped =
          t.dtype() == DType::kU64 && std::any_of(values->begin(), values->end(), [](int64_t v) { return v < 0; });
      if (wrapped) return BadInput("values over 2^63 do not fit {}", DTypeName(want));
      TENON_RETURN_IF_ERROR(Narrow(*values, want, &out));
      return out;
    }
  }
  return BadInput("elements are {}; allowed: {} or another width of its kind", DTypeName(t.dtype()), DTypeName(want));
}

Status CheckShape(const Shape& shape, const TensorInfo& info) {
  if (!info.has_rank) return Status::Ok();
  bool fits = static_cast<size_t>(shape.rank()) == info.dims.size();
  for (size_t i = 0; fits && i < info.dims.size(); ++i) {
    const auto fixed = FixedExtent(info.dims[i]);
    fits = !fixed || *fixed == shape[static_cast<int>(i)];
  }
  if (fits) return Status::Ok();
  return BadInput("shape {}; the model takes {}", shape.ToString(), DimsText(info));
}

Result<std::vector<fs::path>> List(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(".")) paths.push_back(it->path());
  }
  if (error) return BadInput("cannot read the folder '{}'; {}", folder, error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace tenon::guard
