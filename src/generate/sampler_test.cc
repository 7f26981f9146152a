// Sampling against known distributions, and stop strings.
#include "generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "generate/stop.h"

namespace tenon::generate {
namespace {

SamplerOptions Plain(float temperature = 1) {
  SamplerOptions o;
  o.temperature = temperature;
  o.top_k = 0;
  o.top_p = 1;
  o.min_p = 0;
  return o;
}

std::vector<double> Frequencies(const SamplerOptions& options, const std::vector<float>& logits, int n = 20000) {
  Sampler sampler(options);
  std::vector<double> f(logits.size());
  for (int i = 0; i < n; ++i) f[static_cast<size_t>(sampler.Sample(logits))] += 1.0 / n;
  return f;
}

std::vector<float> Logits(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3);
  return logits;
}

// Five standard deviations of 20,000 draws.
constexpr double kNear = 0.018;

TEST(Sampler, DrawsFromTheDistribution) {
  const std::vector<double> p = {0.5, 0.3, 0.15, 0.05};
  const auto f = Frequencies(Plain(), Logits(p));
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(f[i], p[i], kNear);
  // Temperature 0.5 squares the probabilities.
  const auto cold = Frequencies(Plain(0.5f), Logits(p));
  const double sum = 0.25 + 0.09 + 0.0225 + 0.0025;
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(cold[i], p[i] * p[i] / sum, kNear);
}

TEST(Sampler, Cuts) {
  const std::vector<float> logits = Logits({0.15, 0.5, 0.05, 0.3});
  SamplerOptions o = Plain();
  o.top_k = 2;
  auto f = Frequencies(o, logits);
  EXPECT_NEAR(f[1], 0.5 / 0.8, kNear);
  EXPECT_EQ(f[0] + f[2], 0);
  o = Plain();
  o.top_p = 0.7f;   // 0.5 alone is not enough, 0.5 + 0.3 is
  f = Frequencies(o, logits);
  EXPECT_NEAR(f[3], 0.3 / 0.8, kNear);
  EXPECT_EQ(f[0] + f[2], 0);
  o = Plain();
  o.min_p = 0.25f;  // at least 0.125
  f = Frequencies(o, logits);
  EXPECT_NEAR(f[0], 0.15 / 0.95, kNear);
  EXPECT_EQ(f[2], 0);
  o = Plain();
  o.typical_p = 0.2f;   // entropy 1.14: nearest is -ln 0.3 = 1.20
  f = Frequencies(o, logits);
  EXPECT_NEAR(f[3], 1, 1e-9);
  EXPECT_EQ(f[0] + f[1] + f[2], 0);
}

TEST(Sampler, TopKOfManyIsTheBest) {
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 2654435761u) % 5000) / 1000;
  SamplerOptions few = Plain();
  few.top_k = 5;
  Sampler sampler(few);
  for (int i = 0; i < 1000; ++i) EXPECT_GT(logits[static_cast<size_t>(sampler.Sample(logits))], 4.9945f);
}

TEST(Sampler, SeedsReproduce) {
  const std::vector<float> logits(100, 0.f);
  SamplerOptions o = Plain();
  o.seed = 7;
  Sampler a(o);
  Sampler b(o);
  o.seed = 8;
  Sampler c(o);
  int equal = 0;
  for (int i = 0; i < 200; ++i) {
    const int32_t x = a.Sample(logits);
    EXPECT_EQ(x, b.Sample(logits));
    equal += x == c.Sample(logits);
  }
  EXPECT_LT(equal, 20);
  EXPECT_EQ(UniformAt(7, 3), UniformAt(7, 3));
  EXPECT_NE(UniformAt(7, 3), UniformAt(7, 4));
}

TEST(Sampler, GreedyTakesTheFirstOfTheBest) {
  Sampler s(Plain(0));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(s.Sample(std::vector<float>{nan, 1, 3, 3, -INFINITY}), 2);
  EXPECT_EQ(s.Sample(std::vector<float>{nan, nan}), 0);
  Sampler random(Plain(1));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.Sample(std::vector<float>{nan, -INFINITY, 1, nan}), 2);
}

TEST(Sampler, PenaltiesAndBias) {
  SamplerOptions o = Plain(0);
  o.repetition_penalty = 2;
  Sampler r(o);
  r.Accept(0);
  EXPECT_EQ(r.Sample(std::vector<float>{3, 2, -1}), 1);        // 3 / 2 < 2
  o = Plain(0);
  o.frequency_penalty = 0.6f;
  Sampler f(o);
  f.Accept(0);
  EXPECT_EQ(f.Sample(std::vector<float>{3, 2}), 0);            // 2.4
  EXPECT_EQ(f.Sample(std::vector<float>{3, 2}), 1);            // 1.8
  o = Plain(0);
  o.presence_penalty = 1.5f;
  o.penalty_window = 1;
  Sampler p(o);
  EXPECT_EQ(p.Sample(std::vector<float>{3, 2}), 0);
  EXPECT_EQ(p.Sample(std::vector<float>{3, 2}), 1);
  EXPECT_EQ(p.Sample(std::vector<float>{3, 2}), 0);            // out of the window again
  o = Plain(0);
  o.logit_bias = {{0, -INFINITY}, {1, 5.f}, {99, 1.f}, {-1, 1.f}};
  EXPECT_EQ(Sampler(o).Sample(std::vector<float>{9, 1, 5.5f}), 1);
}

TEST(Sampler, Logprobs) {
  SamplerOptions o = Plain(0);
  o.logprobs = 2;
  Sampler s(o);
  EXPECT_EQ(s.Sample(Logits({0.2, 0.7, 0.1})), 1);
  ASSERT_EQ(s.logprobs().size(), 3u);
  EXPECT_NEAR(s.logprobs()[0].logprob, std::log(0.7), 1e-5);
  EXPECT_EQ(s.logprobs()[2].id, 0);
  EXPECT_NEAR(s.logprobs()[2].logprob, std::log(0.2), 1e-5);
}

TEST(Sampler, OptionsAreChecked) {
  EXPECT_TRUE(SamplerOptions().Check().ok());
  for (auto set : {+[](SamplerOptions* o) { o->temperature = -1; }, +[](SamplerOptions* o) { o->top_p = 0; },
                   +[](SamplerOptions* o) { o->top_k = -2; }, +[](SamplerOptions* o) { o->min_p = NAN; },
                   +[](SamplerOptions* o) { o->logprobs = 21; }, +[](SamplerOptions* o) { o->repetition_penalty = 0; }}) {
    SamplerOptions o;
    set(&o);
    EXPECT_EQ(o.Check().code(), Code::kUsage);
  }
}

std::string Stream(StopStrings* stops, const std::vector<std::string>& parts, std::vector<std::string>* shown) {
  std::string all;
  for (const std::string& part : parts) {
    shown->push_back(stops->Add(part));
    all += shown->back();
  }
  return all + stops->Finish();
}

TEST(FieldCases, V13_StopStrings) {
  std::vector<std::string> shown;
  StopStrings alphabet({"DEFGHIJ"});
  EXPECT_EQ(Stream(&alphabet, {"ABC", "DEF", "G", "HI", "J", "KLM"}, &shown), "ABC");
  EXPECT_EQ(shown, (std::vector<std::string>{"ABC", "", "", "", "", ""}));
  EXPECT_TRUE(alphabet.stopped());
  EXPECT_EQ(alphabet.found(), "DEFGHIJ");
  // A beginning that comes to nothing is shown, and the end of the text is not lost.
  shown.clear();
  StopStrings other({"DEFGHIJ", "xyz", ""});
  EXPECT_EQ(Stream(&other, {"ABCDEF", "Q", "xy"}, &shown), "ABCDEFQxy");
  EXPECT_EQ(shown, (std::vector<std::string>{"ABC", "DEFQ", ""}));
  EXPECT_FALSE(other.stopped());
  // The first in the text wins, what follows in the same part is dropped.
  shown.clear();
  StopStrings two({"world", "o w"});
  EXPECT_EQ(Stream(&two, {"hello world and"}, &shown), "hell");
  // Only as much is held as could begin a stop string.
  shown.clear();
  StopStrings overlap({"aab"});
  EXPECT_EQ(Stream(&overlap, {"aaa", "ab", "c"}, &shown), "aa");
}

}  // namespace
}  // namespace tenon::generate
