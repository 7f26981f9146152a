#include <gtest/gtest.h>

#include "base/dim.h"

namespace tenon {
namespace {

TEST(DimParse, ReadsWhatToStringWrites) {
  const Dim n = Dim::Symbol("n");
  const Dim m = Dim::Symbol("/enc/Gather_0.1");
  for (const Dim& d : {Dim(0), Dim(-3), n, m, n * m + Dim(2) * n - Dim(7), Dim::FloorDiv(n + Dim(1), 2), Dim::CeilDiv(n, 4),
                       Dim::FloorDiv(Dim::FloorDiv(n - Dim(1), 2) + Dim(1), 3), Dim::Max(n, m), Dim::Min(n + Dim(1), 5),
                       Dim::FloorDiv(m, n), Dim(0) - n, n * n * n}) {
    auto parsed = Dim::Parse(d.ToString());
    ASSERT_TRUE(parsed.ok()) << d.ToString();
    EXPECT_EQ(*parsed, d) << d.ToString() << " became " << parsed->ToString();
  }
  EXPECT_TRUE(Dim::Parse("?")->is_unknown());
}

TEST(DimParse, RefusesWhatIsNoDimension) {
  for (const char* text : {"", "+", "n+", "2n", "(n", "n)", "99999999999999999999", "n m", "floor(n", "[n]"}) {
    EXPECT_FALSE(Dim::Parse(text).ok()) << text;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += '(';
  EXPECT_FALSE(Dim::Parse(deep).ok());
  std::string nested;
  for (int i = 0; i < 2000; ++i) nested += "floor(";
  EXPECT_FALSE(Dim::Parse(nested).ok());
}

}  // namespace
}  // namespace tenon
