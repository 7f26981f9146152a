// What `tenon tune` found out, as a document, a page and lines of text.
#ifndef TENON_CLI_TUNE_REPORT_H_
#define TENON_CLI_TUNE_REPORT_H_

#include "cli/tune_job.h"

namespace tenon::cli {

/// From f32 on default kernels to what was written: docs/tune-report.schema.json. Measures both, as long as there is time.
Result<Json> TuneDocument(TuneJob& job);

/// To each file of --report: a page where its name ends in .html, else JSON.
Status WriteTuneReports(const TuneOptions& options, const Json& document);

void ShowTuning(const TuneJob& job, const Json& document, const Context& context);

}  // namespace tenon::cli

#endif  // TENON_CLI_TUNE_REPORT_H_
