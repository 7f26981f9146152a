#include "tune/record_set.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "tune/record_db.h"

namespace tenon::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVersionKey = "tenon_records";
constexpr int kVersion = 1;
constexpr std::string_view kSqliteMagic("SQLite format 3\0", 16);

bool IsPlain(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) return false;
  }
  return true;
}

std::string TextOf(const Json& row, const char* name) {
  const auto it = row.find(name);
  return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// Rows of one table into `records`.
Status ParseTable(const Json& rows, size_t table, RecordSet* records) {
  const auto& [first, second, value] = kRecordColumns[table];
  if (!rows.is_array()) return BadInput("tuning records; '{}' is no list", kRecordTables[table]);
  for (const Json& row : rows) {
    if (!row.is_object()) return BadInput("tuning records; a row of '{}' is no object", kRecordTables[table]);
    RecordKey key{static_cast<RecordTable>(table), TextOf(row, "machine"), TextOf(row, "build"), TextOf(row, first),
                  TextOf(row, second)};
    std::string text = TextOf(row, value);
    TENON_RETURN_IF_ERROR(CheckRecord(key, text));
    if (records->size() >= kMaxRecords) return BadInput("tuning records; more than {}", kMaxRecords);
    records->insert_or_assign(std::move(key), std::move(text));
  }
  return Status::Ok();
}

std::string ToJson(const RecordSet& records) {
  Json document = {{kVersionKey, kVersion}};
  for (const char* table : kRecordTables) document[table] = Json::array();
  for (const auto& [key, value] : records) {
    const auto t = static_cast<size_t>(key.table);
    const auto& names = kRecordColumns[t];
    document[kRecordTables[t]].push_back(
        {{"machine", key.machine}, {"build", key.build}, {names[0], key.first}, {names[1], key.second}, {names[2], value}});
  }
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status WriteText(const std::string& path, const std::string& text) {
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

}  // namespace

Status CheckRecord(const RecordKey& key, const std::string& value) {
  for (const std::string* text : {&key.machine, &key.build, &key.first, &key.second, &value}) {
    if (text->empty())
      return BadInput("tuning records; a row of '{}' lacks a text", kRecordTables[static_cast<size_t>(key.table)]);
    if (text->size() > kMaxRecordText)
      return BadInput("tuning records; a text of {} bytes; at most {}", text->size(), kMaxRecordText);
    if (!IsPlain(*text)) return BadInput("tuning records; a text is not plain ASCII");
  }
  return Status::Ok();
}

Result<RecordSet> ParseRecords(const std::string& json) {
  // Nesting costs stack: rows lie three deep.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 4; };
  const Json document = Json::parse(json, shallow, false);
  if (document.is_discarded() || !document.is_object()) return BadInput("tuning records; not JSON of an object");
  const auto version = document.find(kVersionKey);
  if (version == document.end() || !version->is_number_integer() || version->get<int64_t>() != kVersion)
    return BadInput("tuning records; '{}' is not {}", kVersionKey, kVersion);
  RecordSet records;
  for (size_t t = 0; t < kRecordTables.size(); ++t) {
    const auto rows = document.find(kRecordTables[t]);
    if (rows != document.end()) TENON_RETURN_IF_ERROR(ParseTable(*rows, t, &records));
  }
  return records;
}

Result<RecordSet> ReadRecords(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxRecordFile));
  if (text.starts_with(kSqliteMagic)) {
    TENON_ASSIGN_OR_RETURN(const auto db, RecordDb::Open(path, RecordDb::Mode::kRead));
    return db->ReadAll();
  }
  auto records = ParseRecords(text);
  if (!records.ok()) return std::move(records).TakeStatus().Within("'" + path + "'");
  return records;
}

Status WriteRecords(const std::string& path, const RecordSet& records) {
  namespace fs = std::filesystem;
  if (path.ends_with(".json")) return WriteText(path, ToJson(records));
  // Made beside it and renamed; a database that is there, and may be in use, is never written over in place.
  const std::string temporary = path + ".new";
  std::error_code error;
  fs::remove(temporary, error);
  {
    TENON_ASSIGN_OR_RETURN(const auto db, RecordDb::Open(temporary, RecordDb::Mode::kWrite));
    TENON_RETURN_IF_ERROR(db->ReplaceAll(records));
  }
  fs::rename(temporary, path, error);
  if (error) return {Code::kResourceLimit, fmt::format("cannot write '{}'; {}", path, error.message())};
  return Status::Ok();
}

Merged MergeRecords(const RecordSet& from, RecordSet* into) {
  Merged merged;
  for (const auto& [key, value] : from) {
    const auto [it, fresh] = into->emplace(key, value);
    ++(fresh ? merged.added : it->second == value ? merged.known : merged.differing);
  }
  return merged;
}

}  // namespace tenon::tune
