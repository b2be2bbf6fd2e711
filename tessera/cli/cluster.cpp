#include "tessera/cli/cluster.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr int kMaxClusterCodePoints = 32;  // the longest emoji have 10, and a hostile text may have any number of marks
constexpr uint32_t kZeroWidthJoiner = 0x200D;
constexpr uint32_t kEmojiPresentation = 0xFE0F;

bool is_printable_ascii(char c) { return c >= 0x20 && c < 0x7F; }

bool is_bidi_control(uint32_t c) { return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069); }

bool is_escaped_code_point(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || is_bidi_control(c);
}

// The start of a text: its code point, or an invalid byte.
struct ClusterStep {
  uint32_t code_point;
  size_t n_bytes;
  bool is_valid;
};

ClusterStep cluster_step(std::string_view text) {
  if (text::next_utf8(text).state != text::Utf8State::valid) return {0, 1, false};
  const auto step = text::next_code_point(text);
  return {step.code_point, step.n_bytes, true};
}

// The step that ends at the end of the text, which is not empty.
ClusterStep last_cluster_step(std::string_view text) {
  const size_t n_most = std::min<size_t>(4, text.size());
  for (size_t n = 2; n <= n_most; ++n) {
    const ClusterStep step = cluster_step(text.substr(text.size() - n));
    if (step.is_valid && step.n_bytes == n) return step;
  }
  return cluster_step(text.substr(text.size() - 1));
}

bool is_escaped_step(const ClusterStep& step) { return !step.is_valid || is_escaped_code_point(step.code_point); }

void append_escape(const ClusterStep& step, std::string_view bytes, std::string& out) {
  const auto byte = static_cast<uint8_t>(bytes[0]);
  if (!step.is_valid) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
  } else if (byte < 0x80) {
    out += '^';
    out += static_cast<char>(byte ^ 0x40);
  } else {
    fmt::format_to(std::back_inserter(out), "<U+{:04X}>", step.code_point);
  }
}

int escape_columns(const ClusterStep& step) {
  if (!step.is_valid) return 4;
  return step.n_bytes == 1 ? 2 : 8;
}

int boundary_class(uint32_t c) { return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->boundclass; }

bool is_emoji_base(uint32_t c) {
  return boundary_class(c) == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC || (c >= '0' && c <= '9') || c == '#' ||
         c == '*';
}

// Terminals give a spacing mark its own column, and utf8proc gives it none.
int code_point_columns(uint32_t c) {
  const auto point = static_cast<utf8proc_int32_t>(c);
  if (utf8proc_category(point) == UTF8PROC_CATEGORY_MC) return 1;
  return utf8proc_charwidth(point);
}

// Adds up the width of a cluster, code point by code point.
class ClusterWidth {
 public:
  explicit ClusterWidth(uint32_t first) : first_(first), n_columns_(code_point_columns(first)) {}
  void add(uint32_t c) {
    const bool is_emoji = c == kEmojiPresentation && is_emoji_base(first_);
    n_columns_ = is_emoji ? 2 : std::min(2, n_columns_ + code_point_columns(c));
  }
  int n_columns() const { return n_columns_; }

 private:
  uint32_t first_;
  int n_columns_;
};

// True if clusters end between these code points whatever stands before them. Else the answer depends on more text.
bool always_break(uint32_t before, uint32_t after) {
  if (is_escaped_code_point(before) || is_escaped_code_point(after)) return true;
  if (before == kZeroWidthJoiner && boundary_class(after) == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC) return false;
  return utf8proc_grapheme_break(static_cast<utf8proc_int32_t>(before), static_cast<utf8proc_int32_t>(after));
}

// The last position in the text, but its end, at which a cluster certainly begins.
size_t last_certain_boundary(std::string_view text) {
  ClusterStep after = last_cluster_step(text);
  size_t begin = text.size() - after.n_bytes;
  while (begin > 0) {
    const ClusterStep before = last_cluster_step(text.substr(0, begin));
    if (!before.is_valid || !after.is_valid || always_break(before.code_point, after.code_point)) break;
    begin -= before.n_bytes;
    after = before;
  }
  return begin;
}

}  // namespace

Cluster first_cluster(std::string_view text) {
  if (text.empty()) return {};
  const bool next_is_ascii = text.size() == 1 || static_cast<uint8_t>(text[1]) < 0x80;
  if (is_printable_ascii(text[0]) && next_is_ascii) return {text.substr(0, 1), 1};
  const ClusterStep first = cluster_step(text);
  if (is_escaped_step(first)) return {text.substr(0, first.n_bytes), escape_columns(first)};
  size_t n_bytes = first.n_bytes;
  ClusterWidth width(first.code_point);
  utf8proc_int32_t state = 0;
  auto before = static_cast<utf8proc_int32_t>(first.code_point);
  for (int n = 1; n < kMaxClusterCodePoints && n_bytes < text.size(); ++n) {
    const ClusterStep next = cluster_step(text.substr(n_bytes));
    if (is_escaped_step(next)) break;
    const auto after = static_cast<utf8proc_int32_t>(next.code_point);
    if (utf8proc_grapheme_break_stateful(before, after, &state)) break;
    width.add(next.code_point);
    n_bytes += next.n_bytes;
    before = after;
  }
  return {text.substr(0, n_bytes), width.n_columns()};
}

Cluster last_cluster(std::string_view text) {
  if (text.empty()) return {};
  std::string_view rest = text.substr(last_certain_boundary(text));
  while (true) {
    const Cluster cluster = first_cluster(rest);
    if (cluster.bytes.size() == rest.size()) return cluster;
    rest.remove_prefix(cluster.bytes.size());
  }
}

int64_t n_columns(std::string_view text) {
  int64_t n = 0;
  while (!text.empty()) {
    const Cluster cluster = first_cluster(text);
    n += cluster.n_columns;
    text.remove_prefix(cluster.bytes.size());
  }
  return n;
}

std::string visible(std::string_view text, std::string_view keep) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const ClusterStep step = cluster_step(text);
    const std::string_view bytes = text.substr(0, step.n_bytes);
    const bool is_kept = step.n_bytes == 1 && step.is_valid && keep.find(bytes[0]) != std::string_view::npos;
    if (is_escaped_step(step) && !is_kept) {
      append_escape(step, bytes, out);
    } else {
      out += bytes;
    }
    text.remove_prefix(step.n_bytes);
  }
  return out;
}

bool is_escaped(std::string_view text) { return is_escaped_step(cluster_step(text)); }

}  // namespace tessera::cli
