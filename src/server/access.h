// Who may ask what: API keys with roles. Without keys everybody may ask everything.
#ifndef TENON_SERVER_ACCESS_H_
#define TENON_SERVER_ACCESS_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::server {

/// What an endpoint needs. An admin's key is good for all.
enum class Access { kOpen, kHealth, kMetrics, kInfer, kAdmin };

enum class Verdict { kAllowed, kNoKey, kForbidden };
/// What whoever is refused is told.
std::string RefusalText(Verdict verdict);

class AccessControl {
 public:
  /// `open_health`, `open_metrics`: these are answered without a key.
  void SetOpen(bool open_health, bool open_metrics);

  /// Reads keys: a line is KEY or KEY ROLE, ROLE is infer (the default) or admin; empty lines and those that begin with # say
  /// nothing. Keys in use stay when this fails. kBadInput names the line, never the key.
  Status Load(const std::string& path);
  /// Load again; nothing without a file.
  Status Reload();

  bool on() const { return !path_.empty(); }
  /// `authorization`: "Bearer KEY". Takes as long for any key that is wrong.
  Verdict Check(Access access, std::string_view authorization) const;

 private:
  struct Keys;
  std::string path_;
  std::atomic<std::shared_ptr<const Keys>> keys_;
  bool open_health_ = true;
  bool open_metrics_ = true;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_ACCESS_H_
