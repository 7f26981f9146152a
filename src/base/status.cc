#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace tenon {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInternal: return "internal";
    case Code::kUsage: return "usage";
    case Code::kBadInput: return "bad-input";
    case Code::kUnsupported: return "unsupported";
    case Code::kGuardRefused: return "guard-refused";
    case Code::kResourceLimit: return "resource-limit";
    case Code::kCancelled: return "cancelled";
  }
  return "unknown";
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "tenon: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace tenon
