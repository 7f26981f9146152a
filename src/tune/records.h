// The records that one tuning works with: those of this machine and this build of the kernels. What was decided before is found
// here and not measured again; each new decision is on disk before the next is taken up.
//
// Records never stand in the way: a file that is damaged, of something else, locked or not writable is left alone, is told once
// (`note`), and tuning goes on.
#ifndef TENON_TUNE_RECORDS_H_
#define TENON_TUNE_RECORDS_H_

#include <memory>
#include <optional>
#include <string>

#include "tune/fingerprint.h"
#include "tune/record_db.h"

namespace tenon::tune {

class Records {
 public:
  /// `path` empty: none are kept beyond this object.
  static std::unique_ptr<Records> Open(const std::string& path, Fingerprint here);

  std::optional<std::string> Find(RecordTable table, const std::string& first, const std::string& second);
  void Set(RecordTable table, const std::string& first, const std::string& second, const std::string& value);
  /// Several at once, all of them or none on disk.
  void SetAll(RecordSet records);
  /// A key of this machine and build.
  RecordKey Key(RecordTable table, std::string first, std::string second) const;

  /// What the user should know of the file; empty when it serves as it should.
  const std::string& note() const { return note_; }
  const std::string& path() const { return path_; }
  size_t found() const { return found_; }
  size_t added() const { return added_; }
  size_t foreign() const { return foreign_; }   ///< rows of other machines or builds

 private:
  explicit Records(Fingerprint here) : here_(std::move(here)) {}
  Status Load(const std::string& path);
  void Note(const Status& status);

  Fingerprint here_;
  std::string path_;
  std::string note_;
  std::unique_ptr<RecordDb> db_;   // null: nothing is written
  RecordSet known_;
  size_t found_ = 0;
  size_t added_ = 0;
  size_t foreign_ = 0;
};

}  // namespace tenon::tune

#endif  // TENON_TUNE_RECORDS_H_
