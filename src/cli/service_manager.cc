#include "cli/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace tenon::cli {
namespace {

int64_t NumberIn(const char* variable) {
  const std::string_view text = std::getenv(variable) == nullptr ? "" : std::getenv(variable);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

ServiceManager::ServiceManager() {
  const char* socket = std::getenv("NOTIFY_SOCKET");
  if (socket != nullptr && (socket[0] == '/' || socket[0] == '@')) socket_ = socket;
  const int64_t pid = NumberIn("WATCHDOG_PID"), limit_us = NumberIn("WATCHDOG_USEC");
  // Half of the time after which the service counts as hung.
  if (listens() && limit_us > 0 && (pid == 0 || pid == getpid()))
    period_ = std::chrono::microseconds(std::max<int64_t>(1000, limit_us / 2));
}

void ServiceManager::Send(const std::string& state) const {
  sockaddr_un address{};
  if (!listens() || socket_.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';   // an abstract name
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  // A manager that does not listen any more is no matter of the service.
  (void)sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length);
  close(fd);
}

void ServiceManager::Ready(std::string_view status) const {
  Send(fmt::format("READY=1\nSTATUS={}", status));
}

void ServiceManager::Reloading() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  Send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
}

void ServiceManager::Stopping() const {
  Send("STOPPING=1\nSTATUS=draining");
}

void ServiceManager::Alive() const {
  Send("WATCHDOG=1");
}

}  // namespace tenon::cli
