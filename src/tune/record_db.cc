#include "tune/record_db.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

namespace tenon::tune {
namespace {

constexpr int kApplicationId = 0x54656e6f;   // "Teno"
constexpr int kSchemaVersion = 1;
constexpr int kSmallestFile = 512;
constexpr int kLockWaitMs = 1000;
constexpr int kMaxSteps = 1 << 16;           // of 1000 instructions of SQLite's machine each, for one statement

std::string CreateStatement(size_t table) {
  const auto& [first, second, value] = kRecordColumns[table];
  return fmt::format(
      "CREATE TABLE {}(machine TEXT NOT NULL, build TEXT NOT NULL, {} TEXT NOT NULL, {} TEXT NOT NULL, {} TEXT NOT NULL, "
      "PRIMARY KEY(machine, build, {}, {})) WITHOUT ROWID",
      kRecordTables[table], first, second, value, first, second);
}

class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql) : code_(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr)) {}
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  int code() const { return code_; }
  /// SQLITE_ROW, SQLITE_DONE or an error.
  int Step() { return code_ == SQLITE_OK ? sqlite3_step(statement_) : code_; }
  void Reset() { sqlite3_reset(statement_); }
  void Bind(int index, const std::string& text) {
    sqlite3_bind_text(statement_, index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  std::string Text(int column) {
    const unsigned char* text = sqlite3_column_text(statement_, column);
    const int bytes = sqlite3_column_bytes(statement_, column);
    return text == nullptr ? std::string()
                           : std::string(static_cast<const char*>(static_cast<const void*>(text)), static_cast<size_t>(bytes));
  }
  int Int(int column) { return sqlite3_column_int(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_;
};

int CountSteps(void* context) {
  auto* left = static_cast<int*>(context);
  return --*left < 0 ? 1 : 0;
}

// A statement of a damaged or hostile file ends after so many steps.
class StepLimit {
 public:
  explicit StepLimit(sqlite3* db) : db_(db) { sqlite3_progress_handler(db, 1000, CountSteps, &left_); }
  ~StepLimit() { sqlite3_progress_handler(db_, 0, nullptr, nullptr); }
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;

 private:
  sqlite3* db_;
  int left_ = kMaxSteps;
};

}  // namespace

RecordDb::~RecordDb() {
  sqlite3_close(db_);
}

Status RecordDb::Failed(int code, const char* what) {
  const std::string why = db_ != nullptr ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
  const std::string message = fmt::format("cannot {} the tuning records in '{}'; {}", what, path_, why);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_READONLY:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN: return {Code::kResourceLimit, message};
    default: return {Code::kBadInput, message};
  }
}

Status RecordDb::Execute(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status::Ok() : Failed(code, "use");
}

Result<std::unique_ptr<RecordDb>> RecordDb::Open(const std::string& path, Mode mode) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return BadInput("tuning records '{}'; not a file", path);
    if (static_cast<uint64_t>(info.st_size) > kMaxRecordFile)
      return BadInput("tuning records '{}'; {} bytes; at most {}", path, info.st_size, kMaxRecordFile);
  }
  // SQLite would take a file of a few bytes for an empty database.
  if (info.st_size > 0 && info.st_size < kSmallestFile)
    return BadInput("tuning records '{}'; damaged: {} bytes", path, info.st_size);
  std::unique_ptr<RecordDb> db(new RecordDb(path));
  const int flags = mode == Mode::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path.c_str(), &db->db_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) return db->Failed(code, "open");
  TENON_RETURN_IF_ERROR(db->Prepare(mode));
  return db;
}

Status RecordDb::Prepare(Mode mode) {
  sqlite3_extended_result_codes(db_, 1);
  sqlite3_busy_timeout(db_, kLockWaitMs);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, 1 << 20);
  bool empty = false;
  TENON_RETURN_IF_ERROR(CheckSchema(&empty));
  if (mode == Mode::kRead) return empty ? BadInput("'{}' holds no tuning records", path_) : Status::Ok();
  // What was written outlives the process. It may not outlive a loss of power: that would cost a flush of the disk for each
  // decision, and what is lost can be measured again.
  TENON_RETURN_IF_ERROR(Execute("PRAGMA synchronous=OFF"));
  if (!empty) return Execute("BEGIN IMMEDIATE; COMMIT");   // can it be written?
  std::string sql =
      fmt::format("BEGIN IMMEDIATE; PRAGMA application_id={}; PRAGMA user_version={};", kApplicationId, kSchemaVersion);
  for (size_t t = 0; t < kRecordTables.size(); ++t) sql += CreateStatement(t) + ";";
  return Execute((sql + "COMMIT").c_str());
}

Status RecordDb::CheckSchema(bool* empty) {
  StepLimit limit(db_);
  size_t ours = 0;
  size_t all = 0;
  Statement schema(db_, "SELECT sql FROM sqlite_master");
  int code = 0;
  while ((code = schema.Step()) == SQLITE_ROW) {
    const std::string sql = schema.Text(0);
    for (size_t t = 0; t < kRecordTables.size(); ++t) ours += sql == CreateStatement(t) ? 1 : 0;
    ++all;
  }
  if (code != SQLITE_DONE) return Failed(code, "read");
  *empty = all == 0;
  if (*empty) return Status::Ok();
  Statement size(db_, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
  struct stat info{};
  if (size.Step() == SQLITE_ROW && stat(path_.c_str(), &info) == 0 && info.st_size < size.Int(0))
    return BadInput("tuning records '{}'; damaged: {} of {} bytes", path_, info.st_size, size.Int(0));
  Statement id(db_, "PRAGMA application_id");
  Statement version(db_, "PRAGMA user_version");
  const bool known = id.Step() == SQLITE_ROW && id.Int(0) == kApplicationId && version.Step() == SQLITE_ROW;
  if (!known || (version.Int(0) == kSchemaVersion && (ours != kRecordTables.size() || all != ours)))
    return BadInput("'{}' is a database of something else than tuning records", path_);
  if (version.Int(0) != kSchemaVersion)
    return BadInput("tuning records '{}' have version {}; this build reads {}", path_, version.Int(0), kSchemaVersion);
  return Status::Ok();
}

Result<RecordSet> RecordDb::ReadAll() {
  RecordSet all;
  for (size_t t = 0; t < kRecordTables.size(); ++t) {
    StepLimit limit(db_);
    const auto& [first, second, value] = kRecordColumns[t];
    Statement rows(db_, fmt::format("SELECT machine, build, {}, {}, {} FROM {}", first, second, value, kRecordTables[t]));
    int code = 0;
    while ((code = rows.Step()) == SQLITE_ROW) {
      RecordKey key{static_cast<RecordTable>(t), rows.Text(0), rows.Text(1), rows.Text(2), rows.Text(3)};
      std::string text = rows.Text(4);
      TENON_RETURN_IF_ERROR(CheckRecord(key, text).Within("'" + path_ + "'"));
      if (all.size() >= kMaxRecords) return BadInput("'{}' holds more than {} tuning records", path_, kMaxRecords);
      all.insert_or_assign(std::move(key), std::move(text));
    }
    if (code != SQLITE_DONE) return Failed(code, "read");
  }
  return all;
}

Status RecordDb::Insert(const RecordSet& records) {
  for (size_t t = 0; t < kRecordTables.size(); ++t) {
    Statement insert(db_, fmt::format("INSERT OR REPLACE INTO {} VALUES(?,?,?,?,?)", kRecordTables[t]));
    if (insert.code() != SQLITE_OK) return Failed(insert.code(), "write");
    for (const auto& [key, value] : records) {
      if (static_cast<size_t>(key.table) != t) continue;
      insert.Bind(1, key.machine);
      insert.Bind(2, key.build);
      insert.Bind(3, key.first);
      insert.Bind(4, key.second);
      insert.Bind(5, value);
      if (const int code = insert.Step(); code != SQLITE_DONE) return Failed(code, "write");
      insert.Reset();
    }
  }
  return Status::Ok();
}

Status RecordDb::Transaction(const RecordSet& records, bool clear) {
  TENON_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  Status status;
  for (const char* table : kRecordTables) {
    if (clear && status.ok()) status = Execute(fmt::format("DELETE FROM {}", table).c_str());
  }
  if (status.ok()) status = Insert(records);
  if (status.ok()) status = Execute("COMMIT");
  if (!status.ok()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

Status RecordDb::Put(const RecordSet& records) {
  return Transaction(records, false);
}

Status RecordDb::ReplaceAll(const RecordSet& records) {
  return Transaction(records, true);
}

}  // namespace tenon::tune
