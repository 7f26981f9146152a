#include <gtest/gtest.h>

#include "base/dim.h"
#include "base/dim_value.h"

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

TEST(DimValue, ReadsNumbersInPlaceOfSymbols) {
  const std::map<std::string, int64_t, std::less<>> values = {{"n", 7}, {"p2o.Dim.1", 320}, {"most", int64_t{1} << 62}};
  EXPECT_EQ(DimValue("n", values), 7);
  EXPECT_EQ(DimValue("2*n*n-1", values), 97);
  EXPECT_EQ(DimValue("floor((floor(floor((p2o.Dim.1-1)/2)/2)-1)/2)+1", values), 40);
  EXPECT_EQ(DimValue("max(n,9)", values), 9);
  for (const char* nothing : {"m", "n+m", "floor(n/m)", "?", "n+", "", "most*most", "floor(n/0)"})
    EXPECT_EQ(DimValue(nothing, values), std::nullopt) << nothing;
}

TEST(FixedExtent, IsANumberAlone) {
  EXPECT_EQ(FixedExtent("224"), 224);
  EXPECT_EQ(FixedExtent("-1"), -1);
  for (const char* nothing : {"", "n", "2n", "2*3", "99999999999999999999"})
    EXPECT_EQ(FixedExtent(nothing), std::nullopt) << nothing;
}

}  // namespace
}  // namespace tenon
