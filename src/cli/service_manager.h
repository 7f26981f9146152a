// What systemd wants to know of a service (sd_notify(3)): that it is ready, reloads, stops, lives.
#ifndef TENON_CLI_SERVICE_MANAGER_H_
#define TENON_CLI_SERVICE_MANAGER_H_

#include <chrono>
#include <string>
#include <string_view>

namespace tenon::cli {

/// Says nothing where nobody asked: without NOTIFY_SOCKET in the environment.
class ServiceManager {
 public:
  ServiceManager();
  bool listens() const { return !socket_.empty(); }
  void Ready(std::string_view status) const;
  void Reloading() const;   ///< Ready follows
  void Stopping() const;
  void Alive() const;
  /// How often Alive is to be said; 0: never.
  std::chrono::microseconds period() const { return period_; }

 private:
  void Send(const std::string& state) const;
  std::string socket_;
  std::chrono::microseconds period_{0};
};

}  // namespace tenon::cli

#endif  // TENON_CLI_SERVICE_MANAGER_H_
