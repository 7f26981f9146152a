// Reads golden files (scripts/make_kernel_goldens.py) and compares a kernel's answers with them. For tests only.
#ifndef TENON_KERNELS_GOLDEN_TEST_UTIL_H_
#define TENON_KERNELS_GOLDEN_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace tenon::kernels::testing {

struct Golden {
  std::string name, op;
  Attrs attrs;
  std::vector<Tensor> in, out;  // undefined: absent
};

inline std::string FromHex(const std::string& word) {
  std::string bytes;
  for (size_t i = 1; i + 1 < word.size(); i += 2) bytes += static_cast<char>(std::stoi(word.substr(i, 2), nullptr, 16));
  return bytes;
}

inline Tensor ReadTensor(std::istringstream& line) {
  int dtype = 0, rank = 0;
  line >> dtype;
  if (dtype == 0) return {};
  line >> rank;
  Shape shape = Shape::OfRank(rank);
  for (int i = 0; i < rank; ++i) line >> shape[i];
  std::string word;
  const DType t = static_cast<DType>(dtype);
  if (t == DType::kString) {
    std::vector<std::string> strings;
    while (line >> word) strings.push_back(FromHex(word));
    return Tensor::FromStrings(shape, strings);
  }
  line >> word;
  const std::string bytes = FromHex(word);
  auto tensor = Tensor::Allocate(t, shape);
  CHECK(tensor.ok() && tensor->bytes() == bytes.size());
  if (!bytes.empty()) std::memcpy(tensor->mutable_data(), bytes.data(), bytes.size());
  return *std::move(tensor);
}

inline void ReadAttr(std::istringstream& line, Attrs* attrs) {
  std::string name, kind, word;
  line >> name >> kind;
  size_t n = 0;
  if (kind == "i") {
    int64_t v = 0;
    line >> v;
    attrs->Set(name, v);
  } else if (kind == "f") {
    line >> word;
    attrs->Set(name, std::strtof(word.c_str(), nullptr));
  } else if (kind == "s") {
    line >> word;
    attrs->Set(name, FromHex(word));
  } else if (kind == "is") {
    std::vector<int64_t> v;
    line >> n;
    v.resize(n);
    for (auto& x : v) line >> x;
    attrs->Set(name, v);
  } else if (kind == "fs") {
    std::vector<float> v;
    line >> n;
    while (line >> word) v.push_back(std::strtof(word.c_str(), nullptr));
    attrs->Set(name, v);
  } else if (kind == "ss") {
    std::vector<std::string> v;
    line >> n;
    while (line >> word) v.push_back(FromHex(word));
    attrs->Set(name, v);
  } else {
    attrs->Set(name, ReadTensor(line));
  }
}

inline std::vector<Golden> ReadGoldens(const std::string& file) {
  std::ifstream in(std::string(TENON_SOURCE_DIR "/src/kernels/testdata/") + file);
  CHECK(in.good());
  std::vector<Golden> cases;
  std::string text;
  while (std::getline(in, text)) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "case") {
      cases.emplace_back();
      line >> cases.back().name >> cases.back().op;
    } else if (word == "attr") {
      ReadAttr(line, &cases.back().attrs);
    } else if (word == "in") {
      cases.back().in.push_back(ReadTensor(line));
    } else if (word == "out") {
      cases.back().out.push_back(ReadTensor(line));
    }
  }
  return cases;
}

/// |got - want| <= atol + rtol * |want| for floats; equality for everything else.
inline void ExpectClose(const View& got, const View& want, double rtol, double atol) {
  ASSERT_EQ(DTypeName(got.dtype), DTypeName(want.dtype));
  ASSERT_EQ(got.shape.ToString(), want.shape.ToString());
  const auto a = ToDoubles(got);
  const auto b = ToDoubles(want);
  if (!a || !b) {
    EXPECT_TRUE(SameTensor(got, want));
    return;
  }
  for (size_t i = 0; i < a->size(); ++i) {
    const double x = (*a)[i], y = (*b)[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    ASSERT_TRUE(std::abs(x - y) <= atol + rtol * std::abs(y)) << "element " << i << ": " << x << ", expected " << y;
  }
}

inline double DefaultRtol(DType t) {
  return t == DType::kF16 ? 2e-3 : t == DType::kBF16 ? 1.6e-2 : t == DType::kF64 ? 1e-7 : 2e-5;
}

/// Runs a golden case on `row` (empty: the preferred one).
inline void RunGolden(const Golden& g, hw::IsaMask isa, std::string_view row = {}) {
  SCOPED_TRACE(g.name + " " + std::string(row));
  std::vector<View> in;
  for (const Tensor& t : g.in) in.push_back(t.defined() ? t.view() : View{});
  hw::Team team(2);
  auto got = Evaluate(g.op, g.attrs, in, static_cast<int>(g.out.size()), isa, team, row);
  ASSERT_TRUE(got.ok()) << got.status().message();
  for (size_t i = 0; i < g.out.size(); ++i) {
    if (!g.out[i].defined()) continue;
    const double rtol = DefaultRtol(g.out[i].dtype());
    ExpectClose((*got)[i].view(), g.out[i].view(), rtol, rtol * 0.1);
  }
}

/// Every case on every row that serves it, ISA by ISA.
inline void RunGoldens(const std::string& file, size_t at_least) {
  const auto cases = ReadGoldens(file);
  EXPECT_GE(cases.size(), at_least);
  const hw::IsaMask isa = hw::DetectIsa();
  for (const Golden& g : cases) {
    const OpKernels* op = FindOp(g.op);
    ASSERT_NE(op, nullptr) << g.op;
    RunGolden(g, isa);
    RunGolden(g, hw::kBaseline);
    for (const Row& row : op->rows) {
      if (!hw::Covers(isa, row.needs) || row.needs == 0) continue;
      std::vector<ValueInfo> infos(g.in.size());
      std::vector<View> views(g.in.size());
      for (size_t i = 0; i < g.in.size(); ++i) {
        if (!g.in[i].defined()) continue;
        views[i] = g.in[i].view();
        infos[i] = {g.in[i].dtype(), true, false, g.in[i].shape(), &views[i], std::nullopt};
      }
      std::vector<ValueInfo> outs(g.out.size());
      for (auto& o : outs) o.present = true;
      if (!InferShapes(g.op, {g.attrs, infos, outs}).ok()) continue;
      if (row.can != nullptr && row.can({g.op, g.attrs, infos, outs, isa, 1}) != nullptr) continue;
      RunGolden(g, isa, row.name);
    }
  }
}

}  // namespace tenon::kernels::testing

#endif  // TENON_KERNELS_GOLDEN_TEST_UTIL_H_
