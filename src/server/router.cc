#include "server/router.h"

#include <charconv>

#include "server/json_text.h"
#include "server/status_map.h"

namespace tenon::server {

#define ENDPOINT(method, path, function, access, summary) void function(Call& call);
#include "server/endpoints.inc"
#undef ENDPOINT

namespace {

constexpr Endpoint kEndpoints[] = {
#define ENDPOINT(method, path, function, access, summary) {method, path, #function, Access::access, summary, function},
#include "server/endpoints.inc"
#undef ENDPOINT
};

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The part before the next '/', which is taken off as well.
std::string_view TakePart(std::string_view* path) {
  path->remove_prefix(1);
  const size_t end = std::min(path->find('/'), path->size());
  const std::string_view part = path->substr(0, end);
  path->remove_prefix(end);
  return part;
}

bool Match(std::string_view pattern, std::string_view path, std::vector<std::string>* args) {
  args->clear();
  while (!pattern.empty() && !path.empty()) {
    const std::string_view want = TakePart(&pattern), have = TakePart(&path);
    if (want.starts_with('{')) {
      if (have.empty()) return false;
      args->push_back(PercentDecoded(have));
    } else if (want != have) {
      return false;
    }
  }
  return pattern.empty() && path.empty();
}

std::string_view PathOf(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

std::string_view MethodOf(std::string_view method) {
  return method == "HEAD" ? "GET" : method;
}

}  // namespace

std::span<const Endpoint> Endpoints() {
  return kEndpoints;
}

Access AccessOf(std::string_view method, std::string_view target) {
  const std::string_view path = PathOf(target);
  std::vector<std::string> args;
  if (path.empty() || path[0] != '/') return Access::kInfer;
  for (const Endpoint& e : kEndpoints) {
    if (e.method == MethodOf(method) && Match(e.path, path, &args)) return e.access;
  }
  return Access::kInfer;
}

HttpResponse ErrorResponse(Outcome outcome, const std::string& message, int retry_after_s) {
  HttpResponse r;
  r.status = WireStatusOf(outcome).http;
  r.body = "{\"error\":";
  AppendJsonString(message, &r.body);
  r.body += "}";
  if (retry_after_s > 0) r.headers.emplace_back("Retry-After", std::to_string(retry_after_s));
  return r;
}

void Call::Reply(HttpResponse response) const {
  exchange->Respond([r = std::make_shared<HttpResponse>(std::move(response))] { return std::move(*r); });
}

void Call::ReplyJson(std::string body) const {
  HttpResponse r;
  r.body = std::move(body);
  Reply(std::move(r));
}

void Call::ReplyError(Outcome outcome, const std::string& message, int retry_after_s) const {
  Reply(ErrorResponse(outcome, message, retry_after_s));
}

void Route(Context& context, std::shared_ptr<HttpRequest> request, std::shared_ptr<Exchange> exchange) {
  const std::string_view path = PathOf(request->target);
  const std::string_view method = MethodOf(request->method);
  Call call{std::move(request), std::move(exchange), {}, context};
  std::string allowed;
  if (!path.empty() && path[0] == '/') {
    for (const Endpoint& e : kEndpoints) {
      if (!Match(e.path, path, &call.args)) continue;
      if (e.method == method) return e.run(call);
      allowed += (allowed.empty() ? "" : ", ") + std::string(e.method);
    }
  }
  HttpResponse r = ErrorResponse(Outcome::kNotFound, fmt::format("no endpoint '{}'", path));
  if (!allowed.empty()) {
    r = ErrorResponse(Outcome::kBadRequest, fmt::format("'{}' takes {}, not {}", path, allowed, method));
    r.status = 405;
    r.headers.emplace_back("Allow", allowed);
  }
  call.Reply(std::move(r));
}

}  // namespace tenon::server
