// Options of the C interface: JSON objects, checked key by key.
#ifndef TENON_API_OPTIONS_H_
#define TENON_API_OPTIONS_H_

#include <string>

#include "base/status.h"
#include "tenon/compile.h"

namespace tenon::api {

struct OpenOptions {
  CompileOptions compile;
  SessionOptions session;
  std::string cache_dir;
};

/// `json` may be null or empty. kUsage names the key that is unknown or of the wrong kind.
Result<OpenOptions> ParseOptions(const char* json);

}  // namespace tenon::api

#endif  // TENON_API_OPTIONS_H_
