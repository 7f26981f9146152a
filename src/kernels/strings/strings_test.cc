#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

using S = std::vector<std::string>;
using L = std::vector<int64_t>;

Tensor Str(std::initializer_list<int64_t> shape, S v) {
  return Tensor::FromStrings(Shape(shape), std::move(v));
}
Attrs Text(const char* name, const char* value) {
  return A(name, std::string(value));
}

TEST(StringConcat, Broadcasts) {
  EXPECT_EQ(Values<std::string>(Eval("StringConcat", A(), {Str({2, 1}, {"a", "b"}), Str({2}, {"x", "y"})})[0]),
            (S{"ax", "ay", "bx", "by"}));
  EXPECT_BAD_INPUT(TryEval("StringConcat", A(), {Str({2}, {"a", "b"}), Str({3}, {"", "", ""})}), "does not broadcast");
  EXPECT_BAD_INPUT(TryEval("StringConcat", A(), {I64({1}), Str({1}, {""})}), "must be string");
}

TEST(StringSplit, LikePython) {
  auto out = Eval("StringSplit", Text("delimiter", ","), {Str({3}, {"a,b", "", ",,x"})}, 2);
  EXPECT_EQ(out[0].shape(), Shape({3, 3}));
  EXPECT_EQ(Values<std::string>(out[0]), (S{"a", "b", "", "", "", "", "", "", "x"}));
  EXPECT_EQ(Values<int64_t>(out[1]), (L{2, 1, 3}));
  out = Eval("StringSplit", A("maxsplit", 1), {Str({2}, {"  a  b c ", "   "})}, 2);
  EXPECT_EQ(Values<std::string>(out[0]), (S{"a", "b c ", "", ""}));
  EXPECT_EQ(Values<int64_t>(out[1]), (L{2, 0}));
}

TEST(StringNormalizer, CasesAndStopWords) {
  Attrs a = A("case_change_action", std::string("UPPER"), "stopwords", S{"Monday"});
  EXPECT_EQ(Values<std::string>(Eval("StringNormalizer", a, {Str({1, 2}, {"MONDAY", "d\xc3\xa9j\xc3\xa0"})})[0]),
            S{"D\xc3\x89J\xc3\x80"});
  a.Set("is_case_sensitive", int64_t{1});
  EXPECT_EQ(Values<std::string>(Eval("StringNormalizer", a, {Str({2}, {"MONDAY", "Monday"})})[0]), S{"MONDAY"});
  EXPECT_EQ(Values<std::string>(Eval("StringNormalizer", a, {Str({1}, {"Monday"})})[0]), S{""});
  // Bytes that are no UTF-8 stay.
  EXPECT_EQ(Values<std::string>(Eval("StringNormalizer", Text("case_change_action", "LOWER"), {Str({1}, {"A\xff\xc3"})})[0]),
            S{"a\xff\xc3"});
  EXPECT_BAD_INPUT(TryEval("StringNormalizer", A(), {Str({2, 1}, {"a", "b"})}), "[1, c]");
  EXPECT_BAD_INPUT(TryEval("StringNormalizer", Text("case_change_action", "TITLE"), {Str({1}, {"a"})}), "'TITLE'");
}

TEST(RegexFullMatch, WholeStringsOnly) {
  const auto run = [](const char* pattern, S s) {
    const auto n = static_cast<int64_t>(s.size());
    return Values<bool>(Eval("RegexFullMatch", Text("pattern", pattern), {Str({n}, std::move(s))})[0]);
  };
  EXPECT_EQ(run("www\\.[\\w.-]+\\.\\bcom\\b", {"www.google.com", "www.facebook.com", "www.bbc.co.uk", "xwww.a.com"}),
            (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(run("a|ab", {"ab", "abc", "a\n"}), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(run(".", {"\xc3\xa9", "\xff"}), (std::vector<bool>{true, false}));
  EXPECT_BAD_INPUT(TryEval("RegexFullMatch", Text("pattern", "(a"), {Str({1}, {""})}), "is wrong at offset 2");
  // Backtracking that would take years is an error in a moment.
  const auto slow = TryEval("RegexFullMatch", Text("pattern", "(a+)+[bc]"), {Str({1}, {std::string(60, 'a')})});
  EXPECT_EQ(slow.status().code(), Code::kResourceLimit);
}

TEST(TfIdfVectorizer, SkipsAndErrors) {
  Attrs a = A("mode", std::string("TF"), "min_gram_length", 2, "max_gram_length", 2, "max_skip_count", 5);
  a.Set("ngram_counts", L{0, 4});
  a.Set("ngram_indexes", L{0, 1, 2, 3, 4, 5, 6});
  a.Set("pool_int64s", L{2, 3, 5, 4, 5, 6, 7, 8, 6, 7});
  const Tensor x = Of<int32_t>({12}, {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});
  EXPECT_EQ(Values<float>(Eval("TfIdfVectorizer", a, {x})[0]), (std::vector<float>{0, 0, 0, 0, 1, 3, 1}));
  a.Set("ngram_counts", L{0, 5});
  EXPECT_BAD_INPUT(TryEval("TfIdfVectorizer", a, {x}), "ngram_counts");
  a.Set("ngram_indexes", L{int64_t{1} << 40});
  EXPECT_BAD_INPUT(TryEval("TfIdfVectorizer", a, {x}), "outside [0,");
}

TEST(Tokenizer, ExpressionsSeparatorsCharacters) {
  const Tensor x = Str({1, 3}, {"a b,cd", "", "\xC3\xA9t\xC3\xA9 x"});
  Attrs words = A("tokenexp", std::string("[a-z\xC3\xA9]+"), "pad_value", std::string("#"), "mincharnum", 2);
  auto out = Eval("com.microsoft.Tokenizer", words, {x});
  EXPECT_EQ(out[0].shape(), Shape({1, 3, 1}));
  EXPECT_EQ(Values<std::string>(out[0]), (S{"cd", "#", "\xC3\xA9t\xC3\xA9"}));
  out = Eval("com.microsoft.Tokenizer", A("separators", S{" ", ","}, "mark", 1), {x});
  EXPECT_EQ(out[0].shape(), Shape({1, 3, 5}));
  EXPECT_EQ(Values<std::string>(out[0]),
            (S{"\2", "a", "b", "cd", "\3", "\2", "\3", "", "", "", "\2", "\xC3\xA9t\xC3\xA9", "x", "\3", ""}));
  out = Eval("com.microsoft.Tokenizer", A("separators", S{""}), {Str({1}, {"\xC3\xA9 x"})});
  EXPECT_EQ(Values<std::string>(out[0]), (S{"\xC3\xA9", " ", "x"}));
  EXPECT_EQ(Eval("com.microsoft.Tokenizer", words, {Str({2}, {"", ","})})[0].shape(), Shape({2, 0}));
  EXPECT_BAD_INPUT(TryEval("com.microsoft.Tokenizer", A("separators", S{"("}), {x}), "is wrong at offset");
  EXPECT_BAD_INPUT(TryEval("com.microsoft.Tokenizer", A(), {x}), "one of separators and tokenexp");
}

}  // namespace
}  // namespace tenon::kernels::testing
