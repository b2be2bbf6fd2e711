// libFuzzer target for heads and chunked bodies of HTTP requests. The first byte chooses the size of the pieces. Any
// bytes give a request or a refusal, the same for all splits, and no limit is passed.
// fuzz/CMakeLists.txt explains how to run it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/server/http/body.h"
#include "tessera/server/http/head.h"

namespace {

using namespace tessera::server;

constexpr HeadLimits kLimits{.head_bytes = 1024, .n_fields = 10, .target_bytes = 200};
constexpr size_t kMaxBody = 1000;

struct HeadOutcome {
  size_t n_taken = 0;
  int status = 0;  // 0: incomplete
  RequestHead head{};
};

HeadOutcome read_head(std::string_view bytes, size_t n) {
  HeadOutcome outcome;
  HeadReader reader(kLimits);
  while (outcome.n_taken < bytes.size() && !reader.is_complete() && !reader.error())
    outcome.n_taken += reader.push(bytes.substr(outcome.n_taken, n));
  if (reader.error()) outcome.status = reader.error()->status;
  if (!reader.is_complete()) return outcome;
  auto head = reader.take();
  outcome.status = head ? 200 : head.error().status;
  if (head) outcome.head = std::move(*head);
  return outcome;
}

// The rules that every accepted head keeps.
bool is_sound(const RequestHead& head) {
  for (const HttpField& field : head.fields) {
    if (!is_http_token(field.name)) return false;
    if (field.value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) return false;
  }
  return head.fields.size() <= kLimits.n_fields && !head.host.empty() && is_http_token(head.method) &&
         head.path.find('\0') == std::string::npos && !(head.is_chunked && head.content_length > 0);
}

struct BodyOutcome {
  size_t n_taken = 0;
  std::string body{};
  bool is_complete = false;
  int status = 0;
  bool operator==(const BodyOutcome&) const = default;
};

BodyOutcome read_body(BodyReader reader, std::string_view bytes, size_t n) {
  BodyOutcome outcome;
  while (outcome.n_taken < bytes.size() && !reader.is_complete() && !reader.error()) {
    const std::string_view piece = bytes.substr(outcome.n_taken, n);
    const size_t most = outcome.body.size() + reader.max_decoded(piece.size());
    outcome.n_taken += reader.push(piece, outcome.body);
    if (outcome.body.size() > most || outcome.body.size() > kMaxBody) std::abort();
  }
  outcome.is_complete = reader.is_complete();
  outcome.status = reader.error() ? reader.error()->status : 0;
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n == 0) return 0;
  const size_t piece = size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, n - 1);
  const HeadOutcome whole = read_head(bytes, bytes.size()), pieces = read_head(bytes, piece);
  if (whole.status != pieces.status || whole.n_taken != pieces.n_taken) std::abort();
  if (whole.status == 200 && !is_sound(whole.head)) std::abort();
  const std::string_view rest = bytes.substr(whole.status == 200 ? whole.n_taken : 0);
  const bool has_length = whole.status == 200 && !whole.head.is_chunked;
  if (has_length && whole.head.content_length > kMaxBody) return 0;
  const auto reader = has_length ? BodyReader::with_length(whole.head.content_length) : BodyReader::in_chunks(kMaxBody);
  if (!(read_body(reader, rest, rest.size()) == read_body(reader, rest, piece))) std::abort();
  return 0;
}
