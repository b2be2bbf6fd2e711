#include "tessera/text/chat/arguments_reader.h"

namespace tessera::text {

JsonProgress ArgumentsReader::read(std::string_view text, std::string& out) {
  if (at_ == At::begin) {
    const size_t n = text.find_first_not_of(kJsonBlanks);
    if (n == text.npos) return {text.size(), JsonState::more};
    const char c = text[n];
    if (c != '{' && c != '"' && c != 'n') return {n, JsonState::bad};
    at_ = c == '{' ? At::object : c == '"' ? At::text : At::null;
    const size_t n_read = n + (c == '"' ? 1 : 0);
    const JsonProgress rest = read(text.substr(n_read), out);
    return {n_read + rest.n_bytes, rest.state};
  }
  if (at_ == At::text) return read_text(text, out);
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
