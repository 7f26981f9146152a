#include "cli/tune_records.h"

#include "cli/tune_job.h"
#include "hw/isa.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string records;
  std::string cache_dir;
  std::string file;
  std::vector<std::string> files;
  bool all = false;
};

Result<std::string> Path(const Options& options) {
  TENON_ASSIGN_OR_RETURN(std::string path, RecordsPath(options.records, options.cache_dir));
  if (path.empty()) return Usage("no tuning records; --records FILE says where they are");
  return path;
}

Status Export(const Options& options, const Context& context) {
  TENON_ASSIGN_OR_RETURN(const std::string path, Path(options));
  TENON_ASSIGN_OR_RETURN(const tune::RecordSet records, tune::ReadRecords(path));
  TENON_RETURN_IF_ERROR(tune::WriteRecords(options.file, records));
  context.Document({{"file", options.file}, {"records", records.size()}});
  context.Say(fmt::format("{}: {} records", options.file, records.size()));
  return Status::Ok();
}

Json ToJson(const std::string& file, const tune::Merged& merged) {
  return {{"file", file}, {"added", merged.added}, {"known", merged.known}, {"differing", merged.differing}};
}

void Say(const std::string& file, const tune::Merged& merged, const Context& context) {
  context.Say(fmt::format("{}: {} records added, {} known, {} known otherwise and left out", file, merged.added, merged.known,
                          merged.differing));
}

Status Import(const Options& options, const Context& context) {
  TENON_ASSIGN_OR_RETURN(const std::string path, Path(options));
  TENON_ASSIGN_OR_RETURN(const tune::RecordSet records, tune::ReadRecords(options.file));
  TENON_ASSIGN_OR_RETURN(const auto db, tune::RecordDb::Open(path, tune::RecordDb::Mode::kWrite));
  TENON_ASSIGN_OR_RETURN(tune::RecordSet all, db->ReadAll());
  const tune::Merged merged = tune::MergeRecords(records, &all);
  TENON_RETURN_IF_ERROR(db->Put(all));
  context.Document(ToJson(path, merged));
  Say(path, merged, context);
  return Status::Ok();
}

Status Merge(const Options& options, const Context& context) {
  if (options.file.empty()) return Usage("no output given; -o OUT.sqlite or OUT.json");
  tune::RecordSet all;
  Json rows = Json::array();
  for (const std::string& file : options.files) {
    TENON_ASSIGN_OR_RETURN(const tune::RecordSet records, tune::ReadRecords(file));
    const tune::Merged merged = tune::MergeRecords(records, &all);
    rows.push_back(ToJson(file, merged));
    Say(file, merged, context);
  }
  TENON_RETURN_IF_ERROR(tune::WriteRecords(options.file, all));
  context.Document({{"file", options.file}, {"records", all.size()}, {"merged", rows}});
  context.Say(fmt::format("{}: {} records", options.file, all.size()));
  return Status::Ok();
}

Status Prune(const Options& options, const Context& context) {
  TENON_ASSIGN_OR_RETURN(const std::string path, Path(options));
  TENON_ASSIGN_OR_RETURN(const hw::IsaMask isa, hw::ActiveIsa());
  TENON_ASSIGN_OR_RETURN(const auto db, tune::RecordDb::Open(path, tune::RecordDb::Mode::kWrite));
  TENON_ASSIGN_OR_RETURN(tune::RecordSet records, db->ReadAll());
  const size_t before = records.size();
  const tune::Fingerprint here = tune::ThisMachine(isa);
  std::erase_if(records, [&](const auto& row) {
    return options.all || row.first.machine != here.machine || row.first.build != here.build;
  });
  TENON_RETURN_IF_ERROR(db->ReplaceAll(records));
  context.Document({{"file", path}, {"removed", before - records.size()}, {"kept", records.size()}});
  context.Say(fmt::format("{}: {} records removed, {} kept", path, before - records.size(), records.size()));
  return Status::Ok();
}

struct SubCommand {
  const char* name;
  const char* summary;
  Status (*run)(const Options& options, const Context& context);
};
constexpr SubCommand kSubCommands[] = {
    {"export", "write the tuning records to a file: JSON where its name ends in .json, else SQLite", Export},
    {"import", "add the records of a file; what is known already stays", Import},
    {"merge", "make one file of several; of records that differ the first stays", Merge},
    {"prune", "remove the records of other machines and builds", Prune},
};

}  // namespace

std::function<std::optional<Status>(Context&)> AddRecordCommands(CLI::App& tune) {
  auto options = std::make_shared<Options>();
  std::vector<std::pair<CLI::App*, const SubCommand*>> added;
  for (const SubCommand& command : kSubCommands) {
    CLI::App* app = tune.add_subcommand(command.name, command.summary);
    app->fallthrough();   // --json and its like stand behind it, too
    const std::string name = command.name;
    if (name == "export" || name == "import") app->add_option("FILE", options->file, "The file")->required();
    if (name == "merge") {
      app->add_option("FILES", options->files, "The files")->required();
      app->add_option("-o,--output", options->file, "The file to write");
    }
    if (name == "prune") app->add_flag("--all", options->all, "Remove all records");
    if (name != "merge") app->add_option("--records", options->records, "The tuning records")->envname("TENON_RECORDS");
    if (name != "merge") app->add_option("--cache-dir", options->cache_dir, "The folder they are in")->envname("TENON_CACHE_DIR");
    added.emplace_back(app, &command);
  }
  return [options, added](Context& context) -> std::optional<Status> {
    for (const auto& [app, command] : added) {
      if (app->parsed()) return command->run(*options, context);
    }
    return std::nullopt;
  };
}

}  // namespace tenon::cli
