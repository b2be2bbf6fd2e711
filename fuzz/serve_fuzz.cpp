// libFuzzer target for the whole server: a model in this process, and a connection for each input. The first byte
// chooses between bytes that are sent as they are and bodies for the routes of serve_routes.h, and the size of the
// pieces that are sent. Every answer is complete and valid, and none is an internal error.
// fuzz/CMakeLists.txt explains how to run it.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fuzz/serve_routes.h"
#include "tessera/app/app.h"
#include "tessera/app/bundled_model.h"
#include "tessera/server/server.h"
#include "tests/server/http_client.h"

namespace {

using namespace tessera;
using testing::HttpClient;
using testing::HttpReply;

// libFuzzer reports the input of a violation. The reply tells what was wrong with it.
void require(bool holds, const HttpReply& reply) {
  if (holds) return;
  std::fprintf(stderr, "status %d\n%s\n", reply.status, reply.body.c_str());
  std::abort();
}

template <class T>
T value_or_end(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::exit(1);
}

struct Target {
  std::string socket = "/tmp/tessera-serve-fuzz-" + std::to_string(::getpid()) + ".sock";
  std::unique_ptr<server::Server> server;
};

// A server with short answers, so that an input takes milliseconds.
Target start_target() {
  Target target;
  server::ServerOptions options;
  options.http.hosts = {target.socket};
  options.api.build_info = "b1-fuzz";
  options.api.defaults.n_predict = 6;
  options.api.max_choices = 4;
  options.api.has_metrics = options.api.has_props = true;
  target.server = value_or_end(server::Server::start(options));
  std::shared_ptr<Registry> registry = value_or_end(create_registry(""));
  LoadedModel model =
      value_or_end(open_model(registry, {.path = std::string(kBundledModelName), .bytes = bundled_model()}));
  const EmbeddingUse embeddings{.pooling = nn::Pooling::mean};
  model.fit.embeddings = embeddings;
  if (auto loaded = load_session(model, {.n_ctx = 512, .n_sequences = 4, .n_outputs = 16}); !loaded) {
    std::fprintf(stderr, "%s\n", loaded.error().message().c_str());
    std::exit(1);
  }
  server::ServedModelOptions served{.path = std::string(kBundledModelName), .embeddings = embeddings};
  served.scheduler.n_slots = 4;
  if (!target.server->serve(std::move(model), std::move(served))) std::exit(1);
  return target;
}

// Never destroyed: OpenSSL, which it uses, frees its state before objects of this program are destroyed.
Target& target() {
  static Target& the_target = *new Target(start_target());
  return the_target;
}

bool send_pieces(HttpClient& client, std::string_view bytes, size_t n) {
  while (!bytes.empty()) {
    if (!client.send(bytes.substr(0, n))) return false;
    bytes.remove_prefix(std::min(n, bytes.size()));
  }
  return true;
}

// Calls `use` with each line.
template <class Use>
void for_each_line(std::string_view text, const Use& use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// A line of an event stream: a comment, the name of an event, or JSON.
bool is_event_line(std::string_view line) {
  if (line.empty() || line.starts_with(':') || line.starts_with("event: ")) return true;
  return line == "data: [DONE]" || (line.starts_with("data: ") && nlohmann::json::accept(line.substr(6)));
}

void check_answer(const HttpReply& reply) {
  require(reply.is_complete && reply.status >= 200 && reply.status < 600, reply);
  require(reply.status != 500, reply);
  const std::string type = reply.field("content-type");
  if (type.starts_with("application/json")) require(nlohmann::json::accept(reply.body), reply);
  if (type.starts_with("text/event-stream"))
    for_each_line(reply.body, [&](std::string_view line) { require(is_event_line(line), reply); });
  if (type.starts_with("application/x-ndjson"))
    for_each_line(reply.body, [&](std::string_view line) { require(nlohmann::json::accept(line), reply); });
}

void send_body(HttpClient& client, std::string_view route, std::string_view body, size_t piece) {
  std::string head = "POST " + std::string(route) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  head += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  send_pieces(client, head + std::string(body), piece);
  check_answer(client.read_answer());
}

// The answers to bytes without a meaning cannot be told apart, as HEAD has no body. What comes is a head, or nothing.
void send_bytes(HttpClient& client, std::string_view bytes, size_t piece) {
  send_pieces(client, bytes, piece);
  client.end_sending();
  const std::string answer = client.read_all();
  require(answer.empty() || answer.starts_with("HTTP/1.1 "), {.body = answer});
  require(!answer.starts_with("HTTP/1.1 500"), {.body = answer});
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  target();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, n - 2);
  const size_t piece = data[0] % 8 == 0 ? size_t{data[0]} / 8 + 1 : bytes.size() + 1024;
  HttpClient client = HttpClient::connect_unix(target().socket);
  if (!client.is_open()) std::abort();
  if (data[1] < fuzz::kRoutes.size()) {
    send_body(client, fuzz::kRoutes[data[1]], bytes, piece);
  } else {
    send_bytes(client, bytes, piece);
  }
  return 0;
}
