#include "server/transport/http.h"

#include <boost/asio/strand.hpp>
#include <thread>

#include "server/transport/http_connection.h"
#include "server/transport/loops.h"

namespace tenon::server {
namespace {

using namespace transport;   // NOLINT(google-build-using-namespace): the other half of this file

// What was checked when it was read: a failure here is one of OpenSSL's rules (a weak key).
Result<std::shared_ptr<net::ssl::context>> ContextOf(const Tls& tls) {
  auto context = std::make_shared<net::ssl::context>(net::ssl::context::tls_server);
  net::ssl::context& c = *context;
  Error error;
  c.set_options(net::ssl::context::no_tlsv1 | net::ssl::context::no_tlsv1_1 | net::ssl::context::no_compression, error);
  if (!error) c.use_certificate_chain(net::buffer(tls.certificate), error);
  if (!error) c.use_private_key(net::buffer(tls.key), net::ssl::context::pem, error);
  if (!error && !tls.client_ca.empty()) {
    c.add_certificate_authority(net::buffer(tls.client_ca), error);
    if (!error) c.set_verify_mode(net::ssl::verify_peer | net::ssl::verify_fail_if_no_peer_cert, error);
    constexpr unsigned char kSessions[] = "tenon";   // without one, clients with certificates could not resume
    SSL_CTX_set_session_id_context(c.native_handle(), kSessions, sizeof(kSessions) - 1);
  }
  if (error) return BadInput("certificate and key cannot be used; {}", error.message());
  return context;
}

class Server final : public HttpServer {
 public:
  explicit Server(HttpOptions options) : acceptor_(loops_.common()), shared_(std::make_shared<Shared>()) {
    shared_->options = std::move(options);
    shared_->common = &loops_.common();
    shared_->loop_at = [this](const std::vector<int>& cores) -> net::io_context& { return loops_.At(cores); };
  }

  Status Open() {
    const auto& [host, port, threads, limits, tls, gate, handler] = shared_->options;
    if (tls.on()) {
      TENON_ASSIGN_OR_RETURN(auto context, ContextOf(tls));
      shared_->tls = std::move(context);
    }
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
    loops_.Run(threads);
    return Status::Ok();
  }

  ~Server() override { loops_.Stop(); }

  int port() const override {
    Error ignored;
    return acceptor_.local_endpoint(ignored).port();
  }
  size_t connections() const override { return shared_->connections; }
  Status SetTls(const Tls& tls) override {
    if (!tls.on() || shared_->tls.load() == nullptr) return Status::Ok();
    TENON_ASSIGN_OR_RETURN(auto context, ContextOf(tls));
    shared_->tls = std::move(context);
    return Status::Ok();
  }
  void StopAccepting() override {
    shared_->stopping = true;
    net::post(loops_.common(), [this] {
      Error ignored;
      acceptor_.close(ignored);
    });
  }

 private:
  static constexpr int kBacklog = 4096;

  template <typename C>
  void Begin(const std::shared_ptr<C>& connection) {
    if (shared_->connections > shared_->options.limits.connections) {
      connection->Refuse();
    } else {
      connection->Start();
    }
  }

  void Accept() {
    acceptor_.async_accept(net::make_strand(loops_.common()), [this](Error error, tcp::socket socket) {
      if (error == net::error::operation_aborted || !acceptor_.is_open()) return;
      if (const auto tls = shared_->tls.load(); !error && tls != nullptr) {
        Begin(std::make_shared<Connection<TlsStream>>(shared_, std::move(socket), *tls));
      } else if (!error) {
        Begin(std::make_shared<Connection<TcpStream>>(shared_, std::move(socket)));
      } else {
        // Out of file descriptors: others must end before the next can come.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      Accept();
    });
  }

  Loops loops_;
  tcp::acceptor acceptor_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (beast::iequals(key, beast::string_view(name.data(), name.size()))) return value;
  }
  return {};
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(HttpOptions options) {
  auto server = std::make_unique<Server>(std::move(options));
  TENON_RETURN_IF_ERROR(server->Open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace tenon::server
