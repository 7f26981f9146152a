// Bytes to onnx::ModelProto.
#ifndef TENON_IMPORT_ONNX_LOAD_H_
#define TENON_IMPORT_ONNX_LOAD_H_

#include <functional>
#include <string_view>

#include "base/status.h"

namespace onnx {
class ModelProto;
}

namespace tenon::import::onnx_format {

/// kBadInput with the reason when `bytes` is no ONNX model; nothing is printed. `parsed(n)`, when given, is told that the first n
/// bytes have been copied into `model`, so that a caller can give back a mapped file's pages while the rest is read.
Status ParseModel(std::string_view bytes, onnx::ModelProto* model, const std::function<void(size_t)>& parsed = nullptr);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_LOAD_H_
