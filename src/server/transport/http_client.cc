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

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(int fd) : fd_(fd) {}
  ssize_t Send(const char* data, size_t bytes) override { return send(fd_, data, bytes, MSG_NOSIGNAL); }
  ssize_t Receive(char* data, size_t bytes) override { return recv(fd_, data, bytes, 0); }
  std::string Reason() const override { return std::strerror(errno); }

 private:
  int fd_;
};

struct Address {
  bool tls = false;
  std::string host, port;
};

// "[https://]HOST:PORT", an IPv6 address in brackets.
Result<Address> ParseAddress(std::string_view text) {
  Address address;
  address.tls = text.starts_with("https://");
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  }
  if (text.ends_with('/')) text.remove_suffix(1);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return Usage("server '{}'; HOST:PORT is expected, or https://HOST:PORT", text);
  address.host = text.substr(0, colon);
  address.port = text.substr(colon + 1);
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  return address;
}

Status NoAnswer(const std::string& address, const std::string& why) {
  return BadInput("no tenon server answers at '{}': {}; start one with 'tenon serve', or name it with --server HOST:PORT",
                  address, why);
}

// What came, or why not all of it.
Result<HttpAnswer> ParseAnswer(const std::string& address, const std::string& answer) {
  HttpAnswer parsed;
  const size_t space = answer.find(' '), end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || space == std::string::npos || end == std::string::npos)
    return NoAnswer(address, "no HTTP");
  std::from_chars(answer.data() + space + 1, answer.data() + answer.size(), parsed.status);
  parsed.body = answer.substr(end + 4);
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const size_t length = answer.find(kLength);
  size_t bytes = parsed.body.size();
  if (length < end) std::from_chars(answer.data() + length + kLength.size(), answer.data() + end, bytes);
  if (bytes != parsed.body.size()) return NoAnswer(address, "its answer was cut off");
  return parsed;
}

}  // namespace

Result<HttpAnswer> Fetch(const std::string& server, const HttpQuestion& question) {
  TENON_ASSIGN_OR_RETURN(const Address address, ParseAddress(server));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  if (failed != 0) return NoAnswer(server, gai_strerror(failed));
  const Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{kTimeout, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (socket.fd() < 0 || connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0)
    return NoAnswer(server, std::strerror(errno));
  std::unique_ptr<ByteStream> stream = std::make_unique<PlainStream>(socket.fd());
  if (address.tls) {
    TENON_ASSIGN_OR_RETURN(stream, OpenTls(socket.fd(), address.host, question.tls));
  }
  const std::string key = question.api_key.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", question.api_key);
  const std::string request =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}", question.method,
                  question.path, address.host, address.port, key, question.body.size(), question.body);
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t n = stream->Send(request.data() + sent, request.size() - sent);
    if (n <= 0) return NoAnswer(server, stream->Reason());
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  char piece[1 << 14];
  while (answer.size() < kMaxAnswer) {
    const ssize_t n = stream->Receive(piece, sizeof(piece));
    if (n < 0 && answer.empty()) return NoAnswer(server, stream->Reason());
    if (n <= 0) break;
    answer.append(piece, static_cast<size_t>(n));
  }
  return ParseAnswer(server, answer);
}

}  // namespace tenon::server
