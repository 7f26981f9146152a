// The body of an answer for Boost.Beast: a text and pieces of memory after it, sent as they lie.
#ifndef TENON_SERVER_TRANSPORT_PIECES_BODY_H_
#define TENON_SERVER_TRANSPORT_PIECES_BODY_H_

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/transport/http.h"

namespace tenon::server {

struct PiecesBody {
  struct value_type {
    std::string text;
    std::vector<HttpPiece> pieces;
  };

  static uint64_t size(const value_type& body) { return BytesOf(body.text, body.pieces); }

  class writer {
   public:
    using const_buffers_type = std::vector<boost::asio::const_buffer>;
    template <bool is_request, typename Fields>
    writer(const boost::beast::http::header<is_request, Fields>&, const value_type& body) : body_(body) {}
    void init(boost::system::error_code& error) { error = {}; }
    boost::optional<std::pair<const_buffers_type, bool>> get(boost::system::error_code& error) {
      error = {};
      const_buffers_type buffers = {boost::asio::buffer(body_.text)};
      for (const HttpPiece& piece : body_.pieces) buffers.push_back(boost::asio::buffer(piece.bytes));
      return std::pair(std::move(buffers), false);
    }

   private:
    const value_type& body_;
  };
};

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_PIECES_BODY_H_
