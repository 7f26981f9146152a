#include "server/access.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/mapped_file.h"

namespace tenon::server {
namespace {

constexpr size_t kShortest = 16;
constexpr size_t kLongest = 512;
constexpr uint64_t kMaxFile = 1 << 20;

using Digest = std::array<unsigned char, 32>;

// Keys are compared by their digests: all of one length, and none of them lies in memory.
Digest DigestOf(std::string_view key) {
  Digest digest{};
  CHECK(EVP_Digest(key.data(), key.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  return digest;
}

std::string_view TakeWord(std::string_view* line) {
  const size_t begin = std::min(line->find_first_not_of(" \t\r"), line->size());
  const size_t end = std::min(line->find_first_of(" \t\r", begin), line->size());
  const std::string_view word = line->substr(begin, end - begin);
  line->remove_prefix(end);
  return word;
}

}  // namespace

std::string RefusalText(Verdict verdict) {
  return verdict == Verdict::kForbidden ? "this key may not do that; it takes one with the role admin"
                                        : "a valid API key is expected, as 'Authorization: Bearer KEY'";
}

struct AccessControl::Keys {
  struct Key {
    Digest digest;
    bool admin = false;
  };
  std::vector<Key> keys;

  Status Add(std::string_view line) {
    const std::string_view key = TakeWord(&line), role = TakeWord(&line);
    if (key.empty() || key[0] == '#') return Status::Ok();
    if (!TakeWord(&line).empty()) return BadInput("KEY or KEY ROLE is expected");
    if (key.size() < kShortest || key.size() > kLongest)
      return BadInput("the key has {} characters; {}..{} are allowed", key.size(), kShortest, kLongest);
    if (std::any_of(key.begin(), key.end(), [](char c) { return c < '!' || c > '~'; }))
      return BadInput("the key has a character that is no printable ASCII");
    if (!role.empty() && role != "infer" && role != "admin") return BadInput("role '{}'; allowed: infer, admin", role);
    const Digest digest = DigestOf(key);
    if (std::any_of(keys.begin(), keys.end(), [&](const Key& k) { return k.digest == digest; }))
      return BadInput("the key was there before");
    keys.push_back({digest, role == "admin"});
    return Status::Ok();
  }
};

void AccessControl::SetOpen(bool open_health, bool open_metrics) {
  open_health_ = open_health;
  open_metrics_ = open_metrics;
}

Status AccessControl::Load(const std::string& path) {
  auto text = ReadFile(path, kMaxFile);
  if (!text.ok()) return std::move(text).TakeStatus();
  auto keys = std::make_shared<Keys>();
  std::string_view rest = *text;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    TENON_RETURN_IF_ERROR(keys->Add(rest.substr(0, end)).Within(fmt::format("'{}', line {}", path, number)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  OPENSSL_cleanse(text->data(), text->size());
  if (keys->keys.empty()) return BadInput("'{}' holds no key", path);
  keys_.store(std::move(keys));
  if (path_ != path) path_ = path;   // requests read it while keys are reloaded
  return Status::Ok();
}

Status AccessControl::Reload() {
  return on() ? Load(path_) : Status::Ok();
}

Verdict AccessControl::Check(Access access, std::string_view authorization) const {
  if (!on() || access == Access::kOpen) return Verdict::kAllowed;
  if ((access == Access::kHealth && open_health_) || (access == Access::kMetrics && open_metrics_)) return Verdict::kAllowed;
  constexpr std::string_view kScheme = "bearer ";
  const bool bearer = authorization.size() > kScheme.size() &&
                      std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                                 [](char want, char have) { return want == (have >= 'A' && have <= 'Z' ? have + 32 : have); });
  const Digest digest = DigestOf(bearer ? authorization.substr(kScheme.size()) : "");
  bool known = false, admin = false;
  const auto keys = keys_.load();
  for (const Keys::Key& key : keys->keys) {
    const bool same = CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0;
    known |= same;
    admin |= same && key.admin;
  }
  if (!known) return Verdict::kNoKey;
  return access == Access::kAdmin && !admin ? Verdict::kForbidden : Verdict::kAllowed;
}

}  // namespace tenon::server
