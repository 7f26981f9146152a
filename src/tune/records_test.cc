#include "tune/records.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tenon::tune {
namespace {

namespace fs = std::filesystem;

class RecordsTest : public testing::Test {
 protected:
  RecordsTest() : folder_(fs::temp_directory_path() / ("tenon_records_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~RecordsTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static RecordKey Key(const std::string& machine, const std::string& problem) {
    return {RecordTable::kChoices, machine, "build", "kernel", problem};
  }
  static void Write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  static std::string Bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
  const Fingerprint here_{"machine", "build"};
};

TEST_F(RecordsTest, WhatIsSetIsThereForTheNext) {
  auto records = Records::Open(Path("r"), here_);
  EXPECT_EQ(records->note(), "");
  EXPECT_FALSE(records->Find(RecordTable::kChoices, "kernel", "p"));
  records->Set(RecordTable::kChoices, "kernel", "p", "fast");
  // Without closing the first: as after a kill.
  const auto next = Records::Open(Path("r"), here_);
  EXPECT_EQ(next->Find(RecordTable::kChoices, "kernel", "p"), "fast");
  EXPECT_EQ(next->found(), 1U);
}

TEST_F(RecordsTest, OtherMachinesAndBuildsAreIgnoredAndTold) {
  Records::Open(Path("r"), {"other", "build"})->Set(RecordTable::kChoices, "kernel", "p", "fast");
  Records::Open(Path("r"), {"machine", "old"})->Set(RecordTable::kChoices, "kernel", "p", "fast");
  const auto records = Records::Open(Path("r"), here_);
  EXPECT_FALSE(records->Find(RecordTable::kChoices, "kernel", "p"));
  EXPECT_EQ(records->foreign(), 2U);
  EXPECT_NE(records->note().find("1 of another CPU, 1 of another build"), std::string::npos) << records->note();
}

TEST_F(RecordsTest, EveryDamageIsTold) {
  Records::Open(Path("good"), here_)->Set(RecordTable::kChoices, "kernel", "p", "fast");
  const std::string good = Bytes(Path("good"));
  for (size_t size = 1; size < good.size(); size += 97) {   // cut short
    Write(Path("cut"), good.substr(0, size));
    const auto records = Records::Open(Path("cut"), here_);
    EXPECT_NE(records->note(), "") << size;
    records->Set(RecordTable::kChoices, "kernel", "q", "x");   // and goes on
    EXPECT_EQ(records->Find(RecordTable::kChoices, "kernel", "q"), "x");
    EXPECT_TRUE(Bytes(Path("cut")) == good.substr(0, size)) << size << ": a file that is not understood is left alone";
  }
  for (size_t at = 0; at < good.size(); at += 131) {   // other bytes: an error or rows that pass every check
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x5a);
    Write(Path("bad"), bad);
    const auto all = ReadRecords(Path("bad"));
    if (!all.ok()) {
      EXPECT_NE(all.status().message(), "");
    }
  }
}

TEST_F(RecordsTest, ADatabaseOfSomethingElseIsRefused) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(Path("else").c_str(), &db), SQLITE_OK);
  const char* sql =
      "CREATE TABLE timings(x); CREATE VIEW choices AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i "
      "AS "
      "machine FROM n; PRAGMA application_id=1415933551;";
  ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_EQ(ReadRecords(Path("else")).status().code(), Code::kBadInput);
  EXPECT_NE(Records::Open(Path("else"), here_)->note(), "");
}

TEST_F(RecordsTest, ALockedOneIsToldAndTuningGoesOn) {
  Records::Open(Path("r"), here_)->Set(RecordTable::kChoices, "kernel", "p", "fast");
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(Path("r").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto records = Records::Open(Path("r"), here_);
  EXPECT_NE(records->note().find("locked"), std::string::npos) << records->note();
  records->Set(RecordTable::kChoices, "kernel", "q", "x");
  sqlite3_close(db);
}

TEST_F(RecordsTest, FilesOfBothFormsHoldTheSame) {
  RecordSet set = {{Key("a", "p"), "x"}, {Key("b", "p"), "y"}};
  set[{RecordTable::kTimings, "a", "build", "p", "x"}] = R"({"us": 1.5})";
  for (const char* name : {"r.json", "r.sqlite"}) {
    ASSERT_TRUE(WriteRecords(Path(name), set).ok());
    const auto again = ReadRecords(Path(name));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, set);
  }
}

TEST_F(RecordsTest, MergingKeepsWhatIsThere) {
  const RecordSet from = {{Key("a", "p"), "x"}, {Key("a", "q"), "y"}, {Key("a", "r"), "z"}};
  RecordSet into = {{Key("a", "p"), "other"}, {Key("a", "q"), "y"}};
  const Merged merged = MergeRecords(from, &into);
  EXPECT_EQ(merged.added, 1U);
  EXPECT_EQ(merged.known, 1U);
  EXPECT_EQ(merged.differing, 1U);
  EXPECT_EQ(into.at(Key("a", "p")), "other");
}

TEST(ParseRecordsTest, RefusesWhatIsNotOfRecords) {
  for (const char* text :
       {"", "[]", "{}", "{\"tenon_records\": 2}", "{\"tenon_records\": \"1\"}", "{\"tenon_records\": 1, \"choices\": {}}",
        "{\"tenon_records\": 1, \"choices\": [7]}", "{\"tenon_records\": 1, \"choices\": [{\"machine\": \"m\"}]}",
        "{\"tenon_records\": 1, \"choices\": [{\"machine\": 1, \"build\": [], \"kind\": {}, \"problem\": null}]}"}) {
    EXPECT_EQ(ParseRecords(text).status().code(), Code::kBadInput) << text;
  }
  EXPECT_EQ(ParseRecords(std::string(100000, '[')).status().code(), Code::kBadInput);
  EXPECT_TRUE(ParseRecords("{\"tenon_records\": 1}").ok());
}

}  // namespace
}  // namespace tenon::tune
