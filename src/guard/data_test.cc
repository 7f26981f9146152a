#include "guard/data.h"

#include "guard/testing.h"

namespace tenon::guard::testing {
namespace {

using ::testing::HasSubstr;

const char* const kScores = "graph g(x: float32[batch,3]) -> (y) {\n y = Relu(x)\n}";
const char* const kTwoInputs =
    "graph g(ids: int64[batch,seq], mask: float32[batch,seq]) -> (y) {\n c = Cast(ids) {to=1}\n y = Mul(c, mask)\n}";

std::vector<float> Values(const HostTensor& t) {
  const auto* p = static_cast<const float*>(t.data);
  return {p, p + t.bytes / sizeof(float)};
}

std::string OpenError(const std::string& path, const Session& session) {
  auto data = DataSet::Open(path, session);
  if (!data.ok()) {
    EXPECT_EQ(data.status().code(), Code::kBadInput) << data.status().message();
    return data.status().message();
  }
  for (size_t i = 0; i < (*data)->size(); ++i) {
    const auto sample = (*data)->Load(i);
    if (!sample.ok()) {
      EXPECT_EQ(sample.status().code(), Code::kBadInput) << sample.status().message();
      return sample.status().message();
    }
  }
  return "no error";
}

TEST(Data, PartsALabelledBatchIntoRows) {
  const auto session = SessionOf(kScores);
  for (const bool deflated : {false, true}) {
    const Folder folder;
    WriteNpz(folder / "a.npz", {{"x", Counting({4, 3})}, {"labels", Tensor::FromVector<int64_t>({4}, {3, 2, 1, 0})}}, deflated);
    WriteNpz(folder / "b.npz", {{"x", Counting({1, 3}, -1)}, {"labels", Tensor::FromVector<int64_t>({1}, {7})}}, deflated);
    auto data = DataSet::Open(folder.path(), *session);
    ASSERT_TRUE(data.ok()) << data.status().message();
    ASSERT_EQ((*data)->size(), 5u);
    EXPECT_TRUE((*data)->has_labels());
    for (const size_t i : {2u, 0u, 3u, 1u}) {   // back and forth: unpacking starts again where it must
      auto sample = (*data)->Load(i);
      ASSERT_TRUE(sample.ok()) << sample.status().message();
      const auto first = static_cast<float>(3 * i);
      EXPECT_EQ(sample->inputs[0].shape, (std::vector<int64_t>{1, 3}));
      EXPECT_EQ(Values(sample->inputs[0]), (std::vector<float>{first, first + 1, first + 2}));
      EXPECT_EQ(sample->labels.Data<int64_t>()[0], 3 - static_cast<int64_t>(i));
      EXPECT_THAT(sample->where, HasSubstr("a.npz', row " + std::to_string(i)));
    }
    EXPECT_EQ((*data)->Load(4)->labels.Data<int64_t>()[0], 7);
    EXPECT_THAT((*data)->Describe(), HasSubstr("5 samples, rows of 2 .npz files"));
  }
}

TEST(Data, PartsWithoutLabelsOnlyWhatIsABatch) {
  const Folder folder;
  WriteNpz(folder / "a.npz", {{"x", Counting({4, 3})}});
  EXPECT_EQ(Get(DataSet::Open(folder.path(), *SessionOf(kScores)))->size(), 4u);
  DataOptions whole;
  whole.batches = Batches::kWhole;
  EXPECT_EQ(Get(DataSet::Open(folder.path(), *SessionOf(kScores), whole))->size(), 1u);
  const auto sequence = SessionOf("graph g(x: float32[seq_len,3]) -> (y) {\n y = Relu(x)\n}");
  EXPECT_EQ(Get(DataSet::Open(folder.path(), *sequence))->size(), 1u);
  const auto reduced = SessionOf("graph g(x: float32[n,3]) -> (y) {\n a: int64[1] = const [0]\n y = ReduceSum(x, a)\n}");
  EXPECT_EQ(Get(DataSet::Open(folder.path(), *reduced))->size(), 1u);
  const auto pairs = SessionOf("graph g(x: float32[2,3]) -> (y) {\n y = Relu(x)\n}");
  auto data = Get(DataSet::Open(folder.path(), *pairs));
  ASSERT_EQ(data->size(), 2u);
  EXPECT_EQ(data->Load(1)->rows, 2);
  EXPECT_EQ(Values(data->Load(1)->inputs[0]), (std::vector<float>{6, 7, 8, 9, 10, 11}));
}

TEST(Data, AddsTheBatchAxisOfASingleSample) {
  const Folder folder;
  WriteNpz(folder / "a.npz", {{"ids", Tensor::FromVector<int32_t>({2}, {1, 2})}, {"mask", Floats({2}, {1, 0})}});
  WriteNpz(folder / "b.npz", {{"ids", Tensor::FromVector<int64_t>({1, 3}, {1, 2, 3})}, {"mask", Floats({1, 3}, {1, 1, 0})}});
  const auto session = SessionOf(kTwoInputs);
  auto data = DataSet::Open(folder.path(), *session);
  ASSERT_TRUE(data.ok()) << data.status().message();
  ASSERT_EQ((*data)->size(), 2u);
  auto sample = (*data)->Load(0);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->inputs[0].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(sample->inputs[0].dtype, DType::kI64);   // widened from int32
  EXPECT_EQ((*data)->Load(1)->inputs[1].shape, (std::vector<int64_t>{1, 3}));
}

TEST(Data, ReadsFoldersOfNpy) {
  const auto one = SessionOf(kScores);
  const auto two = SessionOf(kTwoInputs);
  const Folder folder;
  const auto write = [&](const std::string& name, const Tensor& t) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    ASSERT_TRUE(media::WriteNpy(folder / name, t.view()).ok());
  };
  write("batch/x.npy", Counting({4, 3}));
  write("batch/labels.npy", Tensor::FromVector<int32_t>({4}, {0, 1, 2, 0}));
  EXPECT_EQ(Get(DataSet::Open(folder / "batch", *one))->size(), 4u);
  EXPECT_EQ(Get(DataSet::Open(folder / "batch", *one))->Load(2)->labels.Data<int32_t>()[0], 2);
  write("files/0.npy", Counting({3}));
  write("files/1.npy", Counting({3}));
  EXPECT_EQ(Get(DataSet::Open(folder / "files", *one))->size(), 2u);
  write("nested/0/ids.npy", Tensor::FromVector<int64_t>({1, 2}, {1, 2}));
  write("nested/0/mask.npy", Counting({1, 2}));
  write("nested/1/ids.npy", Tensor::FromVector<int64_t>({1, 1}, {1}));
  write("nested/1/mask.npy", Counting({1, 1}));
  EXPECT_EQ(Get(DataSet::Open(folder / "nested", *two))->size(), 2u);
  EXPECT_THAT(OpenError(folder / "files", *two), HasSubstr("a model with 2 inputs needs an .npy file of each, as 'ids.npy'"));
}

TEST(Data, SaysWhatIsWrongWithIt) {
  const auto session = SessionOf(kScores);
  const Folder folder;
  EXPECT_THAT(OpenError(folder / "none", *session), HasSubstr("there is no such file"));
  EXPECT_THAT(OpenError(folder.path(), *session), HasSubstr("no data that is known; allowed: .npz"));
  WriteNpz(folder / "a.npz", {{"z", Counting({4, 3})}});
  EXPECT_THAT(OpenError(folder.path(), *session), HasSubstr("a.npz': holds no array 'x', which the model takes; it holds 'z'"));
  WriteNpz(folder / "a.npz", {{"x", Counting({4, 5})}});
  EXPECT_THAT(OpenError(folder.path(), *session), HasSubstr("array 'x': shape 1x5; the model takes [batch, 3]"));
  WriteNpz(folder / "a.npz", {{"x", Tensor::FromVector<int64_t>({1, 3}, {1, 2, 3})}});
  EXPECT_THAT(OpenError(folder.path(), *session), HasSubstr("elements are int64; allowed: float32 or another width"));
  WriteNpz(folder / "a.npz", {{"x", Counting({2, 3})}, {"labels", Counting({2})}});
  WriteNpz(folder / "b.npz", {{"x", Counting({2, 3})}});
  EXPECT_THAT(OpenError(folder.path(), *session), HasSubstr("b.npz'; holds no 'labels' although other files do"));
  const auto pairs = SessionOf("graph g(x: float32[2,3]) -> (y) {\n y = Relu(x)\n}");
  WriteNpz(folder / "b.npz", {{"x", Counting({3, 3})}});
  EXPECT_THAT(OpenError(folder / "b.npz", *pairs), HasSubstr("the first extent must be a multiple of 2"));
}

TEST(Data, RefusesHostileArchives) {
  const auto session = SessionOf(kScores);
  const Folder folder;
  const std::string path = folder / "a.npz";
  std::ofstream(path) << "PK\x03\x04 this is no archive at all";
  EXPECT_THAT(OpenError(path, *session), HasSubstr("not a zip archive"));
  WriteZip(path, {{"readme.txt", "hello"}}, false);
  EXPECT_THAT(OpenError(path, *session), HasSubstr("only .npy arrays are allowed"));
  std::string huge = NpyBytes(Counting({4, 3}));
  huge.replace(huge.find("(4, 3)"), 6, "(9999999999, 3)");
  huge.erase(huge.find_last_of('}') + 1, 9);   // keep the header's length
  WriteZip(path, {{"x.npy", huge}}, true);
  EXPECT_THAT(OpenError(path, *session), HasSubstr("array 'x': cut off"));
  WriteZip(path, {{"x.npy", "\x93NUMPY"}}, false);
  EXPECT_THAT(OpenError(path, *session), HasSubstr("not an .npy file"));
  // Every cut and many flips of one byte give an error or right values, never a crash.
  WriteNpz(path, {{"x", Counting({4, 3})}, {"labels", Tensor::FromVector<int64_t>({4}, {3, 2, 1, 0})}}, true);
  std::ifstream in(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (size_t n = 0; n < whole.size(); n += 7) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, n);
    EXPECT_NE(OpenError(path, *session), "no error") << n;
  }
  for (size_t n = 0; n < whole.size(); ++n) {
    std::string bad = whole;
    bad[n] = static_cast<char>(bad[n] ^ 0x5A);
    std::ofstream(path, std::ios::binary) << bad;
    auto data = DataSet::Open(path, *session);
    for (size_t i = 0; data.ok() && i < (*data)->size(); ++i) (void)(*data)->Load(i);
  }
}

TEST(Data, Q01_OrderAndSplitRepeat) {
  const auto session = SessionOf(kScores);
  std::vector<std::vector<float>> orders;
  for (const bool backwards : {false, true}) {
    const Folder folder;
    for (int i = 0; i < 6; ++i) {
      const int k = backwards ? 5 - i : i;   // folders list files as they were made, or by hash
      WriteNpz(folder / fmt::format("{}.npz", k), {{"x", Counting({1, 3}, static_cast<float>(k))}});
    }
    auto data = Get(DataSet::Open(folder.path(), *session));
    auto& order = orders.emplace_back();
    for (const size_t i : Get(SplitSamples(data->size(), 0.5, 7)).deciding)
      order.push_back(Values(Get(data->Load(i)).inputs[0])[1]);
  }
  EXPECT_EQ(orders[0], orders[1]);
}

TEST(Data, SplitsTheSameWayForTheSameSeed) {
  const auto a = SplitSamples(10, 0.3, 1);
  const auto b = SplitSamples(10, 0.3, 1);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->deciding, b->deciding);
  EXPECT_EQ(a->held_out.size(), 3u);
  std::vector<size_t> all = a->deciding;
  all.insert(all.end(), a->held_out.begin(), a->held_out.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(all[i], i);
  EXPECT_NE(SplitSamples(10, 0.3, 2)->held_out, a->held_out);
  EXPECT_EQ(SplitSamples(2, 0.01)->held_out.size(), 1u);
  EXPECT_EQ(SplitSamples(1).status().code(), Code::kBadInput);
}

TEST(Data, MakesUpTheSameValuesForTheSameSeed) {
  const auto session = SessionOf(kTwoInputs);
  auto a = DataSet::Random(*session, 2);
  auto b = DataSet::Random(*session, 2);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(Values((*a)->Load(1)->inputs[1]), Values((*b)->Load(1)->inputs[1]));
  EXPECT_NE(Values((*a)->Load(0)->inputs[1]), Values((*a)->Load(1)->inputs[1]));
}

}  // namespace
}  // namespace tenon::guard::testing
