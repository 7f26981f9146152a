// A model on its way through the stages of `tenon tune`, and what is at the output file meanwhile: from the moment the model
// could be opened an artifact that works, the default at first, replaced only by what was found to be better.
#ifndef TENON_CLI_TUNE_JOB_H_
#define TENON_CLI_TUNE_JOB_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cli/guarded.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "compile/variants.h"
#include "guard/lowering.h"
#include "tune/kernel_choice.h"

namespace tenon::cli {

struct TuneOptions {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
  std::string stage = "all";
  std::string allow;
  std::string data;
  std::string preprocess;
  std::string metric;
  std::string max_drop = "0.5%";
  std::string budget = "60s";
  std::string records;
  bool resume = false;
  std::vector<std::string> reports;
  double held_out = 0.5;
  uint64_t seed = 42;

  bool graph_stage() const { return stage != "kernel" && stage != "2"; }
  bool kernel_stage() const { return stage != "graph" && stage != "1"; }
};

struct Allowed {
  bool bf16 = false;
  bool int8 = false;
  bool any() const { return bf16 || int8; }
};
Result<Allowed> ParseAllow(const std::string& words);

/// `wish` (--records), "none", or where records are kept by default. Empty: nowhere.
Result<std::string> RecordsPath(const std::string& wish, const std::string& cache_dir);

class TuneJob {
 public:
  TuneJob(const TuneOptions& options, const Context& context) : options_(options), context_(context), progress_(context) {}

  /// Compiles, opens data and records, and leaves the default artifact at the output. The time of the budget begins at its end.
  Status Prepare(const Allowed& allowed);
  /// Which operators compute in less than f32, under the guard.
  Status Graph(const Allowed& allowed);
  /// Which kernel serves each operator. Measured on one thread team and shape: those of the first sample.
  Status Kernels();

  bool interrupted() const { return Interrupted().cancelled(); }
  double seconds() const;  ///< since the time of the budget began
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  const TuneOptions& options() const { return options_; }
  Progress& progress() { return progress_; }

  const compile::Variant& full() const { return full_; }
  const compile::Variant& variant() const { return graph_ ? graph_->variant : full_; }
  const artifact::Program& program() const { return kernels_ ? kernels_->program : variant().program; }
  bool changed() const { return (graph_ && graph_->lowered) || (kernels_ && kernels_->accepted); }
  Session& session() { return *session_; }  ///< of `full`
  guard::DataSet& data() const { return *data_; }
  const tune::Records& records() const { return *records_; }
  const std::optional<guard::LoweringResult>& graph() const { return graph_; }
  const guard::LoweringOptions& judging() const { return judging_; }
  const std::optional<tune::KernelTuning>& kernels() const { return kernels_; }
  bool stopped() const { return stopped_; }  ///< before a choice of precisions could be judged

 private:
  Status OpenData();
  Status OpenRecords();
  Result<std::string> Subject() const;
  Status JudgeKernels();
  Status Write() const;
  bool LeftByAnEarlierTuning() const;

  const TuneOptions& options_;
  const Context& context_;
  Progress progress_;
  std::unique_ptr<hw::Team> team_;
  std::unique_ptr<compile::Variants> variants_;
  compile::Variant full_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<guard::DataSet> data_;
  std::unique_ptr<tune::Records> records_;
  guard::LoweringOptions judging_;
  std::optional<guard::LoweringResult> graph_;
  std::optional<tune::KernelTuning> kernels_;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_TUNE_JOB_H_
