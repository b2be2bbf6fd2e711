// tessera compare-weights: two models or checkpoints, tensor by tensor, with the error of each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/cpu_info.h"
#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/progress.h"
#include "tessera/convert/compare_weights.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/gguf/printable.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

using convert::WeightDifference;

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// The last column: how a tensor differs, besides its error.
std::string state_of(const WeightDifference& row) {
  if (row.second_type.empty()) return "only in the first";
  if (row.first_type.empty()) return "only in the second";
  if (!row.is_compared) return fmt::format("{} in the second", shape_text(row.second_shape));
  return row.is_equal() ? "equal" : fmt::format("{} of {} values differ", row.n_different, row.n_values);
}

struct Counts {
  size_t n_equal = 0, n_different = 0, n_unpaired = 0;
  double largest_nmse = 0;
};
Counts count(std::span<const WeightDifference> rows) {
  Counts counts;
  for (const WeightDifference& row : rows) {
    if (!row.is_compared)
      ++counts.n_unpaired;
    else
      ++(row.is_equal() ? counts.n_equal : counts.n_different);
    counts.largest_nmse = std::max(counts.largest_nmse, row.nmse);
  }
  return counts;
}

std::string table_of(std::span<const WeightDifference> rows, bool shows_equal) {
  std::vector<std::vector<std::string>> cells = {{"tensor", "shape", "first", "second", "nmse", "largest", ""}};
  for (const WeightDifference& row : rows) {
    if (row.is_equal() && !shows_equal) continue;
    const auto number = [&](double value) { return row.is_compared ? fmt::format("{:.2e}", value) : std::string(); };
    cells.push_back({printable(row.name), shape_text(row.first_type.empty() ? row.second_shape : row.first_shape),
                     row.first_type, row.second_type, number(row.nmse), number(row.largest), state_of(row)});
  }
  const Counts counts = count(rows);
  return (cells.size() > 1 ? format_table(cells, "llllrrl") : std::string()) +
         fmt::format("{} tensors: {} equal, {} different, {} without a counterpart of the same shape\n", rows.size(),
                     counts.n_equal, counts.n_different, counts.n_unpaired);
}

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

Result<> print_json(std::span<const WeightDifference> rows) {
  Output out;
  const Counts counts = count(rows);
  TESSERA_TRY(out.append(fmt::format("{{\n\"n_equal\": {},\n\"n_different\": {},\n\"n_unpaired\": {},\n\"tensors\": [",
                                     counts.n_equal, counts.n_different, counts.n_unpaired)));
  std::string_view separator = "\n";
  for (const WeightDifference& row : rows) {
    TESSERA_TRY(out.append(fmt::format(
        "{}  {{\"name\": {}, \"first_type\": {}, \"second_type\": {}, \"first_shape\": [{}], \"second_shape\": [{}], "
        "\"compared\": {}, \"n_values\": {}, \"n_different\": {}, \"nmse\": {}, \"largest\": {}}}",
        separator, text::json_quoted(row.name), text::json_quoted(row.first_type), text::json_quoted(row.second_type),
        fmt::join(row.first_shape, ", "), fmt::join(row.second_shape, ", "), row.is_compared, row.n_values,
        row.n_different, json_number(row.nmse), json_number(row.largest))));
    separator = ",\n";
  }
  TESSERA_TRY(out.append("\n]\n}\n"));
  return out.finish();
}

class CompareWeightsCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--all", "", "show equal tensors too", set_switch(shows_equal_));
    table.common("--json", "", "print JSON", set_switch(json_));
    table.common("--max-nmse", "X", "fail if a tensor has a larger error, or no counterpart",
                 set_real(max_nmse_, 0.0f, 1e30f));
    table.common("--converted", "", "compare two checkpoints as the models that they become", set_switch(converts_));
    add_threads_flag(table, n_threads_);
    table.positional = "A B";
    table.add_positional = [this](std::string_view text) -> Result<> {
      if (paths_.size() == 2) return fail(ErrorCode::invalid_argument, "unexpected argument '{}': two at a time", text);
      paths_.emplace_back(text);
      return {};
    };
    return table;
  }

  Result<> check() override {
    if (paths_.size() == 2) return {};
    return fail(ErrorCode::invalid_argument, "want two models or checkpoints");
  }

  Result<> run(Context& process) override {
    const bool are_checkpoints = std::ranges::all_of(paths_, convert::is_checkpoint);
    const auto names = are_checkpoints && !converts_ ? convert::WeightNames::stored : convert::WeightNames::converted;
    TESSERA_ASSIGN(const auto first, convert::open_weights(paths_[0], names));
    TESSERA_ASSIGN(const auto second, convert::open_weights(paths_[1], names));
    TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads_}));
    std::vector<WeightDifference> rows;
    {
      ProgressBar bar("comparing", process.quiet);
      const auto progress = [&](float share) {
        bar.update(share);
        return true;
      };
      TESSERA_ASSIGN(rows, convert::compare_weights(*first, *second, {*threads, &process.interrupt, progress}));
    }
    TESSERA_TRY(json_ ? print_json(rows) : print(table_of(rows, shows_equal_)));
    return judge(rows);
  }

 private:
  Result<> judge(std::span<const WeightDifference> rows) const {
    if (max_nmse_ < 0) return {};
    const Counts counts = count(rows);
    if (counts.n_unpaired > 0)
      return fail(ErrorCode::mismatch, "tensors without a counterpart of the same shape: {}", counts.n_unpaired);
    if (counts.largest_nmse <= static_cast<double>(max_nmse_)) return {};
    return fail(ErrorCode::mismatch, "normalised mean squared error {:.3g}, limit {:.3g}", counts.largest_nmse,
                max_nmse_);
  }

  std::vector<std::string> paths_;
  bool shows_equal_ = false, json_ = false, converts_ = false;
  float max_nmse_ = -1;  // below 0: none
  int32_t n_threads_ = default_thread_count();
};

}  // namespace

std::unique_ptr<Command> create_compare_weights_command() { return std::make_unique<CompareWeightsCommand>(); }

}  // namespace tessera::cli
