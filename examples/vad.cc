// Finds speech in a recording with silero-vad, carrying the model's state from window to window.
//
//   vad silero_vad.onnx speech.wav
//
// Takes 16-bit mono WAV files at 16 kHz. Each window has 512 new samples behind the last 64 of the window before.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tenon/compile.h"

namespace {

constexpr int64_t kRate = 16000;
constexpr int64_t kWindow = 512;
constexpr int64_t kContext = 64;
constexpr float kStart = 0.5f;   // speech begins above this probability
constexpr float kStop = 0.35f;   // and ends below this one

int Fail(const tenon::Status& status) {
  std::fprintf(stderr, "vad: %s\n", status.message().c_str());
  return static_cast<int>(status.code());
}

uint32_t Little(const std::string& b, size_t at, size_t bytes) {
  uint32_t v = 0;
  for (size_t i = 0; i < bytes; ++i) v |= static_cast<uint32_t>(static_cast<unsigned char>(b[at + i])) << (8 * i);
  return v;
}

tenon::Result<std::vector<float>> ReadWav(const std::string& path) {
  const auto bad = [&](const char* why) { return tenon::Status(tenon::Code::kBadInput, "'" + path + "'; " + why); };
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad("cannot be opened");
  const std::string b((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (b.size() < 12 || b.compare(0, 4, "RIFF") != 0 || b.compare(8, 4, "WAVE") != 0) return bad("not a WAV file");
  bool format_fits = false;
  for (size_t at = 12; at + 8 <= b.size();) {
    const size_t size = Little(b, at + 4, 4);
    const size_t body = at + 8;
    if (b.compare(at, 4, "fmt ") == 0 && size >= 16 && body + 16 <= b.size()) {
      format_fits = Little(b, body, 2) == 1 && Little(b, body + 2, 2) == 1 && Little(b, body + 4, 4) == kRate &&
                    Little(b, body + 14, 2) == 16;
    }
    if (b.compare(at, 4, "data") == 0) {
      if (!format_fits) return bad("must be 16-bit PCM, mono, 16 kHz");
      const size_t samples = std::min(size, b.size() - body) / 2;
      std::vector<float> out(samples);
      for (size_t i = 0; i < samples; ++i)
        out[i] = static_cast<float>(static_cast<int16_t>(Little(b, body + 2 * i, 2))) / 32768.0f;
      return out;
    }
    at = body + size + (size & 1);
  }
  return bad("has no samples");
}

template <typename T>
tenon::HostTensor Input(const char* name, tenon::DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  tenon::HostTensor t;
  t.name = name;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.data = values.data();
  t.bytes = values.size() * sizeof(T);
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: vad MODEL WAV\n");
    return 2;
  }
  auto session = tenon::OpenModel(argv[1]);
  if (!session.ok()) return Fail(session.status());
  auto samples = ReadWav(argv[2]);
  if (!samples.ok()) return Fail(samples.status());
  const tenon::Status carried = (*session)->CarryState("stateN", "state");
  if (!carried.ok()) return Fail(carried);

  const std::vector<float> silence(2 * 128, 0.0f);
  const std::vector<int64_t> rate = {kRate};
  std::vector<float> window(kContext + kWindow, 0.0f);
  std::optional<double> begin;
  const auto count = static_cast<int64_t>(samples->size());
  for (int64_t at = 0; at < count; at += kWindow) {
    std::memmove(window.data(), window.data() + kWindow, kContext * sizeof(float));
    for (int64_t i = 0; i < kWindow; ++i) {
      window[static_cast<size_t>(kContext + i)] = at + i < count ? (*samples)[static_cast<size_t>(at + i)] : 0.0f;
    }
    std::vector<tenon::HostTensor> inputs = {Input("input", tenon::DType::kF32, {1, kContext + kWindow}, window),
                                             Input("sr", tenon::DType::kI64, {}, rate)};
    if (at == 0) inputs.push_back(Input("state", tenon::DType::kF32, {2, 1, 128}, silence));
    auto outputs = (*session)->Run(inputs);
    if (!outputs.ok()) return Fail(outputs.status());
    const float speech = *static_cast<const float*>((*outputs)[0].data);
    const double seconds = static_cast<double>(at) / kRate;
    if (!begin && speech >= kStart) begin = seconds;
    if (begin && speech < kStop) {
      std::printf("speech %.2f s to %.2f s\n", *begin, seconds);
      begin.reset();
    }
  }
  if (begin) std::printf("speech %.2f s to %.2f s\n", *begin, static_cast<double>(count) / kRate);
  return 0;
}
