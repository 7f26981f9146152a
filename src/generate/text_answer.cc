#include "generate/text_answer.h"

#include <chrono>

#include "generate/stop.h"

namespace tenon::generate {

Result<TextAnswer> AnswerText(Decoder& decoder, std::shared_ptr<const text::Tokenizer> tokenizer, std::span<const int32_t> prompt,
                              const TextOptions& options, const std::function<void(const std::string&)>& show) {
  TENON_RETURN_IF_ERROR(options.sampler.Check());
  const auto start = std::chrono::steady_clock::now();
  TextAnswer out;
  Sampler sampler(options.sampler);
  for (int32_t id : prompt) sampler.Accept(id);
  StopStrings stops(options.stop);
  std::unique_ptr<text::StreamDecoder> stream;
  if (tokenizer != nullptr) stream = std::make_unique<text::StreamDecoder>(tokenizer);
  const auto give = [&](const std::string& piece) {
    out.text += piece;
    if (show && !piece.empty()) show(piece);
  };
  out.reused = decoder.Reuse(prompt);
  auto answer = Generate(
      decoder, prompt.subspan(static_cast<size_t>(out.reused)), options.loop,
      [&](std::span<const float> logits) { return sampler.Sample(logits); },
      [&](int32_t token) {
        if (out.first_token_s == 0) {
          out.first_token_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
        if (options.sampler.logprobs > 0) out.logprobs.push_back(sampler.logprobs());
        give(stops.Add(stream != nullptr ? stream->Add(token) : std::to_string(token) + " "));
        return !stops.stopped();
      });
  if (!answer.ok() && answer.status().code() == Code::kCancelled) {
    out.answer.finish = Finish::kCancelled;
    return out;
  }
  TENON_RETURN_IF_ERROR(answer.status());
  out.answer = std::move(answer).value();
  if (stream != nullptr) give(stops.Add(stream->Finish()));
  give(stops.Finish());
  out.stop = stops.found();
  if (stops.stopped()) out.answer.finish = Finish::kStop;
  return out;
}

}  // namespace tenon::generate
