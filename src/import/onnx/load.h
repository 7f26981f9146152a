// Bytes to onnx::ModelProto.
#ifndef TENON_IMPORT_ONNX_LOAD_H_
#define TENON_IMPORT_ONNX_LOAD_H_

#include <string_view>

#include "base/status.h"

namespace onnx {
class ModelProto;
}

namespace tenon::import::onnx_format {

/// kBadInput with the reason when `bytes` is no ONNX model; nothing is printed.
Status ParseModel(std::string_view bytes, onnx::ModelProto* model);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_LOAD_H_
