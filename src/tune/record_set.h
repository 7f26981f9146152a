// Records as rows in memory, and in files: SQLite databases and JSON. Files come from anywhere: every row is checked, and what is
// damaged or foreign gives one clear error.
//
//   table      first     second    value
//   choices    kind      problem   what was chosen: a kernel's name, a verdict
//   timings    problem   kernel    {"us": median, "noise": relative, "rounds": n}
//   measured   subject   item      what the accuracy guard found out about a model on some samples, as JSON
//
// Each row belongs to a machine and a build (tune/fingerprint.h). Choices stand apart from timings: a choice is kept although
// another run would time it otherwise.
#ifndef TENON_TUNE_RECORD_SET_H_
#define TENON_TUNE_RECORD_SET_H_

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"

struct sqlite3;

namespace tenon::tune {

enum class RecordTable { kChoices, kTimings, kMeasured };
inline constexpr std::array<const char*, 3> kRecordTables = {"choices", "timings", "measured"};
/// Names of the columns `first`, `second` and `value` of each table.
inline constexpr std::array<std::array<const char*, 3>, 3> kRecordColumns = {
    {{"kind", "problem", "choice"}, {"problem", "kernel", "timing"}, {"subject", "item", "value"}}};

struct RecordKey {
  RecordTable table = RecordTable::kChoices;
  std::string machine;
  std::string build;
  std::string first;
  std::string second;
  friend auto operator<=>(const RecordKey&, const RecordKey&) = default;
};

using RecordSet = std::map<RecordKey, std::string>;

inline constexpr size_t kMaxRecordText = 1 << 16;  ///< bytes of one text
inline constexpr size_t kMaxRecords = 1 << 20;
inline constexpr uint64_t kMaxRecordFile = 1 << 28;

/// kBadInput when a text of it is too long, is empty where it may not be, or is not plain text.
Status CheckRecord(const RecordKey& key, const std::string& value);

/// A file of either form, told apart by its first bytes. kBadInput: damaged, or not of records.
Result<RecordSet> ReadRecords(const std::string& path);
/// The JSON form of it.
Result<RecordSet> ParseRecords(const std::string& json);
/// JSON where `path` ends in .json, else SQLite. The file appears whole or not at all.
Status WriteRecords(const std::string& path, const RecordSet& records);

/// Adds what `into` lacks; what it has otherwise stays.
struct Merged {
  size_t added = 0;
  size_t known = 0;
  size_t differing = 0;
};
Merged MergeRecords(const RecordSet& from, RecordSet* into);

}  // namespace tenon::tune

#endif  // TENON_TUNE_RECORD_SET_H_
