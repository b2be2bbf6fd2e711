// Bodies of requests, of known length or in chunks, decoded from pieces of any size. Pure code over bytes, which a
// connection, tests and a fuzzer call. The decoded bytes never exceed the limit.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::server {

/// A refused body: 400 or 413, or the status of a BodySink.
struct BodyError {
  int status = 400;
  std::string message{};
};

class BodyReader {
 public:
  static constexpr size_t kMaxChunkLine = 64;
  static constexpr size_t kMaxTrailers = 4 << 10;

  /// A body of n_bytes, which are within the limit.
  static BodyReader with_length(uint64_t n_bytes);
  /// A body in chunks of at most max_bytes together.
  static BodyReader in_chunks(uint64_t max_bytes);

  /// Takes bytes up to the end of the body, or up to the first error, and returns their number. Appends what they
  /// decode to `out`, whose capacity the caller may have reserved.
  size_t push(std::string_view bytes, std::string& out);

  /// The most bytes that push() may append for n bytes.
  size_t max_decoded(size_t n) const;

  bool is_complete() const { return state_ == State::complete; }
  bool is_chunked() const { return is_chunked_; }
  /// Bytes that are missing: of the body, or of the present chunk.
  uint64_t n_missing() const { return n_missing_; }
  const std::optional<BodyError>& error() const { return error_; }

 private:
  enum class State { data, size, size_lf, data_cr, data_lf, trailer, trailer_lf, complete };

  void accept(char c);  // a byte outside of the data
  void accept_size(char c);
  void end_size_line();
  void accept_trailer(char c);
  void fail(int status, std::string message);
  void expect(char got, char want, State next);

  State state_ = State::data;
  bool is_chunked_ = false;
  bool in_extension_ = false;  // of a chunk-size line
  bool has_digit_ = false;
  uint64_t n_missing_ = 0;
  uint64_t n_allowed_ = 0;  // bytes that may still come
  size_t line_bytes_ = 0;   // of a chunk-size line or a trailer
  size_t trailer_bytes_ = 0;
  std::optional<BodyError> error_{};
};

}  // namespace tessera::server
