#include "server/transport/http.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <thread>

namespace tenon::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using net::ip::tcp;
using Error = boost::system::error_code;

struct Shared {
  HttpLimits limits;
  HttpHandler handler;
  std::atomic<size_t> connections{0};
  std::atomic<bool> stopping{false};
};

// One client. All its work runs on one strand.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared) : stream_(std::move(socket)), shared_(std::move(shared)) {
    ++shared_->connections;
  }
  ~Connection() { --shared_->connections; }

  void Start() {
    Error ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    net::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->ReadHeader(); });
  }
  void Refuse() {
    keep_alive_ = false;
    net::dispatch(stream_.get_executor(),
                  [self = shared_from_this()] { self->Write(self->Plain(503, "too many connections", {{"Retry-After", "1"}})); });
  }

  // From any thread: the answer to the request of this number.
  void Answer(std::function<HttpResponse()> make) {
    net::post(stream_.get_executor(), [self = shared_from_this(), make = std::move(make)] {
      self->waiting_ = false;
      self->gone_ = nullptr;
      Error ignored;
      if (self->watching_) self->stream_.socket().cancel(ignored);
      if (!self->vanished_) self->Write(make());
    });
  }
  void OnGone(std::function<void()> gone) { gone_ = std::move(gone); }

 private:
  class Reply final : public Exchange {
   public:
    explicit Reply(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
    void Respond(std::function<HttpResponse()> make) override { connection_->Answer(std::move(make)); }
    void OnGone(std::function<void()> gone) override { connection_->OnGone(std::move(gone)); }

   private:
    std::shared_ptr<Connection> connection_;
  };

  static HttpResponse Plain(int status, const std::string& text, std::vector<std::pair<std::string, std::string>> headers = {}) {
    HttpResponse r;
    r.status = status;
    r.headers = std::move(headers);
    r.body = "{\"error\":\"" + text + "\"}";
    return r;
  }

  void ReadHeader() {
    if (buffer_.size() == 0) buffer_.shrink_to_fit();   // clients that wait hold no memory
    parser_.emplace();
    parser_->body_limit(shared_->limits.body);
    parser_->header_limit(shared_->limits.header);
    chunks_ = 0;
    // Many tiny chunks cost far more than the bytes they carry.
    on_chunk_ = [this](uint64_t, beast::string_view, Error& error) {
      if (++chunks_ > shared_->limits.chunks) error = http::error::body_limit;
    };
    parser_->on_chunk_header(on_chunk_);
    stream_.expires_after(shared_->limits.idle);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](Error error, size_t) { self->OnHeader(error); });
  }

  void OnHeader(Error error) {
    if (error) return OnReadError(error);
    stream_.expires_after(shared_->limits.transfer);
    const auto expect = parser_->get()[http::field::expect];
    if (beast::iequals(expect, "100-continue")) {
      continue_.emplace(http::status::continue_, 11);
      http::async_write(stream_, *continue_, [self = shared_from_this()](Error failed, size_t) {
        if (!failed) self->ReadBody();
      });
      return;
    }
    ReadBody();
  }

  // In large pieces: the reader takes no more at a time than its buffer has room for, 512 bytes to begin with. The body's memory
  // is had once; the parser has held its length against the limit.
  void ReadBody() {
    if (!parser_->is_done()) buffer_.reserve(kPiece);
    if (const auto length = parser_->content_length()) parser_->get().body().reserve(*length + kBodyPadding);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](Error error, size_t) { self->OnRead(error); });
  }

  void OnReadError(Error error) {
    keep_alive_ = false;
    if (error == http::error::body_limit)
      return Write(Plain(413, fmt::format("the body is over the limit; {} bytes are allowed", shared_->limits.body)));
    if (error == http::error::header_limit)
      return Write(Plain(431, fmt::format("the header is over the limit; {} bytes are allowed", shared_->limits.header)));
    if (error == beast::error::timeout && parser_->got_some()) return Write(Plain(408, "the request took too long"));
    if (error.category() == http::make_error_code(http::error::bad_version).category() && error != http::error::end_of_stream &&
        error != http::error::partial_message) {
      return Write(Plain(400, "not a valid HTTP request: " + error.message()));
    }
    Close();
  }

  void OnRead(Error error) {
    if (error) return OnReadError(error);
    stream_.expires_never();
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    head_ = message.method() == http::verb::head;
    auto request = std::make_shared<HttpRequest>();
    request->method = std::string(message.method_string());
    request->target = std::string(message.target());
    for (const auto& field : message) request->headers.emplace_back(field.name_string(), field.value());
    request->body = std::move(message.body());
    request->body.reserve(request->body.size() + kBodyPadding);
    waiting_ = true;
    auto handler = shared_->handler;
    handler(std::move(request), std::make_shared<Reply>(shared_from_this()));
    if (waiting_) Watch();
  }

  // A client that closes while its answer is made: its work is cancelled.
  void Watch() {
    watching_ = true;
    stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](Error error) {
      self->watching_ = false;
      if (error || !self->waiting_) return;
      char byte = 0;
      const ssize_t n = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (n > 0) return;  // the next request already: it waits its turn
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return self->Watch();
      self->vanished_ = true;
      if (auto gone = std::move(self->gone_)) gone();
    });
  }

  void Write(HttpResponse response) {
    response_.emplace();
    response_->result(static_cast<unsigned>(response.status));
    response_->version(11);
    response_->set(http::field::server, "tenon");
    if (!response.body.empty()) response_->set(http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers) response_->set(name, value);
    keep_alive_ = keep_alive_ && !shared_->stopping;
    response_->keep_alive(keep_alive_);
    response_->body() = std::move(response.body);
    response_->prepare_payload();
    if (head_) response_->body().clear();
    stream_.expires_after(shared_->limits.transfer);
    http::async_write(stream_, *response_, [self = shared_from_this()](Error error, size_t) {
      self->response_.reset();
      if (error) return;
      if (self->keep_alive_) return self->ReadHeader();
      self->Close();
    });
  }

  // Both directions are ended in an orderly way, so that the answer is not lost with what the client still sends.
  void Close() {
    Error ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(std::chrono::seconds(2));
    drained_ = std::min<size_t>(drained_, kMaxDrained);
    Discard();
  }

  void Discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kDiscard), [self = shared_from_this()](Error error, size_t n) {
      self->drained_ += n;
      if (!error && self->drained_ < kMaxDrained) self->Discard();
    });
  }

  static constexpr size_t kPiece = 64 << 10;
  static constexpr size_t kDiscard = 64 << 10;
  static constexpr size_t kMaxDrained = 64 << 20;

  beast::tcp_stream stream_;
  std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::empty_body>> continue_;
  std::optional<http::response<http::string_body>> response_;
  std::function<void(uint64_t, beast::string_view, Error&)> on_chunk_;
  std::function<void()> gone_;
  uint64_t chunks_ = 0;
  size_t drained_ = 0;
  bool keep_alive_ = true;
  bool head_ = false;
  bool waiting_ = false;  // for the handler's answer
  bool watching_ = false;
  bool vanished_ = false;
};

class Server final : public HttpServer {
 public:
  Server(const HttpLimits& limits, HttpHandler handler) : acceptor_(context_), shared_(std::make_shared<Shared>()) {
    shared_->limits = limits;
    shared_->handler = std::move(handler);
  }

  Status Open(const std::string& host, int port, int threads) {
    Error error;
    const auto address = net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
    if (error) return Usage("address '{}'; an IP address is expected, as 127.0.0.1 or 0.0.0.0", host);
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(kBacklog, error);
    if (error) return ResourceLimit("cannot listen on {}:{}; {}", host, port, error.message());
    Accept();
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { context_.run(); });
    return Status::Ok();
  }

  ~Server() override {
    context_.stop();
    for (auto& t : threads_) t.join();
  }

  int port() const override {
    Error ignored;
    return acceptor_.local_endpoint(ignored).port();
  }
  size_t connections() const override { return shared_->connections; }
  void StopAccepting() override {
    shared_->stopping = true;
    net::post(context_, [this] {
      Error ignored;
      acceptor_.close(ignored);
    });
  }

 private:
  static constexpr int kBacklog = 4096;

  void Accept() {
    acceptor_.async_accept(net::make_strand(context_), [this](Error error, tcp::socket socket) {
      if (error == net::error::operation_aborted || !acceptor_.is_open()) return;
      if (!error) {
        auto connection = std::make_shared<Connection>(std::move(socket), shared_);
        if (shared_->connections > shared_->limits.connections) {
          connection->Refuse();
        } else {
          connection->Start();
        }
      } else {
        // Out of file descriptors: others must end before the next can come.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      Accept();
    });
  }

  net::io_context context_;
  tcp::acceptor acceptor_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (beast::iequals(key, beast::string_view(name.data(), name.size()))) return value;
  }
  return {};
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const std::string& host, int port, int threads, const HttpLimits& limits,
                                                       HttpHandler handler) {
  auto server = std::make_unique<Server>(limits, std::move(handler));
  TENON_RETURN_IF_ERROR(server->Open(host, port, threads));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace tenon::server
