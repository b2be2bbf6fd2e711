#include "tessera/server/http/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera::server {
namespace {

std::optional<unsigned> chunk_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

bool is_control_char(char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f; }

}  // namespace

BodyReader BodyReader::with_length(uint64_t n_bytes) {
  BodyReader reader;
  reader.n_missing_ = n_bytes;
  if (n_bytes == 0) reader.state_ = State::complete;
  return reader;
}

BodyReader BodyReader::in_chunks(uint64_t max_bytes) {
  BodyReader reader;
  reader.is_chunked_ = true;
  reader.n_allowed_ = max_bytes;
  reader.state_ = State::size;
  return reader;
}

size_t BodyReader::max_decoded(size_t n) const {
  const uint64_t n_present = state_ == State::data ? n_missing_ : 0;
  return static_cast<size_t>(std::min<uint64_t>(n, n_present + n_allowed_));
}

size_t BodyReader::push(std::string_view bytes, std::string& out) {
  size_t n = 0;
  while (n < bytes.size() && state_ != State::complete && !error_) {
    if (state_ != State::data) {
      accept(bytes[n++]);
      continue;
    }
    const size_t n_data = static_cast<size_t>(std::min<uint64_t>(n_missing_, bytes.size() - n));
    out.append(bytes.substr(n, n_data));
    n += n_data;
    n_missing_ -= n_data;
    if (n_missing_ == 0) state_ = is_chunked_ ? State::data_cr : State::complete;
  }
  return n;
}

void BodyReader::accept(char c) {
  switch (state_) {
    case State::size:
      return accept_size(c);
    case State::size_lf:
      if (c != '\n') return fail(400, "Chunk size: bare CR");
      return end_size_line();
    case State::data_cr:
      return expect(c, '\r', State::data_lf);
    case State::data_lf:
      return expect(c, '\n', State::size);
    case State::trailer:
    case State::trailer_lf:
      return accept_trailer(c);
    case State::data:
    case State::complete:
      return;
  }
}

void BodyReader::expect(char got, char want, State next) {
  if (got != want) return fail(400, "Chunk: want CR LF after its bytes");
  state_ = next;
}

void BodyReader::accept_size(char c) {
  if (c == '\r') {
    if (!has_digit_) return fail(400, "Chunk size: want hexadecimal digits");
    state_ = State::size_lf;
    return;
  }
  if (++line_bytes_ > kMaxChunkLine) return fail(400, fmt::format("Chunk size: line of over {} bytes", kMaxChunkLine));
  if (in_extension_) {
    if (is_control_char(c)) return fail(400, "Chunk size: control character in an extension");
    return;
  }
  const auto digit = chunk_digit(c);
  if (!digit) {
    if (c != ';' || !has_digit_) return fail(400, "Chunk size: want hexadecimal digits");
    in_extension_ = true;
    return;
  }
  has_digit_ = true;
  if (n_missing_ >> 60 != 0) return fail(413, "Chunk size: over 2^64 bytes");
  n_missing_ = n_missing_ * 16 + *digit;
}

void BodyReader::end_size_line() {
  line_bytes_ = 0;
  in_extension_ = has_digit_ = false;
  if (n_missing_ > n_allowed_) return fail(413, "Body: over the limit");
  n_allowed_ -= n_missing_;
  state_ = n_missing_ == 0 ? State::trailer : State::data;
}

// Trailers are checked and dropped: no route needs one, and merged ones could replace fields that were checked.
void BodyReader::accept_trailer(char c) {
  if (++trailer_bytes_ > kMaxTrailers) return fail(400, fmt::format("Trailers: over {} bytes", kMaxTrailers));
  if (state_ == State::trailer_lf) {
    if (c != '\n') return fail(400, "Trailer: bare CR");
    state_ = line_bytes_ == 0 ? State::complete : State::trailer;
    line_bytes_ = 0;
    return;
  }
  if (c == '\r') {
    state_ = State::trailer_lf;
    return;
  }
  if (is_control_char(c)) return fail(400, "Trailer: control character");
  ++line_bytes_;
}

void BodyReader::fail(int status, std::string message) { error_ = BodyError{status, std::move(message)}; }

}  // namespace tessera::server
