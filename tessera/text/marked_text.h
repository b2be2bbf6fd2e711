// Text with marks that say where its bytes come from. Bytes of a message, a tool or a document are "given"; bytes of
// the template itself are "trusted". The tokenizer reads control tokens in trusted bytes only, so the text of a user
// cannot forge the structure of a prompt. Every operation of the template language keeps the marks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

enum class Origin : uint8_t { trusted, given };

/// A text and its given bytes: ranges in ascending order, without gaps of zero bytes between them.
struct MarkedText {
  std::string text;
  std::vector<ByteRange> given;
};

/// A borrowed text with marks.
struct MarkedView {
  std::string_view bytes;
  std::span<const ByteRange> given{};

  /// The ranges that share bytes with [begin, end).
  std::span<const ByteRange> given_within(size_t begin, size_t end) const;
};

/// The part of a range within [begin, end), counted from begin. They share bytes.
constexpr ByteRange clip(const ByteRange& range, size_t begin, size_t end) {
  return {range.begin < begin ? 0 : range.begin - begin, (range.end < end ? range.end : end) - begin};
}

/// Appends pieces of text and keeps their marks. A text above the limit is not stored: the builder drops all bytes from
/// then on, and overflowed() is true.
class MarkedTextBuilder {
 public:
  static constexpr size_t kMaxBytes = size_t{8} << 20;

  void append(std::string_view bytes, Origin origin = Origin::trusted);
  void append(const MarkedView& text) { append_slice(text, 0, text.bytes.size()); }
  /// Appends the bytes [begin, end) of a text.
  void append_slice(const MarkedView& text, size_t begin, size_t end);
  void append_repeated(size_t count, char byte);

  size_t size() const { return text_.text.size(); }
  bool overflowed() const { return overflowed_; }
  MarkedView view() const { return {text_.text, text_.given}; }
  MarkedText take() && { return std::move(text_); }

 private:
  bool fits(size_t n_bytes);
  void mark(size_t begin, size_t end);

  MarkedText text_;
  bool overflowed_ = false;
};

/// Calls f(bytes, origin) for each longest piece of one origin, in order.
template <class F>
void for_each_piece(const MarkedView& text, F f) {
  size_t done = 0;
  for (const ByteRange& range : text.given) {
    if (range.begin > done) f(text.bytes.substr(done, range.begin - done), Origin::trusted);
    f(text.bytes.substr(range.begin, range.end - range.begin), Origin::given);
    done = range.end;
  }
  if (done < text.bytes.size()) f(text.bytes.substr(done), Origin::trusted);
}

}  // namespace tessera::text
