// Clients of every manner at once: they stay, leave, send ahead, or vanish. Each gets its own answers, in order, and when all
// have gone nothing of them is left.
#include "server/transport/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "serve/home_cores.h"

namespace tenon::server {
namespace {

// Answers with the request's target, from threads of its own.
class Workers {
 public:
  explicit Workers(const std::vector<serve::Cores>& homes) {
    for (const serve::Cores& home : homes) threads_.emplace_back([this, home, seed = threads_.size()] { Run(home, seed); });
  }
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    more_.notify_all();
    for (auto& t : threads_) t.join();
  }
  void Take(const std::shared_ptr<HttpRequest>& request, std::shared_ptr<Exchange> exchange) {
    exchange->OnGone([this] { ++gone_; });
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(request->target, std::move(exchange));
    more_.notify_one();
  }
  int gone() const { return gone_; }

 private:
  void Run(const serve::Cores& home, size_t seed) {
    serve::HomeCores() = home;
    std::minstd_rand dice(static_cast<unsigned>(seed));
    for (std::unique_lock lock(mutex_);;) {
      more_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      auto [target, exchange] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (dice() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice() % 300));
      exchange->Respond([body = target] {
        HttpResponse r;
        r.body = body;
        return r;
      });
      exchange = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::pair<std::string, std::shared_ptr<Exchange>>> waiting_;
  bool stopped_ = false;
  std::atomic<int> gone_{0};
  std::vector<std::thread> threads_;
};

// A blocking client.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { ::close(socket_); }
  void Send(const std::string& bytes) { (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void EndSending() { ::shutdown(socket_, SHUT_WR); }
  // The body of the next answer; empty when the server has closed.
  std::string Read() {
    for (;;) {
      const size_t head = read_.find("\r\n\r\n"), length = read_.find("Content-Length: ");
      if (head != std::string::npos && length < head) {
        const size_t end = head + 4 + std::stoul(read_.substr(length + 16));
        if (read_.size() >= end) {
          const std::string body = read_.substr(head + 4, end - head - 4);
          read_.erase(0, end);
          return body;
        }
      }
      char piece[4096];
      const ssize_t n = ::recv(socket_, piece, sizeof(piece), 0);
      if (n <= 0) return "";
      read_.append(piece, static_cast<size_t>(n));
    }
  }

 private:
  int socket_;
  std::string read_;
};

std::string Request(const std::string& target, size_t body, bool last) {
  return "POST " + target + " HTTP/1.1\r\nHost: x\r\n" + (last ? "Connection: close\r\n" : "") +
         "Content-Length: " + std::to_string(body) + "\r\n\r\n" + std::string(body, 'x');
}

void BeClient(int port, const std::string& name, std::minstd_rand& dice) {
  Client client(port);
  const int requests = 1 + static_cast<int>(dice() % 6);
  const auto target = [&](int i) { return name + "/" + std::to_string(i); };
  const auto request = [&](int i) { return Request(target(i), dice() % 4 == 0 ? 10000 : 0, i + 1 == requests); };
  const unsigned manner = dice() % 4;
  if (manner == 0) {   // all ahead
    for (int i = 0; i < requests; ++i) client.Send(request(i));
    for (int i = 0; i < requests; ++i) ASSERT_EQ(client.Read(), target(i));
  } else {
    for (int i = 0; i < requests; ++i) {
      const bool last = i + 1 == requests;
      client.Send(request(i));
      if (last && manner == 1) return;   // without the answer
      if (last && manner == 2) client.Send("more than was announced");
      ASSERT_EQ(client.Read(), target(i));
    }
    if (manner == 3) client.EndSending();
  }
  ASSERT_EQ(client.Read(), "");
}

void ServeClientsOfEveryManner(const std::vector<serve::Cores>& homes) {
  Workers workers(homes);
  HttpOptions options;
  options.threads = 4;
  options.handler = [&](const std::shared_ptr<HttpRequest>& r, std::shared_ptr<Exchange> e) { workers.Take(r, std::move(e)); };
  auto server = HttpServer::Listen(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status().message();
  std::vector<std::thread> clients;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    clients.emplace_back([&, seed] {
      std::minstd_rand dice(seed);
      for (int i = 0; i < 300; ++i) BeClient((*server)->port(), "/" + std::to_string(seed) + "/" + std::to_string(i), dice);
    });
  }
  for (auto& t : clients) t.join();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while ((*server)->connections() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ((*server)->connections(), 0U);
  EXPECT_GT(workers.gone(), 0);
}

TEST(HttpTest, ClientsOfEveryManner) {
  ServeClientsOfEveryManner(std::vector<serve::Cores>(3));
}

// Their connections move between the loops of the groups that answer them.
TEST(HttpTest, ClientsOfEveryMannerAndGroups) {
  const auto home = [](std::vector<int> cores) { return std::make_shared<const std::vector<int>>(std::move(cores)); };
  ServeClientsOfEveryManner({home({0}), home({1}), home({0, 1})});
}

}  // namespace
}  // namespace tenon::server
