#include "server/transport/http_client.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>

namespace tenon::server {
namespace {

constexpr size_t kMaxAnswer = 64 << 20;
constexpr time_t kTimeout = 30;   // seconds

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status NoAnswer(const std::string& address, const std::string& why) {
  return BadInput("no tenon server answers at '{}': {}; start one with 'tenon serve', or name it with --server HOST:PORT",
                  address, why);
}

}  // namespace

Result<HttpAnswer> Fetch(const std::string& address, const HttpQuestion& question) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Usage("server '{}'; HOST:PORT is expected", address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  if (failed != 0) return NoAnswer(address, gai_strerror(failed));
  const Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{kTimeout, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (socket.fd() < 0 || connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0)
    return NoAnswer(address, std::strerror(errno));
  const std::string key = question.api_key.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", question.api_key);
  const std::string request = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}",
                                          question.method, question.path, address, key, question.body.size(), question.body);
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t n = send(socket.fd(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return NoAnswer(address, std::strerror(errno));
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  char piece[1 << 14];
  while (answer.size() < kMaxAnswer) {
    const ssize_t n = recv(socket.fd(), piece, sizeof(piece), 0);
    if (n < 0) return NoAnswer(address, std::strerror(errno));
    if (n == 0) break;
    answer.append(piece, static_cast<size_t>(n));
  }
  HttpAnswer parsed;
  const size_t space = answer.find(' '), end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || space == std::string::npos || end == std::string::npos)
    return NoAnswer(address, "no HTTP");
  std::from_chars(answer.data() + space + 1, answer.data() + answer.size(), parsed.status);
  parsed.body = answer.substr(end + 4);
  return parsed;
}

}  // namespace tenon::server
