#include "serve/outcome.h"

#include <array>

namespace tenon::serve {

std::string_view OutcomeName(Outcome outcome) {
  static constexpr std::array<std::string_view, kOutcomes> kNames = {"ok",          "cancelled", "bad_request", "not_found",
                                                                     "not_ready",   "overload",  "deadline",    "too_large",
                                                                     "unsupported", "memory",    "internal"};
  return kNames[static_cast<size_t>(outcome)];
}

Outcome OutcomeOf(const Status& status, bool deadline_passed) {
  switch (status.code()) {
    case Code::kOk: return Outcome::kOk;
    case Code::kUsage:
    case Code::kBadInput: return Outcome::kBadRequest;
    case Code::kUnsupported: return Outcome::kUnsupported;
    case Code::kResourceLimit: return Outcome::kMemory;
    case Code::kCancelled: return deadline_passed ? Outcome::kDeadline : Outcome::kCancelled;
    default: return Outcome::kInternal;
  }
}

Code CodeOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kBadRequest: return Code::kUsage;
    case Outcome::kUnsupported: return Code::kUnsupported;
    case Outcome::kTooLarge:
    case Outcome::kMemory: return Code::kResourceLimit;
    case Outcome::kCancelled:
    case Outcome::kDeadline: return Code::kCancelled;
    default: return Code::kInternal;
  }
}

}  // namespace tenon::serve
