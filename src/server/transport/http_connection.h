// One client of the HTTP server, over TCP or TLS. Included by http.cc alone.
#ifndef TENON_SERVER_TRANSPORT_HTTP_CONNECTION_H_
#define TENON_SERVER_TRANSPORT_HTTP_CONNECTION_H_

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <optional>

#include "serve/home_cores.h"
#include "server/transport/http.h"
#include "server/transport/pieces_body.h"

namespace tenon::server::transport {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using net::ip::tcp;
using Error = boost::system::error_code;

using TcpStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

struct Shared {
  HttpOptions options;
  net::io_context* common = nullptr;   // where clients are accepted
  std::function<net::io_context&(const std::vector<int>& cores)> loop_at;
  std::atomic<std::shared_ptr<net::ssl::context>> tls;   // null: none
  std::atomic<size_t> connections{0};
  std::atomic<bool> stopping{false};
};

// All work of a connection runs on one strand.
template <typename Stream>
class Connection final : public std::enable_shared_from_this<Connection<Stream>> {
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;
  using Self = std::shared_ptr<Connection>;
  Self Me() { return this->shared_from_this(); }

 public:
  template <typename... Args>
  explicit Connection(std::shared_ptr<Shared> shared, Args&&... args)
      : stream_(std::forward<Args>(args)...), shared_(std::move(shared)) {
    ++shared_->connections;
  }
  ~Connection() { --shared_->connections; }

  void Start() {
    Error ignored;
    Tcp().socket().set_option(tcp::no_delay(true), ignored);
    net::dispatch(stream_.get_executor(), [self = Me()] { self->Shake(&Connection::ReadHeader); });
  }
  void Refuse() {
    keep_alive_ = false;
    net::dispatch(stream_.get_executor(), [self = Me()] { self->Shake(&Connection::SayFull); });
  }

  // From any thread.
  void Answer(std::function<HttpResponse()> make) {
    net::post(stream_.get_executor(), [self = Me(), home = serve::HomeCores(), make = std::move(make)] {
      if (home != nullptr) self->SetHome(home);
      if constexpr (kTls) serve::FollowTo(self->home_);
      self->waiting_ = false;
      self->gone_ = nullptr;
      Error ignored;
      if (self->watching_) self->Tcp().socket().cancel(ignored);
      if (!self->vanished_) self->Write(make());
    });
  }
  void OnGone(std::function<void()> gone) { gone_ = std::move(gone); }
  std::string Client() {
    Error ignored;
    const tcp::endpoint client = Tcp().socket().remote_endpoint(ignored);
    return fmt::format("{}:{}", client.address().to_string(), client.port());
  }

 private:
  class Reply final : public Exchange {
   public:
    explicit Reply(Self connection) : connection_(std::move(connection)) {}
    void Respond(std::function<HttpResponse()> make) override { connection_->Answer(std::move(make)); }
    void OnGone(std::function<void()> gone) override { connection_->OnGone(std::move(gone)); }
    std::string Client() const override { return connection_->Client(); }

   private:
    Self connection_;
  };

  TcpStream& Tcp() { return beast::get_lowest_layer(stream_); }

  // Then `next`, once the client and we are agreed on a cipher.
  void Shake(void (Connection::*next)()) {
    if constexpr (kTls) {
      Tcp().expires_after(shared_->options.limits.handshake);
      stream_.async_handshake(net::ssl::stream_base::server, [self = Me(), next](Error error) {
        if (!error) (*self.*next)();
      });
    } else {
      (this->*next)();
    }
  }

  void SayFull() { Write(Plain(503, "too many connections", {{"Retry-After", "1"}})); }

  static HttpResponse Plain(int status, const std::string& text, std::vector<std::pair<std::string, std::string>> headers = {}) {
    HttpResponse r;
    r.status = status;
    r.headers = std::move(headers);
    r.body = "{\"error\":\"" + text + "\"}";
    return r;
  }

  // What one partition's models answer is sent from that partition's cores, and its next request is read there: a client's
  // megabytes cost nothing in the other partitions. A client that asks the same one twice is served by the loop on its cores; TLS
  // cannot change loops, so the thread at hand goes to those cores instead.
  void SetHome(const serve::Cores& home) {
    if (!kTls && home_ != nullptr && *home == *home_) next_loop_ = &shared_->loop_at(*home);
    home_ = home;
  }

  // Between two requests.
  void Next() {
    if constexpr (!kTls) {
      if (next_loop_ != loop_) return MoveTo(*next_loop_);
    }
    ReadHeader();
  }

  // Another connection goes on with the socket there.
  void MoveTo(net::io_context& loop) {
    Error error;
    const auto protocol = Tcp().socket().local_endpoint(error).protocol();
    if (error) return;  // the client is gone
    const auto descriptor = Tcp().release_socket().release(error);
    if (error) return;
    tcp::socket socket(net::make_strand(loop));
    socket.assign(protocol, descriptor, error);
    if (error) {
      ::close(descriptor);
      return;
    }
    const auto next = std::make_shared<Connection>(shared_, std::move(socket));
    next->buffer_ = std::move(buffer_);
    next->home_ = std::move(home_);
    next->loop_ = next->next_loop_ = &loop;
    net::dispatch(next->stream_.get_executor(), [next] { next->ReadHeader(); });
  }

  void ReadHeader() {
    if (buffer_.size() == 0) buffer_.shrink_to_fit();  // clients that wait hold no memory
    parser_.emplace();
    parser_->body_limit(shared_->options.limits.body);
    parser_->header_limit(shared_->options.limits.header);
    chunks_ = 0;
    // Many tiny chunks cost far more than the bytes they carry.
    on_chunk_ = [this](uint64_t, beast::string_view, Error& error) {
      if (++chunks_ > shared_->options.limits.chunks) error = http::error::body_limit;
    };
    parser_->on_chunk_header(on_chunk_);
    Tcp().expires_after(shared_->options.limits.idle);
    http::async_read_header(stream_, buffer_, *parser_, [self = Me()](Error error, size_t) { self->OnHeader(error); });
  }

  void OnHeader(Error error) {
    if (error) return OnReadError(error);
    if constexpr (kTls) serve::FollowTo(home_);
    Tcp().expires_after(shared_->options.limits.transfer);
    const auto& head = parser_->get();
    keep_alive_ = head.keep_alive();
    head_ = head.method() == http::verb::head;
    request_ = std::make_shared<HttpRequest>();
    request_->begin = std::chrono::steady_clock::now();
    request_->method = std::string(head.method_string());
    request_->target = std::string(head.target());
    for (const auto& field : head) request_->headers.emplace_back(field.name_string(), field.value());
    if (shared_->options.gate) {
      if (auto refusal = shared_->options.gate(*request_, Reply(Me()))) {
        keep_alive_ = false;  // whatever it sends as the body is not read
        return Write(std::move(*refusal));
      }
    }
    const auto expect = head[http::field::expect];
    if (beast::iequals(expect, "100-continue")) {
      continue_.emplace(http::status::continue_, 11);
      http::async_write(stream_, *continue_, [self = Me()](Error failed, size_t) {
        if (!failed) self->ReadBody();
      });
      return;
    }
    ReadBody();
  }

  // In large pieces: the reader takes no more at a time than its buffer has room for, 512 bytes to begin with. The body's memory
  // is had once; the parser has held its length against the limit.
  void ReadBody() {
    const auto length = parser_->content_length();
    if (!parser_->is_done()) buffer_.reserve(std::min<uint64_t>(kPiece, length.value_or(kPiece)));
    if (length) parser_->get().body().reserve(*length + kBodyPadding);
    http::async_read(stream_, buffer_, *parser_, [self = Me()](Error error, size_t) { self->OnRead(error); });
  }

  void OnReadError(Error error) {
    keep_alive_ = false;
    if (error == http::error::body_limit)
      return Write(Plain(413, fmt::format("the body is over the limit; {} bytes are allowed", shared_->options.limits.body)));
    if (error == http::error::header_limit)
      return Write(Plain(431, fmt::format("the header is over the limit; {} bytes are allowed", shared_->options.limits.header)));
    if (error == beast::error::timeout && parser_->got_some()) return Write(Plain(408, "the request took too long"));
    if (error.category() == http::make_error_code(http::error::bad_version).category() && error != http::error::end_of_stream &&
        error != http::error::partial_message) {
      return Write(Plain(400, "not a valid HTTP request: " + error.message()));
    }
    // The client is gone, or was silent for too long: nothing is left to read, and over TCP nothing to say.
    if constexpr (kTls) Close();
  }

  void OnRead(Error error) {
    if (error) return OnReadError(error);
    Tcp().expires_never();
    request_->body = std::move(parser_->get().body());
    request_->body.reserve(request_->body.size() + kBodyPadding);
    request_->end = std::chrono::steady_clock::now();
    waiting_ = true;
    shared_->options.handler(std::move(request_), std::make_shared<Reply>(Me()));
    if (waiting_) Watch();
  }

  // A client that closes while its answer is made: its work is cancelled. What it sends instead is the next request, or a part
  // of it, and waits its turn.
  void Watch() {
    if (buffer_.size() >= kWatched) return;
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(kWatched), [self = Me()](Error error, size_t n) {
      self->watching_ = false;
      self->buffer_.commit(n);
      const bool ended = error && error != net::error::operation_aborted;
      if (ended && self->waiting_) {
        self->vanished_ = true;
        if (auto gone = std::move(self->gone_)) gone();
        return;
      }
      if (ended) self->ReportEnd();
      if (!self->next_) return;
      self->next_ = false;
      self->keep_alive_ ? self->Next() : self->Close();
    });
  }

  // Asio reads on after the end of a stream only when it hears of it once more.
  void ReportEnd() {
    Error ignored;
    Tcp().socket().shutdown(tcp::socket::shutdown_receive, ignored);
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
    response_->body() = {std::move(response.body), std::move(response.pieces)};
    done_ = std::move(response.done);
    response_->prepare_payload();
    if (head_) response_->body() = {};
    Tcp().expires_after(shared_->options.limits.transfer);
    http::async_write(stream_, *response_, [self = Me()](Error error, size_t) {
      self->response_.reset();
      if (auto done = std::move(self->done_)) done(!error);
      if (error) return;
      self->next_ = self->watching_;  // the watch ends first: one read at a time
      if (self->watching_) return;
      self->keep_alive_ ? self->Next() : self->Close();
    });
  }

  // Both directions are ended in an orderly way, so that the answer is not lost with what the client still sends.
  void Close() {
    Tcp().expires_after(std::chrono::seconds(2));
    if constexpr (kTls) {
      stream_.async_shutdown([self = Me()](Error) { self->Linger(); });
    } else {
      Linger();
    }
  }

  void Linger() {
    Error ignored;
    Tcp().socket().shutdown(tcp::socket::shutdown_send, ignored);
    Tcp().expires_after(std::chrono::seconds(2));
    Discard();
  }

  void Discard() {
    buffer_.clear();
    Tcp().async_read_some(buffer_.prepare(kDiscard), [self = Me()](Error error, size_t n) {
      self->drained_ += n;
      if (!error && self->drained_ < kMaxDrained) self->Discard();
    });
  }

  static constexpr size_t kPiece = 64 << 10;
  static constexpr size_t kWatched = 4 << 10;
  static constexpr size_t kDiscard = 4 << 10;
  static constexpr size_t kMaxDrained = 64 << 20;

  Stream stream_;
  std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::empty_body>> continue_;
  std::optional<http::response<PiecesBody>> response_;
  std::function<void(uint64_t, beast::string_view, Error&)> on_chunk_;
  std::shared_ptr<HttpRequest> request_;
  serve::Cores home_;  // of whose model answered last
  net::io_context *loop_ = shared_->common, *next_loop_ = loop_;  // of this request, and of those to come
  std::function<void()> gone_;
  std::function<void(bool)> done_;
  uint64_t chunks_ = 0;
  size_t drained_ = 0;
  bool keep_alive_ = true;
  bool head_ = false;
  bool waiting_ = false;  // for the handler's answer
  bool watching_ = false;
  bool next_ = false;  // the next request is read when the watch has ended
  bool vanished_ = false;
};

}  // namespace tenon::server::transport

#endif  // TENON_SERVER_TRANSPORT_HTTP_CONNECTION_H_
