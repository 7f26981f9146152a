#include "server/status_map.h"

#include <array>

namespace tenon::server {

WireStatus WireStatusOf(Outcome outcome) {
  static constexpr std::array<std::pair<Outcome, WireStatus>, kOutcomes> kTable = {{{Outcome::kOk, {200, 0}},
                                                                                    {Outcome::kCancelled, {499, 1}},
                                                                                    {Outcome::kBadRequest, {400, 3}},
                                                                                    {Outcome::kNotFound, {404, 5}},
                                                                                    {Outcome::kNotReady, {503, 14}},
                                                                                    {Outcome::kOverload, {503, 14}},
                                                                                    {Outcome::kDeadline, {504, 4}},
                                                                                    {Outcome::kTooLarge, {413, 8}},
                                                                                    {Outcome::kUnsupported, {501, 12}},
                                                                                    {Outcome::kMemory, {507, 8}},
                                                                                    {Outcome::kInternal, {500, 13}}}};
  for (const auto& [o, wire] : kTable) {
    if (o == outcome) return wire;
  }
  return {500, 13};
}

Outcome OutcomeOfRefusal(const Status& status) {
  switch (status.code()) {
    case Code::kResourceLimit: return Outcome::kTooLarge;
    case Code::kUnsupported: return Outcome::kUnsupported;
    case Code::kInternal: return Outcome::kInternal;
    default: return Outcome::kBadRequest;
  }
}

}  // namespace tenon::server
