// Values of a run as tensors at the border of the library.
#ifndef TENON_RUNTIME_HOST_TENSOR_H_
#define TENON_RUNTIME_HOST_TENSOR_H_

#include <string>

#include "tenon/session.h"
#include "tensor/tensor.h"

namespace tenon::runtime {

/// `v` under this name, not copied. `dtype` is that of the elements of a sequence.
HostTensor ToHost(const std::string& name, DType dtype, const View& v);
/// The same of a tensor, whose memory it keeps alive.
HostTensor ToHost(const std::string& name, const Tensor& tensor);

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_HOST_TENSOR_H_
