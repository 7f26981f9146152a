// The user's command as a metric: it gets the outputs of all samples in a folder and prints a number.
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "guard/judge.h"
#include "guard/source.h"
#include "guard/values.h"

namespace tenon::guard {
namespace {

namespace fs = std::filesystem;

// A folder of its own below TMPDIR, gone with the object.
class TemporaryFolder {
 public:
  static Result<std::unique_ptr<TemporaryFolder>> Make() {
    const char* base = std::getenv("TMPDIR");
    std::string path = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/tenon-outputs-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return ResourceLimit("cannot make a temporary folder '{}'", path);
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(path));
  }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string ShellQuoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

class CommandJudge final : public Judge {
 public:
  CommandJudge(const MetricSpec& metric, std::unique_ptr<TemporaryFolder> folder) : metric_(metric), folder_(std::move(folder)) {}

  Status Add(const Sample& sample, const std::vector<HostTensor>& outputs,
             const std::vector<HostTensor>* /*reference*/) override {
    const std::string folder = fmt::format("{}/{:06}", folder_->path(), samples_++);
    std::error_code error;
    fs::create_directory(folder, error);
    if (error) return ResourceLimit("cannot make the folder '{}'; {}", folder, error.message());
    for (const HostTensor& t : outputs) {
      if (t.is_sequence) continue;
      TENON_RETURN_IF_ERROR(media::WriteNpy(folder + "/" + FileNameOf(t.name) + ".npy", ViewOf(t)));
    }
    if (sample.labels.defined()) TENON_RETURN_IF_ERROR(media::WriteNpy(folder + "/labels.npy", sample.labels.view()));
    return Status::Ok();
  }

  Result<Evaluation> Finish() override {
    TENON_ASSIGN_OR_RETURN(const std::string text, RunCommand());
    Evaluation evaluation;
    std::vector<double> numbers;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
      line.erase(0, line.find_first_not_of(" \t"));
      if (line.empty()) continue;
      double value = 0;
      const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
      if (error != std::errc() || stop != line.data() + line.size() || !std::isfinite(value))
        return BadInput("metric command '{}' printed '{}'; allowed: a number, or one a line for each sample", metric_.command,
                        line);
      numbers.push_back(value);
    }
    if (numbers.size() == samples_ && samples_ > 1) {
      evaluation.values = std::move(numbers);
      evaluation.value = Combined(evaluation.values, evaluation.combine);
      return evaluation;
    }
    if (numbers.size() != 1) {
      return BadInput("metric command '{}' printed {} numbers; allowed: one, or one a line for each of {} samples",
                      metric_.command, numbers.size(), samples_);
    }
    evaluation.value = numbers[0];
    return evaluation;
  }

 private:
  Result<std::string> RunCommand() const {
    std::fflush(stdout);
    FILE* pipe = popen((metric_.command + " " + ShellQuoted(folder_->path())).c_str(), "r");
    if (pipe == nullptr) return ResourceLimit("cannot start the metric command '{}'", metric_.command);
    std::string text;
    char buffer[4096];
    constexpr size_t kMaxText = size_t{64} << 20;
    for (size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0 && text.size() < kMaxText;)
      text.append(buffer, got);
    const int status = pclose(pipe);
    if (status != 0) {
      return BadInput("metric command '{}' failed; {}", metric_.command,
                      WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status)) : "killed");
    }
    return text;
  }

  MetricSpec metric_;
  std::unique_ptr<TemporaryFolder> folder_;
  size_t samples_ = 0;
};

}  // namespace

Result<std::unique_ptr<Judge>> MakeCommandJudge(const MetricSpec& metric) {
  TENON_ASSIGN_OR_RETURN(auto folder, TemporaryFolder::Make());
  return {std::make_unique<CommandJudge>(metric, std::move(folder))};
}

}  // namespace tenon::guard
