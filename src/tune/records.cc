#include "tune/records.h"

#include <fmt/format.h>

namespace tenon::tune {

std::unique_ptr<Records> Records::Open(const std::string& path, Fingerprint here) {
  std::unique_ptr<Records> records(new Records(std::move(here)));
  records->path_ = path;
  if (path.empty()) return records;
  if (const Status status = records->Load(path); !status.ok()) records->Note(status);
  return records;
}

Status Records::Load(const std::string& path) {
  Status writable;
  auto db = RecordDb::Open(path, RecordDb::Mode::kWrite);
  if (!db.ok()) {
    // What cannot be written may still be read.
    writable = std::move(db).TakeStatus();
    if (writable.code() != Code::kResourceLimit) return writable;
    db = RecordDb::Open(path, RecordDb::Mode::kRead);
    if (!db.ok()) return writable;
  }
  auto all = (*db)->ReadAll();
  if (!all.ok()) return std::move(all).TakeStatus();
  size_t other_machine = 0;
  size_t other_build = 0;
  for (auto& [key, value] : *all) {
    if (key.machine == here_.machine && key.build == here_.build) {
      known_.emplace(key, std::move(value));
    } else {
      ++(key.machine != here_.machine ? other_machine : other_build);
    }
  }
  foreign_ = other_machine + other_build;
  if (writable.ok()) db_ = std::move(*db);
  if (foreign_ > 0 && known_.empty()) {
    note_ = fmt::format("tuning records in '{}' are ignored: {} of another CPU, {} of another build", path, other_machine,
                        other_build);
  }
  return writable;
}

void Records::Note(const Status& status) {
  db_ = nullptr;
  if (note_.empty()) note_ = status.message() + "; tuning goes on, and what it finds out is not kept";
}

RecordKey Records::Key(RecordTable table, std::string first, std::string second) const {
  return {table, here_.machine, here_.build, std::move(first), std::move(second)};
}

std::optional<std::string> Records::Find(RecordTable table, const std::string& first, const std::string& second) {
  const auto it = known_.find(Key(table, first, second));
  if (it == known_.end()) return std::nullopt;
  ++found_;
  return it->second;
}

void Records::Set(RecordTable table, const std::string& first, const std::string& second, const std::string& value) {
  SetAll({{Key(table, first, second), value}});
}

void Records::SetAll(RecordSet records) {
  for (const auto& [key, value] : records) {
    if (!CheckRecord(key, value).ok()) return;   // too long to keep: found out anew next time
  }
  if (db_ != nullptr) {
    if (const Status status = db_->Put(records); !status.ok()) Note(status);
  }
  added_ += records.size();
  for (auto& [key, value] : records) known_.insert_or_assign(key, std::move(value));
}

}  // namespace tenon::tune
