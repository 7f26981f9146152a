#include "ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tenon::ir {
namespace {

using testing::HasSubstr;

TEST(Text, PrintsWhatItReads) {
  const std::string text = R"(graph g(x: float32[n,3,2*h+1,"odd name"], c: bool[]) -> (y, z) {
  w: float32[2,2] = const [1, 2.5, -0, inf]
  s: string[2] = const ["a\"b", "c\n"]
  i: int64[] = const [-9223372036854775808]
  e: int64[0] = const []
  q: int4[3] = const hex "2103"
  h: float16[2] = const [0.099975586, 65504]
  "a::b": float32[n,3,floor((h-1)/2)+1,?] = Conv(x, w, _) {auto_pad="NOTSET", f=1.0, group=1, lf=[1.0, 2.5], li=[1, 2], ls=["p"], ne=floats [], t=tensor int64[2] [1, 2]} @"conv 1"
  y, _ = Foo("a::b", x)
  z: seq ?[...] = If(c, y) {captures=1} {{
    graph then(a: float32[...]) -> (a) {
    }
    graph else(a: float32[...]) -> (b) {
      b: float32[...] = Relu(a)
    }
  }}
}
)";
  auto g = Parse(text);
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_TRUE(Verify(*g).ok());
  EXPECT_EQ(Print(*g), text);
  EXPECT_EQ(Print(*Parse(Print(*g))), Print(*g));
}

TEST(Text, KeepsKindsOfAttributes) {
  Graph g;
  g.name = "g";
  Node n;
  n.op = "Op";
  n.outputs = {g.AddValue("y", DType::kF32, SymShape())};
  n.attrs.Set("i", int64_t{3});
  n.attrs.Set("f", 3.0f);
  n.attrs.Set("tiny", 1e-30f);
  n.attrs.Set("big", 1e30f);
  n.attrs.Set("inf", -std::numeric_limits<float>::infinity());
  n.attrs.Set("s", std::string("3"));
  n.attrs.Set("li", std::vector<int64_t>{1});
  n.attrs.Set("lf", std::vector<float>{1});
  n.attrs.Set("ls", std::vector<std::string>{"1", ""});
  n.attrs.Set("ei", std::vector<int64_t>{});
  n.attrs.Set("ef", std::vector<float>{});
  n.attrs.Set("es", std::vector<std::string>{});
  n.attrs.Set("t", Tensor::FromVector<float>({2}, {1, 0.1f}));
  n.attrs.Set("empty", std::string());
  const Attrs attrs = n.attrs;
  g.AddNode(std::move(n));
  g.AddOutput(0);
  auto back = Parse(Print(g));
  ASSERT_TRUE(back.ok()) << back.status().message() << Print(g);
  EXPECT_TRUE(back->node(0).attrs == attrs) << Print(*back);
}

TEST(Text, LeavesOutLargeConstants) {
  Graph g;
  g.name = "g";
  g.AddOutput(g.AddConstant("w", Tensor::FromVector<float>({4, 5}, std::vector<float>(20, 1))));
  EXPECT_THAT(Print(g), HasSubstr("w: float32[4,5] = const <4x5, "));
  auto back = Parse(Print(g));
  ASSERT_FALSE(back.ok());
  EXPECT_THAT(back.status().message(), HasSubstr("line 2: the contents"));
  PrintOptions all;
  all.max_constant_elements = 1000;
  EXPECT_TRUE(Parse(Print(g, all)).ok());
}

TEST(Text, ErrorsNameTheLine) {
  const auto error = [](const std::string& body) {
    auto g = Parse("graph g(x: float32[2]) -> (y) {\n" + body + "\n}");
    return g.ok() ? std::string("no error") : g.status().message();
  };
  EXPECT_THAT(error("y = Relu(z)"), HasSubstr("line 2: 'z' is used before it is defined"));
  EXPECT_THAT(error("y = Relu(y)"), HasSubstr("line 2: 'y' is used before"));
  EXPECT_THAT(error("x = Relu(x)"), HasSubstr("line 2: 'x' is defined twice"));
  EXPECT_THAT(error("\n# comment\ny: float33[] = Relu(x)"), HasSubstr("line 4: 'float33' is not an element type"));
  EXPECT_THAT(error("z = Relu(x)"), HasSubstr("output 'y'"));
  EXPECT_THAT(error("y: float32[2] = const [1]"), HasSubstr("1 elements given for shape 2"));
  EXPECT_THAT(error("y: float32[99999999999999] = const [1]"), HasSubstr("line 2"));
  EXPECT_THAT(error("y: int8[1] = const [300]"), HasSubstr("'300' is not a number"));
  EXPECT_THAT(error("y: bool[1] = const [2]"), HasSubstr("not 0 or 1"));
  EXPECT_THAT(error("y = Op(x) {a=1, a=2}"), HasSubstr("given twice"));
  EXPECT_THAT(error("y = Op(x) {a=\"b}"), HasSubstr("does not end"));
  EXPECT_THAT(error("y: float32[n+] = Op(x)"), HasSubstr("not a dimension"));
  EXPECT_THAT(error("y: float32[-3] = Op(x)"), HasSubstr("negative"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "a = If() {{ graph g() -> () { ";
  EXPECT_THAT(error(deep), HasSubstr("nested deeper"));
}

TEST(Text, SurvivesTruncation) {
  const std::string text =
      "graph g(x: float32[n,\"a\"]) -> (y) {\n w: float32[2] = const [1, 2]\n y = Op(x, w) {a=[1], s=\"x\\n\"} @\"n\"\n}";
  ASSERT_TRUE(Parse(text).ok());
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(Parse(text.substr(0, n)).ok()) << n;
}

}  // namespace
}  // namespace tenon::ir
