#include "tessera/text/chat/arguments_reader.h"

namespace tessera::text {

JsonProgress ArgumentsReader::read(std::string_view text, std::string& out) {
  size_t n_begin = 0;
  if (at_ == At::begin) {
    n_begin = text.find_first_not_of(kJsonBlanks);
    if (n_begin == text.npos) return {text.size(), JsonState::more};
    if (!begin(text[n_begin])) return {n_begin, JsonState::bad};
    if (at_ == At::text) ++n_begin;
    text.remove_prefix(n_begin);
  }
  const JsonProgress progress = at_ == At::text ? read_text(text, out) : read_value(text, out);
  return {n_begin + progress.n_bytes, progress.state};
}

bool ArgumentsReader::begin(char c) {
  if (c != '{' && c != '"' && c != 'n') return false;
  at_ = c == '{' ? At::object : c == '"' ? At::text : At::null;
  return true;
}

JsonProgress ArgumentsReader::read_value(std::string_view text, std::string& out) {
  const JsonProgress progress = json_.read(text);
  if (at_ == At::object) out += text.substr(0, progress.n_bytes);
  if (at_ == At::null && progress.state == JsonState::done) out += "{}";
  return progress;
}

// Reads byte by byte, so that an error inside the string is found at the same byte however the text is split.
JsonProgress ArgumentsReader::read_text(std::string_view text, std::string& out) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    decoded.clear();
    const JsonState state = string_.read(text.substr(i, 1), &decoded).state;
    if (state == JsonState::bad || !read_inside(decoded, out)) return {i, JsonState::bad};
    if (state == JsonState::more) continue;
    if (!has_begun_inside_) out += "{}";
    return has_begun_inside_ && !json_.is_complete() ? JsonProgress{i, JsonState::bad}
                                                     : JsonProgress{i + 1, JsonState::done};
  }
  return {text.size(), JsonState::more};
}

bool ArgumentsReader::read_inside(std::string_view decoded, std::string& out) {
  if (!has_begun_inside_ || json_.is_complete()) {
    const size_t n = decoded.find_first_not_of(kJsonBlanks);
    if (n == decoded.npos) return true;
    if (has_begun_inside_ || decoded[n] != '{') return false;
    has_begun_inside_ = true;
  }
  const JsonProgress progress = json_.read(decoded);
  out += decoded.substr(0, progress.n_bytes);
  return progress.state != JsonState::bad;
}

}  // namespace tessera::text
