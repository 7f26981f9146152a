#include "runtime/host_tensor.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace runtime {

HostTensor ToHost(const std::string& name, DType dtype, const View& v) {
  HostTensor t;
  t.name = name;
  t.dtype = v.sequence != nullptr ? dtype : v.dtype;
  if (v.sequence != nullptr) {
    t.is_sequence = true;
    for (const Tensor& e : *v.sequence) t.sequence.push_back(ToHost("", e));
    return t;
  }
  t.shape.assign(v.shape.begin(), v.shape.end());
  if (v.dtype == DType::kString) {
    const auto* s = v.Data<std::string>();
    t.strings.assign(s, s + v.num_elements());
    return t;
  }
  t.data = v.data;
  t.bytes = v.bytes();
  return t;
}

HostTensor ToHost(const std::string& name, const Tensor& tensor) {
  HostTensor t = ToHost(name, tensor.dtype(), tensor.view());
  t.owner = tensor.buffer();
  return t;
}

}  // namespace runtime

HostTensor Copy(const HostTensor& tensor) {
  HostTensor copy = tensor;
  if (tensor.bytes > 0) {
    auto bytes = std::make_shared<std::vector<char>>(static_cast<const char*>(tensor.data),
                                                     static_cast<const char*>(tensor.data) + tensor.bytes);
    copy.data = bytes->data();
    copy.owner = bytes;
  }
  for (HostTensor& e : copy.sequence) e = Copy(e);
  return copy;
}

}  // namespace tenon
