#include "tessera/cli/logits_report.h"

#include <fmt/format.h>

#include <cmath>

namespace tessera::cli {

namespace {

// JSON cannot represent NaN or infinity.
std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

}  // namespace

std::string position_table(const eval::ReferenceLogits& reference) {
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

std::string position_json(const eval::ReferenceLogits& reference) {
  std::string text = "[";
  for (const auto& row : reference.rows())
    fmt::format_to(std::back_inserter(text), R"({}{{"nmse": {}, "max_difference": {}, "same_top": {}}})",
                   text.size() > 1 ? ", " : "", json_number(row.nmse), json_number(row.max_difference), row.same_top);
  return text + "]";
}

}  // namespace tessera::cli
