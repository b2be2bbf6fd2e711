// The buffer has room for two pieces. It is refilled only if its remaining part contains neither a separator nor a
// whole piece, so that short documents do not move its contents each time.
#include "tessera/train/text_reader.h"

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::train {
namespace {

bool is_of_a_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || static_cast<uint8_t>(c) >= 0x80;
}

constexpr std::string_view kLineEnds = "\r\n";

/// Returns the length at which to cut a piece that is too long, from 1 to its whole size.
size_t cut_of(std::string_view text) {
  for (size_t at = text.size() - 1; at-- > 1;)
    if (text[at] == ' ' && is_of_a_word(text[at - 1]) && is_of_a_word(text[at + 1])) return at;
  size_t last = text.size() - 1;
  while (last > 0 && text.size() - last < 4 && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
  const bool is_cut = text::next_utf8(text.substr(last)).state == text::Utf8State::incomplete;
  return is_cut && last > 0 ? last : text.size();
}

}  // namespace

Result<std::optional<TextPiece>> TextReader::next() {
  while (true) {
    if (!file_) {
      if (n_opened_ == paths_.size()) return std::nullopt;
      TESSERA_ASSIGN(file_, File::open(paths_[n_opened_++]));
      n_read_ = 0;
      buffer_.clear();
      begin_ = 0;
    }
    const std::string_view rest = std::string_view(buffer_).substr(begin_);
    const bool is_all = n_read_ == file_->size();
    const size_t separator = separator_.empty() ? std::string_view::npos : rest.find(separator_);
    if (separator == std::string_view::npos && !is_all && rest.size() < max_piece_bytes_ + separator_.size()) {
      TESSERA_TRY(refill());
      continue;
    }
    const bool is_separated = separator <= max_piece_bytes_;
    const bool ends = is_separated || (is_all && rest.size() <= max_piece_bytes_);
    const size_t n_bytes = ends ? std::min(separator, rest.size()) : cut_of(rest.substr(0, max_piece_bytes_));
    begin_ += n_bytes + (is_separated ? separator_.size() : 0);
    if (is_all && begin_ == buffer_.size()) file_.reset();

    std::string_view text = rest.substr(0, n_bytes);
    const bool begins = !in_document_;
    if (begins) text.remove_prefix(std::min(text.find_first_not_of(kLineEnds), text.size()));
    if (ends) text = text.substr(0, text.find_last_not_of(kLineEnds) + 1);
    if (begins && text.empty()) continue;
    in_document_ = !ends;
    return TextPiece{text, begins, ends};
  }
}

Result<> TextReader::refill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t n_old = buffer_.size();
  const uint64_t n_room = 2 * (max_piece_bytes_ + separator_.size()) - n_old;
  const auto n_new = to_size(std::min<uint64_t>(n_room, file_->size() - n_read_));
  buffer_.resize(n_old + n_new);
  TESSERA_TRY(file_->read_at(n_read_, std::as_writable_bytes(std::span(buffer_).subspan(n_old))));
  n_read_ += n_new;
  return {};
}

}  // namespace tessera::train
