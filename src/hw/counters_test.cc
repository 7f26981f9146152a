// Counters count where the machine lets them, and say why not elsewhere.
#include "hw/counters.h"

#include <gtest/gtest.h>

namespace tenon::hw {
namespace {

TEST(Counters, CountOrSayWhyNot) {
  const Counters counters;
  const Counts before = counters.Read();
  volatile double x = 1;
  for (int i = 0; i < 1000000; ++i) x = x * 1.0000001;
  const Counts after = counters.Read();
  if (!counters.available()) {
    EXPECT_FALSE(counters.why().empty());
    for (double v : after) EXPECT_LT(v, 0);
    return;
  }
  const auto instructions = static_cast<size_t>(Event::kInstructions);
  if (after[instructions] >= 0) {
    EXPECT_GT(after[instructions] - before[instructions], 1e6);
  }
}

}  // namespace

}  // namespace tenon::hw
