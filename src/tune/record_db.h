// A SQLite database of tuning records. Its schema is checked to be ours, word for word, before anything is asked of it: a
// database from elsewhere may hold views and triggers that do as they please.
#ifndef TENON_TUNE_RECORD_DB_H_
#define TENON_TUNE_RECORD_DB_H_

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tune/record_set.h"

namespace tenon::tune {

class RecordDb {
 public:
  enum class Mode { kRead, kWrite };   ///< kWrite makes the file where there is none

  /// kBadInput: damaged, or not ours; kResourceLimit: locked by another process, or cannot be written.
  static Result<std::unique_ptr<RecordDb>> Open(const std::string& path, Mode mode);
  ~RecordDb();
  RecordDb(const RecordDb&) = delete;
  RecordDb& operator=(const RecordDb&) = delete;

  Result<RecordSet> ReadAll();
  /// Adds or replaces, all or none, safe from then on against the end of the process.
  Status Put(const RecordSet& records);
  /// Removes everything, then adds `records`: all or none.
  Status ReplaceAll(const RecordSet& records);

 private:
  explicit RecordDb(std::string path) : path_(std::move(path)) {}
  Status Prepare(Mode mode);
  Status CheckSchema(bool* empty);
  Status Execute(const char* sql);
  Status Insert(const RecordSet& records);
  Status Transaction(const RecordSet& records, bool clear);
  Status Failed(int code, const char* what);

  std::string path_;
  sqlite3* db_ = nullptr;
};

}  // namespace tenon::tune

#endif  // TENON_TUNE_RECORD_DB_H_
