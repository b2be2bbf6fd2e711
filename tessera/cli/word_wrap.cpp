#include "tessera/cli/word_wrap.h"

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"

namespace tessera::cli {

namespace {

// A row must not begin with these, nor end with those below, in text of wide characters.
constexpr std::string_view kWideClosers[] = {"、", "。", "，", "．", "！", "？", "：", "；", "）", "」",
                                             "』", "】", "》", "〉", "〕", "］", "｝", "ー", "…"};
constexpr std::string_view kWideOpeners[] = {"（", "「", "『", "【", "《", "〈", "〔", "［", "｛"};

// Characters without width do not fill a row. So many bytes for each column do, more than any script needs.
constexpr int64_t kMostBytesPerColumn = 32;

}  // namespace

WordWrap::WordWrap(int64_t n_columns, WrapMode mode, ScreenRow first, ScreenRow rest)
    : n_columns_(n_columns), mode_(mode), rest_(std::move(rest)), prefix_(std::move(first)) {}

void WordWrap::add(std::string_view text, const TextStyle& style) {
  if (text.empty()) return;
  is_line_start_ = false;
  if (style != style_) flush_cluster();
  style_ = style;
  if (cluster_.empty()) return add_clusters(text, false);
  const std::string joined = std::exchange(cluster_, std::string()).append(text);
  add_clusters(joined, false);
}

// Places the clusters of the text. The last one waits for the text behind it unless this is the end.
void WordWrap::add_clusters(std::string_view text, bool is_end) {
  while (!text.empty()) {
    const Cluster cluster = first_cluster(text);
    if (!is_end && cluster.bytes.size() == text.size()) {
      cluster_ = text;
      return;
    }
    add_cluster(cluster.bytes, cluster.n_columns);
    text.remove_prefix(cluster.bytes.size());
  }
}

void WordWrap::flush_cluster() {
  const std::string text = std::exchange(cluster_, std::string());
  add_clusters(text, true);
}

void WordWrap::add_cluster(std::string_view bytes, int n_cluster_columns) {
  if (!is_escaped(bytes)) return place(bytes, n_cluster_columns);
  const std::string shown = visible(bytes);
  for (size_t i = 0; i < shown.size(); ++i) place(std::string_view(shown).substr(i, 1), 1);
}

void WordWrap::place(std::string_view bytes, int n_cluster_columns) {
  n_row_bytes_ += bytes.size();
  if (mode_ == WrapMode::words) return place_in_word(bytes, n_cluster_columns);
  if (is_full(n_cluster_columns)) break_row();
  row_.append(bytes, n_cluster_columns, style_);
}

// Rows of wide characters may end between any two of them but at brackets and points.
bool WordWrap::is_break_before(std::string_view bytes, int n_cluster_columns) const {
  if (n_last_columns_ == 0 || (n_cluster_columns < 2 && n_last_columns_ < 2)) return false;
  return std::ranges::find(kWideClosers, bytes) == std::end(kWideClosers) &&
         std::ranges::find(kWideOpeners, std::string_view(last_cluster_)) == std::end(kWideOpeners);
}

bool WordWrap::is_full(int n_cluster_columns) const {
  return n_row_columns() + n_spaces_ + word_.n_columns + n_cluster_columns > n_columns_ ||
         n_row_bytes_ > to_size(kMostBytesPerColumn * n_columns_);
}

void WordWrap::place_in_word(std::string_view bytes, int n_cluster_columns) {
  if (bytes == " ") {
    flush_word();
    if (n_spaces_ == 0) space_style_ = style_;
    n_spaces_ = std::min(n_spaces_ + 1, n_columns_);
    return;
  }
  if (is_break_before(bytes, n_cluster_columns)) flush_word();
  if (is_full(n_cluster_columns) && !row_.runs.empty()) {
    n_spaces_ = 0;
    break_row();
  }
  if (is_full(n_cluster_columns) && word_.runs.empty()) n_spaces_ = 0;
  if (is_full(n_cluster_columns) && !word_.runs.empty()) {
    flush_word();
    break_row();
  }
  word_.append(bytes, n_cluster_columns, style_);
  last_cluster_ = bytes;
  n_last_columns_ = std::max(n_cluster_columns, 1);
}

void WordWrap::flush_word() {
  n_last_columns_ = 0;
  if (word_.runs.empty()) return;
  row_.append(std::string(to_size(n_spaces_), ' '), n_spaces_, space_style_);
  n_spaces_ = 0;
  row_.append(word_);
  word_ = {};
}

void WordWrap::break_row() {
  prefix_.append(row_);
  rows_.push_back(std::move(prefix_));
  row_ = {};
  prefix_ = rest_;
  is_first_row_ = false;
  n_row_bytes_ = 0;
}

void WordWrap::end_line() {
  flush_cluster();
  flush_word();
  n_spaces_ = 0;
  break_row();
  is_line_start_ = true;
}

std::vector<ScreenRow> WordWrap::take_rows() { return std::exchange(rows_, {}); }

void WordWrap::resize(int64_t n_columns, const ScreenRow& first, const ScreenRow& rest) {
  flush_cluster();
  flush_word();
  const ScreenRow old = std::exchange(row_, ScreenRow());
  const int64_t n_spaces = std::exchange(n_spaces_, 0);
  const TextStyle style = style_;
  n_columns_ = n_columns;
  prefix_ = is_first_row_ ? first : rest;
  rest_ = rest;
  for (const StyledRun& run : old.runs) add(run.text, run.style);
  flush_cluster();
  flush_word();
  n_spaces_ = n_spaces;
  style_ = style;
}

}  // namespace tessera::cli
