#include "tessera/cli/reference_logits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::cli {

namespace {

// JSON has no number for what is none.
std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

}  // namespace

Result<ReferenceFile> ReferenceFile::open(const std::string& path) {
  TESSERA_ASSIGN(const File file, File::open(path));
  TESSERA_ASSIGN(auto map, MappedFile::map(file));
  TESSERA_ASSIGN(auto logits, convert::ReferenceLogits::parse(map->bytes(), path));
  return ReferenceFile(path, std::move(map), std::move(logits));
}

Result<> ReferenceFile::compare_next(std::span<const float> logits) {
  TESSERA_ASSIGN(const auto row, logits_.compare(rows_.size(), logits));
  rows_.push_back(row);
  return {};
}

std::string position_table(const ReferenceFile& reference) {
  std::string text = "position   token        nmse  largest difference  same top token\n";
  size_t worst = 0, n_same = 0;
  const auto rows = reference.rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{:>8} {:>7} {:>11.3g} {:>19.3g}  {}\n", i, reference.ids()[i],
                   rows[i].nmse, rows[i].max_difference, rows[i].same_top ? "yes" : "no");
    if (!(rows[i].nmse <= rows[worst].nmse)) worst = i;
    n_same += rows[i].same_top ? 1 : 0;
  }
  fmt::format_to(std::back_inserter(text), "all {}: nmse {:.3g}, worst at {}; {} with the same top token\n",
                 rows.size(), reference.nmse(), worst, n_same);
  return text;
}

std::string position_json(const ReferenceFile& reference) {
  std::string text = "[";
  for (const auto& row : reference.rows())
    fmt::format_to(std::back_inserter(text), R"({}{{"nmse": {}, "max_difference": {}, "same_top": {}}})",
                   text.size() > 1 ? ", " : "", json_number(row.nmse), json_number(row.max_difference), row.same_top);
  return text + "]";
}

void fit_to_logits(SessionOptions& options, size_t n) {
  if (options.n_ctx == 0) options.n_ctx = static_cast<int64_t>(n);
  options.n_outputs = std::min(options.n_ubatch, static_cast<int64_t>(n));
}

Result<> for_each_logits(Session& session, std::span<const int32_t> ids, const CancelToken& interrupt,
                         FunctionRef<Result<>(std::span<const float>)> visit) {
  const auto n = static_cast<int64_t>(ids.size()), step = session.options().n_outputs;
  if (n > session.n_ctx())
    return fail(ErrorCode::limit, "{} tokens, the context holds {} (-c sets it)", n, session.n_ctx());
  for (int64_t begin = 0; begin < n; begin += step) {
    Batch batch;
    for (int64_t i = begin; i < std::min(n, begin + step); ++i)
      batch.add({.token = ids[static_cast<size_t>(i)], .position = static_cast<int32_t>(i), .wants_logits = true});
    TESSERA_TRY(session.decode(batch, &interrupt));
    for (int64_t i = 0; i < batch.size(); ++i) TESSERA_TRY(visit(session.logits(i)));
  }
  return {};
}

}  // namespace tessera::cli
