// tenon tune --stage serve: how a model is served best here, written as a tenon.yaml.
#ifndef TENON_CLI_TUNE_SERVE_H_
#define TENON_CLI_TUNE_SERVE_H_

#include "cli/tune_job.h"

namespace tenon::cli {

struct TuneServeOptions {
  std::string p99;             ///< "50ms"; empty: throughput alone counts
  int64_t max_batch = 16;
};

/// `options.output` is the tenon.yaml. Samples come from --data, else from --input and --shape.
Status TuneServing(TuneOptions& options, const TuneServeOptions& serving, Context& context);

}  // namespace tenon::cli

#endif  // TENON_CLI_TUNE_SERVE_H_
