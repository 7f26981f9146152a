#include "server/traces.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "base/dtype.h"
#include "base/status.h"
#include "server/datatype.h"
#include "server/json_text.h"

namespace tenon::server {
namespace {

using Value = std::optional<std::vector<std::string>>;

template <typename T>
Status Number(const std::string& name, const Value& value, T least, std::optional<T>* out) {
  if (!value || value->empty()) {
    out->reset();
    return Status::Ok();
  }
  const std::string& text = (*value)[0];
  T n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (value->size() != 1 || error != std::errc() || end != text.data() + text.size() || n < least)
    return Usage("{} is '{}'; a number of at least {} is expected", name, fmt::join(*value, ", "), least);
  *out = n;
  return Status::Ok();
}

Status Level(const Value& value, std::optional<TraceLevels>* levels) {
  levels->reset();
  if (!value) return Status::Ok();
  TraceLevels on;
  for (const std::string& level : *value) {
    if (level != "OFF" && level != "TIMESTAMPS" && level != "TENSORS")
      return Usage("trace_level is '{}'; allowed: OFF, TIMESTAMPS, TENSORS", level);
    on.timestamps |= level == "TIMESTAMPS";
    on.tensors |= level == "TENSORS";
  }
  *levels = on;
  return Status::Ok();
}

std::vector<std::string> Names(const TraceLevels& levels) {
  std::vector<std::string> names;
  if (levels.timestamps) names.emplace_back("TIMESTAMPS");
  if (levels.tensors) names.emplace_back("TENSORS");
  if (names.empty()) names.emplace_back("OFF");
  return names;
}

// Elements with commas, strings in quotes.
std::string Elements(const HostTensor& t, int64_t count) {
  if (t.dtype == DType::kString) {
    std::string text;
    for (const std::string& s : t.strings) {
      if (!text.empty()) text += ',';
      AppendJsonString(s, &text);
    }
    return text;
  }
  std::string text;
  DispatchDType<TENON_NUMERIC_TYPES, bool>(t.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < count; ++i) {
      T element;
      std::memcpy(&element, static_cast<const char*>(t.data) + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      if (i > 0) text += ',';
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        fmt::format_to(std::back_inserter(text), "{}", element);
      } else if constexpr (std::is_integral_v<T>) {
        fmt::format_to(std::back_inserter(text), "{}",
                       static_cast<std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>(element));
      } else {
        fmt::format_to(std::back_inserter(text), "{}", static_cast<float>(element));
      }
    }
  });
  return text;
}

}  // namespace

uint64_t TraceTime(std::chrono::steady_clock::time_point time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

uint64_t TraceTime() {
  return TraceTime(std::chrono::steady_clock::now());
}

void Trace::AddRequest(uint64_t begin, const InferResponse& response) {
  const InferTimes& t = response.times;
  version = response.version;
  Add("REQUEST_START", begin);
  Add("QUEUE_START", begin);
  const uint64_t compute = begin + t.queue;
  Add("COMPUTE_START", compute);
  Add("COMPUTE_INPUT_END", compute + t.input);
  Add("COMPUTE_OUTPUT_START", compute + t.input + t.infer);
  const uint64_t end = compute + t.input + t.infer + t.output, now = TraceTime();
  Add("COMPUTE_END", end);
  Add("INFER_RESPONSE_COMPLETE", std::max(end, now));
  Add("REQUEST_END", std::max(end, now));
}

void Trace::AddTensors(const char* activity, const std::vector<HostTensor>& all) {
  if (!levels.tensors) return;
  for (const HostTensor& t : all) {
    std::string text = fmt::format(R"("activity":"{}","tensor":{{"name":)", activity);
    AppendJsonString(t.name, &text);
    const auto count = ElementsOf(t.shape, t.name);
    text += ",\"data\":";
    AppendJsonString(count.ok() && *count <= kMostElements ? Elements(t, *count) : "", &text);
    text += fmt::format(R"(,"shape":"{}","dtype":"{}"}})", fmt::join(t.shape, ","), DatatypeName(t.dtype));
    tensors.push_back(std::move(text));
  }
}

Traces::~Traces() {
  if (fd_ >= 0) close(fd_);
}

std::shared_ptr<Trace> Traces::Sample(const std::string& model) {
  const std::lock_guard lock(mutex_);
  const auto it = models_.find(model);
  Settings* own = it == models_.end() ? &server_ : &it->second;
  const TraceLevels levels = own->levels.value_or(*server_.levels);
  if (!levels.any()) return nullptr;
  if (own->seen++ % own->rate.value_or(*server_.rate) != 0) return nullptr;
  int64_t& count = own->count ? *own->count : *server_.count;
  if (count == 0) return nullptr;
  if (count > 0) --count;
  auto trace = std::make_shared<Trace>();
  trace->levels = levels;
  trace->model = model;
  return trace;
}

Status Traces::Append(const std::string& text) {
  if (fd_ >= 0 && frequency_ > 0 && in_file_ >= frequency_) {
    close(fd_);
    fd_ = -1;
  }
  if (fd_ < 0) {
    const std::string file = frequency_ > 0 ? fmt::format("{}.{}", path_, files_++) : path_;
    fd_ = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (fd_ < 0) return ResourceLimit("cannot write '{}'; {}", file, std::strerror(errno));
    end_ = in_file_ = 0;
  }
  // The file is valid JSON after each trace: the next one takes the place of the closing bracket.
  const std::string piece = (in_file_ == 0 ? "[\n" : ",\n") + text;
  const std::string whole = piece + "\n]\n";
  const ssize_t written = pwrite(fd_, whole.data(), whole.size(), static_cast<off_t>(end_));
  if (written != static_cast<ssize_t>(whole.size()))
    return ResourceLimit("cannot write '{}'; {}", path_, written < 0 ? std::strerror(errno) : "no space left");
  end_ += piece.size();
  ++in_file_;
  return Status::Ok();
}

Status Traces::Write(const Trace& trace) {
  const std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  std::string text = fmt::format(R"({{"id":{},"model_name":)", id);
  AppendJsonString(trace.model, &text);
  text += fmt::format(",\"model_version\":{}}}", trace.version.empty() ? "-1" : trace.version);
  if (trace.levels.timestamps) {
    text += fmt::format(",\n{{\"id\":{},\"timestamps\":[", id);
    for (const auto& [name, ns] : trace.timestamps) {
      if (text.back() != '[') text += ',';
      text += fmt::format(R"({{"name":"{}","ns":{}}})", name, ns);
    }
    text += "]}";
  }
  for (const std::string& tensor : trace.tensors) text += fmt::format(",\n{{\"id\":{},{}}}", id, tensor);
  Status status = Append(text);
  if (!status.ok()) active_ = false;
  return status;
}

TraceValues Traces::Read(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  const auto it = models_.find(model);
  const Settings& s = it == models_.end() ? server_ : it->second;
  return {{"trace_file", {path_}},
          {"trace_level", Names(s.levels.value_or(*server_.levels))},
          {"trace_rate", {std::to_string(s.rate.value_or(*server_.rate))}},
          {"trace_count", {std::to_string(s.count.value_or(*server_.count))}},
          {"log_frequency", {std::to_string(frequency_)}}};
}

Status Traces::Change(const std::string& name, const Value& value, bool of_server, Settings* s, uint64_t* frequency) const {
  if (name == "trace_level") return Level(value, &s->levels);
  if (name == "trace_rate") return Number<uint64_t>(name, value, 1, &s->rate);
  if (name == "trace_count") return Number<int64_t>(name, value, -1, &s->count);
  if (name == "log_frequency") {
    std::optional<uint64_t> n;
    TENON_RETURN_IF_ERROR(Number<uint64_t>(name, value, 0, &n));
    if (!of_server && n.value_or(frequency_) != frequency_)
      return Usage("log_frequency is {}; models share that of the server, which is {}", *n, frequency_);
    *frequency = n.value_or(of_server ? 0 : frequency_);
    return Status::Ok();
  }
  if (name == "trace_file") {
    if (!value || *value == std::vector<std::string>{path_}) return Status::Ok();
    return Usage("trace_file cannot be changed while the server runs; tenon serve --trace-file FILE sets it");
  }
  return Usage("unknown setting '{}'; allowed: trace_file, trace_level, trace_rate, trace_count, log_frequency", name);
}

void Traces::SettleActive() {
  active_ = server_.levels->any() || std::any_of(models_.begin(), models_.end(),
                                                 [](const auto& m) { return m.second.levels.value_or(TraceLevels()).any(); });
}

Status Traces::Update(const std::string& model, const TraceChanges& changes) {
  const std::lock_guard lock(mutex_);
  const bool of_server = model.empty();
  const auto it = models_.find(model);
  Settings changed = of_server ? server_ : it == models_.end() ? Settings{} : it->second;
  uint64_t frequency = frequency_;
  for (const auto& [name, value] : changes) TENON_RETURN_IF_ERROR(Change(name, value, of_server, &changed, &frequency));
  if (changed.levels.value_or(TraceLevels()).any() && path_.empty())
    return Usage("trace_level; there is no file for traces; tenon serve --trace-file FILE names one");
  frequency_ = frequency;
  changed.seen = 0;
  if (of_server) {
    server_ = {changed.levels.value_or(TraceLevels()), changed.rate.value_or(1000), changed.count.value_or(-1)};
  } else {
    models_[model] = changed;
    if (!changed.levels && !changed.rate && !changed.count) models_.erase(model);
  }
  SettleActive();
  return Status::Ok();
}

}  // namespace tenon::server
