// The part of Connection that makes requests of bytes: checks of a head in the order of their statuses, the body, and
// the call of the handler.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "tessera/server/http/access.h"
#include "tessera/server/http/connection.h"
#include "tessera/server/http/status.h"
#include "tessera/server/http/target.h"

namespace tessera::server {
namespace {

constexpr std::string_view kNoBodyMemory = "No memory for the body (--http-memory)";
constexpr uint64_t kSinkBytes = uint64_t{1} << 50;  // more than any file
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// The path below a prefix such as "/api"; nothing for other paths.
std::optional<std::string> path_below(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  if (path.empty()) return "/";
  if (!path.starts_with('/')) return std::nullopt;
  return std::string(path);
}

// Refusals that say nothing against the rest of the connection, if no body follows.
bool keeps_connection(int status) { return status == 404 || status == 405; }

}  // namespace

size_t Connection::process_head(std::string_view bytes) {
  const size_t n = head_.push(bytes);
  if (head_.error()) {
    const HeadError error = *head_.error();
    refuse({error.status, error.message}, error.target);
  } else if (head_.is_complete()) {
    on_head();
  }
  return n;
}

void Connection::on_head() {
  auto head = head_.take();
  if (!head) return refuse({head.error().status, head.error().message}, head.error().target);
  incoming_ = std::make_unique<Incoming>();
  incoming_->request.received = std::chrono::steady_clock::now();
  incoming_->head = std::move(*head);
  RequestHead& given = incoming_->head;
  HttpRequest& request = incoming_->request;
  request.method = std::move(given.method);
  request.path = std::move(given.path);
  request.query = std::move(given.query);
  request.fields = std::move(given.fields);
  if (const auto id = request.field("x-request-id"); id && is_request_id(*id)) request.id = std::string(*id);
  if (auto refusal = check_head()) return refuse(*refusal);
  begin_body();
}

std::optional<Connection::Refusal> Connection::check_head() {
  HttpRequest& request = incoming_->request;
  const bool is_options = request.method == "OPTIONS";
  incoming_->cors = cors_fields(shared_->cors, request.fields, is_options);
  const std::string& prefix = shared_->options.api_prefix;
  auto path = prefix.empty() ? request.path : path_below(request.path, prefix);
  if (path) request.path = *path;
  if (peer_.checks_host && !shared_->has_keys && !is_host_allowed(shared_->hosts, incoming_->head.host))
    return Refusal{403, fmt::format("Host '{}' is not allowed (--allowed-hosts)", incoming_->head.host)};
  if (!is_options && !is_page_allowed(shared_->cors, request.fields, incoming_->head.host))
    return Refusal{403, "Requests of this origin are not allowed (--cors-origins)"};
  Router::Match match = path ? shared_->router.find(request.method, *path) : Router::Match{};
  if (auto refusal = check_access(match.route)) return refusal;
  incoming_->allow = std::move(match.allow);
  if (!is_options && match.route == nullptr) {
    if (incoming_->allow.empty()) return Refusal{404, "File Not Found"};
    return Refusal{405, fmt::format("Method {}: want one of {}", request.method, incoming_->allow)};
  }
  const size_t limit = shared_->options.limits.body_bytes;
  const bool has_sink = match.route != nullptr && match.route->open_body;
  if (!has_sink && incoming_->head.content_length > limit)
    return Refusal{413, fmt::format("Body: {} bytes, limit {} (--max-body)", incoming_->head.content_length, limit)};
  incoming_->route = is_options ? nullptr : match.route;
  request.path_segments = std::move(match.path_segments);
  if (match.route != nullptr) request.route = match.route->path;
  return std::nullopt;
}

std::optional<Connection::Refusal> Connection::check_access(const Route* route) {
  HttpRequest& request = incoming_->request;
  request.client = {.name = peer_.address, .is_on_loopback = peer_.is_on_loopback};
  if (!shared_->has_keys) return std::nullopt;
  const auto keys = shared_->current_keys();
  if (const KeyOwner* owner = find_sent_key(*keys, request)) {
    request.client.name = owner->name;
    request.client.best_priority = owner->best_priority;
    request.client.has_key = true;
    request.client.key_id = owner->id;
    return std::nullopt;
  }
  const bool is_open = request.method == "OPTIONS" || (route != nullptr && route->access == Access::open);
  if (is_open) return std::nullopt;
  return Refusal{401, "Invalid API Key"};
}

void Connection::begin_body() {
  const RequestHead& head = incoming_->head;
  const bool has_sink = incoming_->route != nullptr && incoming_->route->open_body;
  if (has_sink && !open_sink()) return;
  const uint64_t limit = has_sink ? kSinkBytes : shared_->options.limits.body_bytes;
  incoming_->reader = head.is_chunked ? BodyReader::in_chunks(limit) : BodyReader::with_length(head.content_length);
  if (incoming_->reader.is_complete()) return dispatch();
  incoming_->progress_ms = now_ms();
  thread_.enter(*this, Phase::body);
  if (head.expects_continue) send_continue();
}

// Opens the sink of the route. Returns false if the request was refused.
bool Connection::open_sink() {
  if (!incoming_->held.grow(shared_->held, BodySink::kMaxHeldBytes)) {
    refuse({503, std::string(kNoBodyMemory)});
    return false;
  }
  auto resume = [weak = weak_from_this(), thread = thread_.shared_from_this()] {
    thread->post([weak] {
      if (const auto self = weak.lock()) self->resume_body();
    });
  };
  auto sink = incoming_->route->open_body(incoming_->request, std::move(resume));
  if (!sink) {
    refuse({sink.error().status, sink.error().message});
    return false;
  }
  incoming_->request.sink = std::move(*sink);
  return true;
}

// All before it is sent, so the socket takes these bytes at once.
void Connection::send_continue() {
  const IoResult result = transport_.write(kContinue, {});
  if (result.state != IoResult::State::done || result.n != kContinue.size()) lose();
}

// Reserves room for n more bytes of the body within the budget of all connections.
bool Connection::make_room(size_t n) {
  std::string& body = incoming_->request.body;
  const size_t wanted = body.size() + incoming_->reader.max_decoded(n);
  if (wanted <= body.capacity()) return true;
  size_t most = shared_->options.limits.body_bytes;
  if (!incoming_->head.is_chunked) most = static_cast<size_t>(incoming_->head.content_length);
  const size_t capacity = std::max(wanted, std::min(2 * body.capacity(), most));
  if (!incoming_->held.grow(shared_->held, capacity)) return false;
  body.reserve(capacity);
  return true;
}

// Passes decoded bytes to the sink. Its body may take longer than others, as long as it goes on.
size_t Connection::pass_body(std::string_view bytes) {
  const int64_t now = now_ms();
  incoming_->progress_ms = now;
  if (now - phase_ms > shared_->options.limits.body_stall_ms) thread_.enter(*this, Phase::body);
  BodyReader& reader = incoming_->reader;
  std::string& piece = incoming_->piece;
  const size_t n = reader.push(bytes, piece);
  BodySink& sink = *incoming_->request.sink;
  const BodySink::State state = piece.empty() ? BodySink::State::ready : sink.write(piece);
  piece.clear();
  if (reader.error() || state == BodySink::State::failed) {
    const BodyError error = reader.error() ? *reader.error() : sink.error();
    refuse({error.status, error.message});
  } else if (reader.is_complete()) {
    dispatch();
  } else {
    incoming_->is_full = state == BodySink::State::full;
  }
  return n;
}

// The sink has room again.
void Connection::resume_body() {
  if (descriptor_ == nullptr || incoming_ == nullptr || !incoming_->is_full) return;
  incoming_->is_full = false;
  on_event(IoEvent::readable);
}

size_t Connection::process_body(std::string_view bytes) {
  if (incoming_->request.sink != nullptr) return pass_body(bytes);
  if (!make_room(bytes.size())) {
    refuse({503, std::string(kNoBodyMemory)});
    return 0;
  }
  incoming_->progress_ms = now_ms();
  BodyReader& reader = incoming_->reader;
  const size_t n = reader.push(bytes, incoming_->request.body);
  if (reader.error()) {
    const BodyError error = *reader.error();
    refuse({error.status, error.message});
  } else if (reader.is_complete()) {
    dispatch();
  }
  return n;
}

// Makes an exchange of the incoming request. Its bytes leave after the caller has answered and flushed.
void Connection::begin_exchange(bool keeps_alive) {
  const int64_t limit = shared_->options.limits.n_requests;
  ++n_requests_;
  Incoming& given = *incoming_;
  if (given.request.id.empty()) given.request.id = thread_.next_request_id();
  ExchangeSetup setup{.request = std::move(given.request),
                      .minor_version = given.head.minor_version,
                      .keeps_alive = keeps_alive && given.head.keeps_alive && n_requests_ < limit,
                      .cors = std::move(given.cors),
                      .held = std::move(given.held)};
  exchange_ =
      std::make_shared<ConnectionExchange>(std::move(setup), shared_from_this(), thread_.shared_from_this(), shared_);
  incoming_.reset();
  thread_.enter(*this, Phase::answering);
}

void Connection::dispatch() {
  if (incoming_->route == nullptr) return answer_options();
  const Route& route = *incoming_->route;
  begin_exchange(true);
  const auto exchange = exchange_;
  try {
    route.handler(exchange);
  } catch (const std::bad_alloc&) {
    exchange->refuse(503, "No memory for the request");
  } catch (const std::exception&) {
    exchange->refuse(500, "Internal error");
  }
  flush();
}

void Connection::answer_options() {
  const std::string allow = incoming_->allow;
  begin_exchange(true);
  HttpAnswer answer{.status = 200, .content_type = "text/plain; charset=utf-8"};
  if (!allow.empty()) answer.fields.push_back({"Allow", allow});
  exchange_->answer(std::move(answer));
  flush();
}

// `target` is that of a head which was not parsed.
void Connection::refuse(const Refusal& refusal, std::string_view target) {
  const bool had_begun = incoming_ != nullptr || head_.has_begun() || !target.empty();
  reports_ = reports_ && had_begun;
  if (incoming_ == nullptr) {
    incoming_ = std::make_unique<Incoming>();
    incoming_->request.received = std::chrono::steady_clock::now();
    const auto path = percent_decode(target.substr(0, target.find('?')));
    incoming_->request.path = path.value_or("");
    incoming_->request.client = {.name = peer_.address, .is_on_loopback = peer_.is_on_loopback};
    const std::string& prefix = shared_->options.api_prefix;
    if (auto below = path_below(incoming_->request.path, prefix)) incoming_->request.path = std::move(*below);
    incoming_->head.keeps_alive = false;
  }
  std::vector<HttpField> fields;
  if (refusal.status == 401) fields.push_back({"WWW-Authenticate", "Bearer"});
  if (refusal.status == 405) fields.push_back({"Allow", incoming_->allow});
  const bool keeps_alive = keeps_connection(refusal.status) && !incoming_->head.has_body();
  std::string().swap(incoming_->request.body);
  incoming_->request.sink.reset();
  head_.reset();
  begin_exchange(keeps_alive);
  exchange_->refuse(refusal.status, refusal.message, std::move(fields));
  flush();
}

}  // namespace tessera::server
