// Attributes of an operator: a small ordered map from name to value, with ONNX's kinds of value.
// Graph, artifact and kernels share it, so that an attribute has one meaning from file to kernel.
#ifndef TENON_TENSOR_ATTRS_H_
#define TENON_TENSOR_ATTRS_H_

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace tenon {

using AttrValue =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>, Tensor>;

class Attrs {
 public:
  bool Has(std::string_view name) const { return values_.find(name) != values_.end(); }
  const AttrValue* Find(std::string_view name) const {
    auto it = values_.find(name);
    return it == values_.end() ? nullptr : &it->second;
  }
  void Set(std::string name, AttrValue value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  void Erase(std::string_view name) {
    auto it = values_.find(name);
    if (it != values_.end()) values_.erase(it);
  }

  /// The value, or `fallback` when absent or of another kind (Validate kinds with the op's schema first).
  int64_t Int(std::string_view name, int64_t fallback) const { return Get<int64_t>(name, fallback); }
  float Float(std::string_view name, float fallback) const { return Get<float>(name, fallback); }
  std::string String(std::string_view name, std::string fallback) const { return Get<std::string>(name, std::move(fallback)); }
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> fallback = {}) const {
    return Get<std::vector<int64_t>>(name, std::move(fallback));
  }
  std::vector<float> Floats(std::string_view name, std::vector<float> fallback = {}) const {
    return Get<std::vector<float>>(name, std::move(fallback));
  }
  std::vector<std::string> Strings(std::string_view name, std::vector<std::string> fallback = {}) const {
    return Get<std::vector<std::string>>(name, std::move(fallback));
  }
  /// nullptr when absent.
  const Tensor* GetTensor(std::string_view name) const {
    const AttrValue* v = Find(name);
    return v == nullptr ? nullptr : std::get_if<Tensor>(v);
  }

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }

  /// Equal names and values; tensors by type, shape and bytes.
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  template <typename T>
  T Get(std::string_view name, T fallback) const {
    const AttrValue* v = Find(name);
    if (v == nullptr) return fallback;
    const T* p = std::get_if<T>(v);
    return p != nullptr ? *p : fallback;
  }
  std::map<std::string, AttrValue, std::less<>> values_;
};

/// Same type, shape and bytes (strings compared as strings).
bool SameTensor(const View& a, const View& b);

}  // namespace tenon

#endif  // TENON_TENSOR_ATTRS_H_
