// Data that is not arrays: lines of JSON, pictures.
#include "guard/testing.h"
#include "media/preprocess.h"

namespace tenon::guard::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kTwoInputs =
    "graph g(ids: int64[batch,seq], mask: float32[batch,seq]) -> (y) {\n c = Cast(ids) {to=1}\n y = Mul(c, mask)\n}";
const char* const kPicture = "graph g(x: float32[1,3,h,w]) -> (y) {\n y = Relu(x)\n}";

std::vector<float> Values(const HostTensor& t) {
  const auto* p = static_cast<const float*>(t.data);
  return {p, p + t.bytes / sizeof(float)};
}

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string FirstError(const std::string& path, const Session& session, const DataOptions& options = {}) {
  auto data = DataSet::Open(path, session, options);
  if (!data.ok()) return data.status().message();
  for (size_t i = 0; i < (*data)->size(); ++i) {
    const auto sample = (*data)->Load(i);
    if (!sample.ok()) return sample.status().message();
  }
  return "no error";
}

TEST(JsonLines, OneSampleALine) {
  const auto session = SessionOf(kTwoInputs);
  const Folder folder;
  const std::string path = folder / "a.jsonl";
  Write(path, "{\"ids\": [1, 2], \"mask\": [1, 0.5], \"label\": 3}\n\n{\"ids\": [[4]], \"mask\": [[1]], \"label\": 5}");
  auto data = Get(DataSet::Open(path, *session));
  ASSERT_EQ(data->size(), 2u);
  EXPECT_TRUE(data->has_labels());
  const Sample first = Get(data->Load(0));
  EXPECT_EQ(first.inputs[0].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(Values(first.inputs[1]), ElementsAre(1, 0.5));
  EXPECT_EQ(first.labels.Data<int64_t>()[0], 3);
  EXPECT_EQ(Get(data->Load(1)).labels.Data<int64_t>()[0], 5);
  EXPECT_EQ(Get(DataSet::Open(folder.path(), *session))->size(), 2u);
}

TEST(JsonLines, SaysWhatIsWrongInWhichLine) {
  const auto session = SessionOf(kTwoInputs);
  const Folder folder;
  const std::string path = folder / "a.jsonl";
  const std::string good = "{\"ids\": [1], \"mask\": [1]}\n";
  const auto error = [&](const std::string& line) {
    Write(path, good + line);
    return FirstError(path, *session);
  };
  EXPECT_THAT(error("{\"ids\": [1]"), HasSubstr("line 2: not JSON"));
  EXPECT_THAT(error("[1]"), HasSubstr("line 2: array; allowed: an object"));
  EXPECT_THAT(error("{\"ids\": [1]}"), HasSubstr("line 2: 'mask': the line does not have it"));
  EXPECT_THAT(error("{\"ids\": [1.5], \"mask\": [1]}"), HasSubstr("'ids': elements are float64; allowed: int64"));
  EXPECT_THAT(error("{\"ids\": [[1, 2], [3]], \"mask\": [1]}"), HasSubstr("arrays of unequal length"));
  EXPECT_THAT(error("{\"ids\": [[1], 3], \"mask\": [1]}"), HasSubstr("arrays of unequal length"));
  EXPECT_THAT(error("{\"ids\": [1, [2]], \"mask\": [1]}"), HasSubstr("arrays of unequal depth"));
  EXPECT_THAT(error("{\"ids\": [1, null], \"mask\": [1]}"), HasSubstr("an element is null"));
  EXPECT_THAT(error("{\"ids\": [1], \"mask\": [[[1]]]}"), HasSubstr("the model takes [batch, seq]"));
  EXPECT_THAT(error("{\"ids\": [1], \"mask\": [1], \"labels\": 1}"), HasSubstr("some lines have 'labels' and some have not"));
  EXPECT_NE(error(std::string(100000, '[')), "no error");
  EXPECT_NE(error("{\"ids\": " + std::string(1000, '[') + std::string(1000, ']') + "}"), "no error");
}

// 3 x 2 pixels: red, green, blue; white, black, grey.
std::string SmallPicture() {
  const unsigned char pixels[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 100, 100, 100};
  return "P6\n3 2\n255\n" + std::string(reinterpret_cast<const char*>(pixels), sizeof(pixels));
}

TEST(Pictures, LabelsStandInAFileOrInFoldersOfClasses) {
  const auto session = SessionOf(kPicture);
  const Folder folder;
  Write(folder / "flat/a b.ppm", SmallPicture());
  Write(folder / "flat/c.ppm", SmallPicture());
  auto plain = Get(DataSet::Open(folder / "flat", *session));
  EXPECT_FALSE(plain->has_labels());
  EXPECT_EQ(Get(plain->Load(0)).inputs[0].shape, (std::vector<int64_t>{1, 3, 2, 3}));
  EXPECT_THAT(Values(Get(plain->Load(0)).inputs[0]), ::testing::Contains(1.0f));
  Write(folder / "flat/labels.csv", "c.ppm,17\na b.ppm,4\n");
  EXPECT_EQ(Get(Get(DataSet::Open(folder / "flat", *session))->Load(0)).labels.Data<int64_t>()[0], 4);
  Write(folder / "flat/labels.txt", "a b.ppm\thello world\nc.ppm\tx\n");
  EXPECT_EQ(Get(Get(DataSet::Open(folder / "flat", *session))->Load(0)).labels.Data<std::string>()[0], "hello world");
  Write(folder / "flat/labels.txt", "a b.ppm\thello world\n");
  EXPECT_THAT(FirstError(folder / "flat", *session), HasSubstr("has no label for 'c.ppm'"));
  Write(folder / "classes/cat/1.ppm", SmallPicture());
  Write(folder / "classes/dog/1.ppm", SmallPicture());
  auto classes = Get(DataSet::Open(folder / "classes", *session));
  EXPECT_EQ(Get(classes->Load(1)).labels.Data<int64_t>()[0], 1);
  Write(folder / "flat/labels.txt", "");
  Write(folder / "flat/d.png", "no picture");
  EXPECT_NE(FirstError(folder / "flat", *session), "no error");
  EXPECT_THAT(FirstError(folder / "flat", *SessionOf(kTwoInputs)), HasSubstr("pictures are for models with one input"));
}

std::vector<float> Prepared(const std::string& steps, const Shape& shape) {
  Picture p;
  p.width = 3;
  p.height = 2;
  const std::string bytes = SmallPicture().substr(11);
  p.pixels.assign(bytes.begin(), bytes.end());
  const Tensor t = Get(media::Prepare(p, Get(media::ParsePreprocess(steps)), DType::kF32));
  EXPECT_EQ(t.shape().ToString(), shape.ToString());
  return {t.Data<float>(), t.Data<float>() + t.shape().num_elements()};
}

TEST(Pictures, AreCroppedPaddedAndScaledAsTheFileSays) {
  EXPECT_THAT(Prepared("layout: NHWC", {1, 2, 3, 3}),
              ElementsAre(255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 100, 100, 100));
  EXPECT_THAT(Prepared("{crop: 1, layout: NHWC, color_format: BGR}", {1, 1, 1, 3}), ElementsAre(0, 255, 0));
  EXPECT_THAT(Prepared("crop: {width: 2}\npad: {width: 3, height: 2, value: 7}\nmean: [1, 2, 3]\nstd: [1, 1, 2]\n", {1, 3, 2, 3}),
              ElementsAre(254, -1, 6, 254, -1, 6, -2, 253, 5, 253, -2, 5, -1.5, -1.5, 2, 126, -1.5, 2));
  const auto gray = Prepared("{color_format: GRAY, scale: 0.01}", {1, 1, 2, 3});
  EXPECT_NEAR(gray[0], 0.299 * 2.55, 1e-6);
  EXPECT_NEAR(gray[5], 1, 1e-6);
  EXPECT_EQ(Prepared("resize: 4", {1, 3, 4, 6}).size(), 72u);
  EXPECT_EQ(Prepared("resize: {height: 4}", {1, 3, 4, 6}).size(), 72u);
  EXPECT_EQ(Prepared("resize: {width: 5, height: 4}", {1, 3, 4, 5}).size(), 60u);
}

TEST(Pictures, Q04_LongLinesKeepTheirLength) {
  const auto session = SessionOf("graph g(x: float32[batch,3,4,width]) -> (y) {\n y = Relu(x)\n}");
  const Folder folder;
  for (const int width : {6, 60}) {
    Write(folder / fmt::format("{:02}.ppm", width),
          fmt::format("P6\n{} 4\n255\n{}", width, std::string(static_cast<size_t>(width) * 12, '\x20')));
  }
  Write(folder / "steps/steps.json", "{\"resize\": {\"height\": 4}}");
  DataOptions options;
  options.preprocess = folder / "steps/steps.json";
  auto data = Get(DataSet::Open(folder.path(), *session, options));
  EXPECT_EQ(Get(data->Load(0)).inputs[0].shape, (std::vector<int64_t>{1, 3, 4, 6}));
  EXPECT_EQ(Get(data->Load(1)).inputs[0].shape, (std::vector<int64_t>{1, 3, 4, 60}));
}

TEST(Pictures, WrongStepsAreNamed) {
  const auto error = [](const std::string& text) { return media::ParsePreprocess(text).status().message(); };
  EXPECT_THAT(error("resise: 3"), HasSubstr("unknown key 'resise'; allowed: resize, crop"));
  EXPECT_THAT(error("resize: -3"), HasSubstr("'resize' is -3; allowed: a number of pixels"));
  EXPECT_THAT(error("resize: {w: 3}"), HasSubstr("unknown key 'resize.w'; allowed: width, height"));
  EXPECT_THAT(error("crop: [1, 2]"), HasSubstr("'crop' is [1, 2]"));
  EXPECT_THAT(error("std: [1, 0, 1]"), HasSubstr("numbers other than 0"));
  EXPECT_THAT(error("mean: [1, 2]"), HasSubstr("one for each of 3 channels"));
  EXPECT_THAT(error("color_format: YUV"), HasSubstr("RGB, BGR, GRAY"));
  EXPECT_THAT(error("scale: nan"), HasSubstr("a number"));
  EXPECT_THAT(error("a: [1"), HasSubstr("line "));
  EXPECT_THAT(error("- 1"), HasSubstr("key: value"));
  EXPECT_THAT(error("[1, 2]: 3"), HasSubstr("no word"));
  const auto session = SessionOf(kPicture);
  const Folder folder;
  Write(folder / "a.ppm", SmallPicture());
  Write(folder / "steps.yaml", "crop: 3\n");
  DataOptions options;
  options.preprocess = folder / "steps.yaml";
  EXPECT_THAT(FirstError(folder / "a.ppm", *session, options), HasSubstr("crop to 3x3 of a picture of 3x2"));
  options.preprocess = folder / "none.yaml";
  EXPECT_NE(FirstError(folder / "a.ppm", *session, options), "no error");
}

}  // namespace
}  // namespace tenon::guard::testing
