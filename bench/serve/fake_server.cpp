// The model-free server of the self-test (fake_server.h).
#include "bench/serve/fake_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace tessera::load {
namespace {

using Json = nlohmann::json;
constexpr size_t kSmallestCached = 32;  // shorter prompts do not enter the pretended prefix cache

std::string text_of(int status, std::string_view fields, std::string_view body) {
  return fmt::format("HTTP/1.1 {} X\r\n{}Content-Length: {}\r\n\r\n{}", status, fields, body.size(), body);
}

std::string chunk(std::string_view event) {
  const size_t n_bytes = event.size() + 8;  // with "data: " and the blank line
  return fmt::format("{:x}\r\ndata: {}\n\n\r\n", n_bytes, event);
}

constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

size_t body_length(std::string_view head) {
  const size_t at = head.find("Content-Length: ");
  return at == std::string_view::npos ? 0
                                      : static_cast<size_t>(std::atoll(std::string(head.substr(at + 16, 19)).c_str()));
}

}  // namespace

struct FakeServer::Peer {
  int fd = -1;
  std::string in, out;
  bool is_closing = false;         // once `out` has left
  int64_t n_left = 0, n_sent = 0;  // tokens of the stream
  int64_t n_computed = 0;
};

Result<std::unique_ptr<FakeServer>> FakeServer::start(const Options& options) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(options.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || ::bind(listener, plain, size) != 0 || ::listen(listener, 4096) != 0 ||
      getsockname(listener, plain, &size) != 0) {
    const std::string reason = std::strerror(errno);
    if (listener >= 0) ::close(listener);
    return fail(ErrorCode::io, "port {}: {}", options.port, reason);
  }
  return std::unique_ptr<FakeServer>(new FakeServer(options, listener, ntohs(address.sin_port)));
}

FakeServer::FakeServer(const Options& options, int listener, int port)
    : options_(options), listener_(listener), port_(port), thread_([this] { run(); }) {}

FakeServer::~FakeServer() {
  stops_ = true;
  thread_.join();
  for (const auto& peer : peers_) ::close(peer->fd);
  ::close(listener_);
}

void FakeServer::run() {
  while (!stops_) round();
}

void FakeServer::round() {
  std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
  bool is_busy = false;
  for (const auto& peer : peers_) {
    const bool has_output = !peer->out.empty();
    is_busy |= has_output || peer->n_left > 0;
    polled.push_back({peer->fd, static_cast<short>(POLLIN | (has_output ? POLLOUT : 0)), 0});
  }
  const int wait_ms = is_busy ? options_.round_ms : 10;
  if (options_.round_ms > 0 && is_busy) std::this_thread::sleep_for(std::chrono::milliseconds(options_.round_ms));
  ::poll(polled.data(), polled.size(), options_.round_ms > 0 ? 0 : wait_ms);
  for (size_t i = 0; i + 1 < polled.size(); ++i) {
    Peer& peer = *peers_[i];
    if (peer.n_left > 0) step(peer);
    if (serve(peer, polled[i + 1].revents)) continue;
    if (peer.n_left > 0) --n_active_;
    ::close(std::exchange(peer.fd, -1));
  }
  std::erase_if(peers_, [](const auto& peer) { return peer->fd < 0; });
  if (polled[0].revents != 0) accept_all();
}

void FakeServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++n_connections_;
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->fd = fd;
  }
}

/// Reads and writes. Returns false when the connection is to be closed.
bool FakeServer::serve(Peer& peer, short events) {
  if ((events & (POLLERR | POLLHUP)) != 0) return false;
  if ((events & POLLIN) != 0) {
    std::array<char, 65536> bytes;
    const ssize_t n = ::recv(peer.fd, bytes.data(), bytes.size(), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    if (n > 0) peer.in.append(bytes.data(), static_cast<size_t>(n));
    read_requests(peer);
  }
  if (!peer.out.empty()) {
    const size_t limit = options_.fragment_bytes > 0 ? options_.fragment_bytes : peer.out.size();
    const ssize_t n = ::send(peer.fd, peer.out.data(), std::min(limit, peer.out.size()), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) return false;
    if (n > 0) peer.out.erase(0, static_cast<size_t>(n));
  }
  return !(peer.is_closing && peer.out.empty());
}

void FakeServer::read_requests(Peer& peer) {
  const size_t end = peer.in.find("\r\n\r\n");
  if (end == std::string::npos) return;
  const std::string head = peer.in.substr(0, end + 2);
  const size_t n_body = body_length(head);
  if (peer.in.size() < end + 4 + n_body) return;
  const std::string body = peer.in.substr(end + 4, n_body);
  peer.in.erase(0, end + 4 + n_body);
  answer(peer, head, body);
  if (options_.closes && peer.n_left == 0) peer.is_closing = true;
}

void FakeServer::answer(Peer& peer, std::string_view head, const std::string& body) {
  const size_t space = head.find(' ');
  const std::string_view method = head.substr(0, space);
  const std::string_view target = head.substr(space + 1, head.find(' ', space + 1) - space - 1);
  if (method == "POST") {
    answer_post(peer, target, body);
  } else if (target == "/health") {
    peer.out += text_of(200, "", R"({"status":"ok"})");
  } else if (target == "/metrics") {
    peer.out += text_of(200, "", metrics());
  } else if (target == "/slots") {
    peer.out += text_of(200, "", fmt::format(R"([{{"id":0,"is_processing":{}}}])", n_active_ > 0));
  } else {
    peer.out += text_of(404, "", "{}");
  }
}

void FakeServer::answer_post(Peer& peer, std::string_view target, const std::string& body) {
  if (target == "/completion") return complete(peer, body);
  if (target == "/v1/embeddings") {
    peer.out += text_of(501, "", "{}");
  } else if (target == "/v1/chat/completions") {
    peer.out += std::string(kStreamHead) + chunk(R"({"choices":[]})") + chunk("[DONE]") + "0\r\n\r\n";
  } else {
    peer.out += text_of(404, "", "{}");
  }
}

void FakeServer::complete(Peer& peer, const std::string& body) {
  const Json request = Json::parse(body, nullptr, false);
  if (!request.is_object() || !request.contains("prompt")) {
    peer.out += text_of(400, "", R"({"error":{"code":400}})");
    return;
  }
  if (n_active_ >= options_.n_active_max) {
    peer.out += text_of(503, "Retry-After: 1\r\n", R"({"error":{"code":503}})");
    return;
  }
  if (!request.value("stream", false)) {
    peer.out += text_of(200, "", R"({"content":"a fixed answer","stop":true})");
    return;
  }
  ++n_active_;
  const Json& prompt = request["prompt"];
  peer.n_left = std::max<int64_t>(request.value("n_predict", int64_t{16}), 1);
  peer.n_sent = 0;
  peer.n_computed = prompt.is_array() ? n_computed(prompt.get<std::vector<int64_t>>()) : 1;
  peer.out += kStreamHead;
}

/// Returns the number of prompt tokens that no earlier prompt shares, at least 1, and remembers the prompt.
int64_t FakeServer::n_computed(const std::vector<int64_t>& ids) {
  size_t n_common = 0;
  for (const auto& other : seen_) {
    const auto end = std::mismatch(ids.begin(), ids.end(), other.begin(), other.end()).first;
    n_common = std::max(n_common, static_cast<size_t>(end - ids.begin()));
  }
  if (ids.size() >= kSmallestCached) seen_.push_back(ids);
  return static_cast<int64_t>(ids.size() - std::min(n_common, ids.size() - 1));
}

/// Appends the next token of a stream, and the final object after the last one.
void FakeServer::step(Peer& peer) {
  ++n_predicted_;
  ++peer.n_sent;
  peer.out += chunk(
      fmt::format(R"({{"index":0,"content":" a","tokens":[300],"stop":false,"tokens_predicted":{}}})", peer.n_sent));
  if (options_.n_cut_after == peer.n_sent) {
    peer.n_left = 0;
    --n_active_;
    peer.is_closing = true;
    return;
  }
  if (--peer.n_left == 0) end_stream(peer);
}

void FakeServer::end_stream(Peer& peer) {
  --n_active_;
  peer.out += chunk(fmt::format(R"({{"content":"","stop":true,"tokens_predicted":{},"timings":{{"prompt_n":{}}}}})",
                                peer.n_sent, peer.n_computed));
  peer.out += "0\r\n\r\n";
  if (options_.closes) peer.is_closing = true;
}

std::string FakeServer::metrics() const {
  return fmt::format(
      "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total {}\n"
      "llamacpp:requests_processing{{model=\"x\"}} {}\nllamacpp:requests_deferred 0\n",
      n_predicted_, n_active_);
}

}  // namespace tessera::load
