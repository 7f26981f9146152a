// Reads one line of text from a picture with a PP-OCR recognition model.
//
//   ocr_line ch_PP-OCRv4_rec_infer.onnx line.png
//
// Steps as the model was trained with them: resize to 48 rows keeping the aspect ratio, blue-green-red order, values scaled to
// [-1, 1], padded with zeros to at least 320 columns; then CTC decoding with the characters in the model's metadata.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tenon/compile.h"
#include "tenon/media.h"

namespace {

constexpr int kRows = 48;
constexpr int kLeastColumns = 320;

int Fail(const tenon::Status& status) {
  std::fprintf(stderr, "ocr_line: %s\n", status.message().c_str());
  return static_cast<int>(status.code());
}

// [1, 3, 48, columns], channels in order B, G, R.
std::vector<float> ToInput(const tenon::Picture& picture, int columns) {
  std::vector<float> x(static_cast<size_t>(3 * kRows * columns), 0.0f);
  for (int c = 0; c < 3; ++c) {
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < picture.width; ++column) {
        const uint8_t v = picture.pixels[static_cast<size_t>((row * picture.width + column) * 3 + (2 - c))];
        x[static_cast<size_t>((c * kRows + row) * columns + column)] = static_cast<float>(v) / 127.5f - 1.0f;
      }
    }
  }
  return x;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ocr_line MODEL PICTURE\n");
    return 2;
  }
  auto session = tenon::OpenModel(argv[1]);
  if (!session.ok()) return Fail(session.status());
  const auto character = (*session)->metadata().find("character");
  if (character == (*session)->metadata().end())
    return Fail({tenon::Code::kBadInput, "the model's metadata has no 'character' list"});
  auto picture = tenon::ReadPicture(argv[2]);
  if (!picture.ok()) return Fail(picture.status());
  const int width = std::max(1, static_cast<int>(std::ceil(static_cast<double>(kRows) * picture->width / picture->height)));
  auto line = tenon::ResizePicture(*picture, width, kRows);
  if (!line.ok()) return Fail(line.status());

  const int columns = std::max(kLeastColumns, width);
  const std::vector<float> x = ToInput(*line, columns);
  tenon::HostTensor input;
  input.name = (*session)->inputs()[0].name;
  input.dtype = tenon::DType::kF32;
  input.shape = {1, 3, kRows, columns};
  input.data = x.data();
  input.bytes = x.size() * sizeof(float);
  auto outputs = (*session)->Run({input});
  if (!outputs.ok()) return Fail(outputs.status());
  const tenon::HostTensor& probabilities = (*outputs)[0];
  if (probabilities.dtype != tenon::DType::kF32 || probabilities.shape.size() != 3 || probabilities.shape[2] < 1) {
    return Fail({tenon::Code::kBadInput, "the model does not give [batch, steps, classes]"});
  }
  const auto* p = static_cast<const float*>(probabilities.data);
  const tenon::TextLine read =
      tenon::ReadCtc(p, probabilities.shape[1], probabilities.shape[2], tenon::CtcCharacters(character->second));
  std::printf("%s\n", read.text.c_str());
  return 0;
}
