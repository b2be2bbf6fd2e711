#include "tessera/cli/mask_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tessera/base/counted.h"
#include "tessera/cli/console.h"
#include "tessera/cli/json_row.h"
#include "tessera/cli/line_input.h"
#include "tessera/cli/vocab_args.h"
#include "tessera/observe/bench_masks.h"

namespace tessera::cli {
namespace {

constexpr size_t kMaxCaseBytes = size_t{16} << 20;

/// Microseconds, sorted.
class Times {
 public:
  void add(double time) { times_.push_back(time); }
  void sort() { std::ranges::sort(times_); }
  double at(double share) const {
    return times_.empty() ? 0 : times_[static_cast<size_t>(share * static_cast<double>(times_.size() - 1))];
  }
  double mean() const {
    return std::accumulate(times_.begin(), times_.end(), 0.0) / static_cast<double>(std::max<size_t>(times_.size(), 1));
  }
  size_t size() const { return times_.size(); }

 private:
  std::vector<double> times_;
};

struct Totals {
  Times compile, first_mask, masks;
  size_t n_schemas = 0, n_tests = 0, n_forced = 0, n_passing = 0, n_wrong_accepts = 0, n_wrong_rejects = 0;
  std::map<std::string, size_t> refused;  // by keyword
};

Result<observe::MaskBenchCase> case_of(const RowJson& json) {
  observe::MaskBenchCase read;
  if (!json.contains("schema")) return fail(ErrorCode::format, "schema: missing");
  read.schema = json["schema"].dump();
  if (!json.contains("tests")) return read;
  if (!json["tests"].is_array()) return fail(ErrorCode::format, "tests: want a list");
  for (const RowJson& test : json["tests"]) {
    const bool is_whole = test.is_object() && test.contains("data") && test.contains("valid");
    if (!is_whole || !test["valid"].is_boolean()) return fail(ErrorCode::format, "tests: want data and valid of each");
    read.tests.push_back({test["data"].dump(), test["valid"].get<bool>()});
  }
  return read;
}

void add(const observe::MaskBenchRow& row, size_t n_tests, Totals& totals) {
  ++totals.n_schemas;
  if (!row.refusal.empty()) {
    ++totals.refused[row.keyword];
    return;
  }
  totals.n_tests += n_tests;
  totals.compile.add(row.compile);
  totals.first_mask.add(row.first_mask);
  for (const double time : row.masks) totals.masks.add(time);
  totals.n_forced += row.n_forced_tokens;
  totals.n_passing += row.n_wrong_accepts + row.n_wrong_rejects == 0 ? 1 : 0;
  totals.n_wrong_accepts += row.n_wrong_accepts;
  totals.n_wrong_rejects += row.n_wrong_rejects;
}

RowJson json_of(const Times& times) {
  return {{"n", times.size()},       {"p50", times.at(0.5)}, {"p90", times.at(0.9)}, {"p99", times.at(0.99)},
          {"p999", times.at(0.999)}, {"max", times.at(1)},   {"mean", times.mean()}};
}

std::string line_of(std::string_view name, const Times& times) {
  return fmt::format("{:<12} {:>9} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f}\n", name, times.size(),
                     times.at(0.5), times.at(0.9), times.at(0.99), times.at(0.999), times.at(1), times.mean());
}

Result<> print_totals(const Totals& totals, bool is_json) {
  size_t n_refused = 0;
  for (const auto& [keyword, n] : totals.refused) n_refused += n;
  if (is_json)
    return print(row_line({{"n_schemas", totals.n_schemas},
                           {"n_passing", totals.n_passing},
                           {"n_refused", n_refused},
                           {"refused", totals.refused},
                           {"n_tests", totals.n_tests},
                           {"n_wrong_accepts", totals.n_wrong_accepts},
                           {"n_wrong_rejects", totals.n_wrong_rejects},
                           {"n_forced_tokens", totals.n_forced},
                           {"compile_us", json_of(totals.compile)},
                           {"first_mask_us", json_of(totals.first_mask)},
                           {"mask_us", json_of(totals.masks)}}));
  std::string text = fmt::format("{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "microseconds", "n", "p50",
                                 "p90", "p99", "p99.9", "max", "mean");
  text += line_of("compile", totals.compile) + line_of("first mask", totals.first_mask) + line_of("mask", totals.masks);
  text += fmt::format("{}: {} pass, {} refused; {}: {} wrongly accepted, {} wrongly rejected\n",
                      counted(totals.n_schemas, "schema"), totals.n_passing, n_refused, counted(totals.n_tests, "test"),
                      totals.n_wrong_accepts, totals.n_wrong_rejects);
  text += fmt::format(
      "{:.1f} % of the tokens had no alternative byte\n",
      100 * static_cast<double>(totals.n_forced) / static_cast<double>(std::max<size_t>(totals.masks.size(), 1)));
  for (const auto& [keyword, n] : totals.refused)
    text += fmt::format("refused for {}: {}\n", keyword.empty() ? "another reason" : keyword, n);
  return print(text);
}

}  // namespace

Result<> MaskBenchArgs::run(Context& process) const {
  const VocabArgs args{.path = model};
  TESSERA_ASSIGN(const auto tokenizer, args.open(process));
  const auto vocab = text::grammar::MaskVocab::create(*tokenizer, tokenizer->vocab().n_tokens());
  TESSERA_ASSIGN(LineInput input, LineInput::open(path, kMaxCaseBytes, process.interrupt));
  Totals totals;
  for (size_t number = 1;; ++number) {
    TESSERA_ASSIGN(const std::optional<std::string> line, input.next(process.interrupt));
    if (!line) break;
    const auto in_line = [&](auto result) { return forward_error(result, fmt::format("{}: line {}", path, number)); };
    const Result<RowJson> json = parse_row(*line);
    if (!json) return in_line(json);
    const auto test = case_of(*json);
    if (!test) return in_line(test);
    const auto row = observe::bench_masks(*test, output, *tokenizer, vocab);
    if (!row) return in_line(row);
    if (!row->refusal.empty()) log(fmt::format("line {}: {}", number, row->refusal));
    if (row->n_wrong_accepts + row->n_wrong_rejects > 0)
      log(fmt::format("line {}: test {}: wrong", number, row->first_wrong));
    add(*row, test->tests.size(), totals);
  }
  totals.compile.sort();
  totals.first_mask.sort();
  totals.masks.sort();
  return print_totals(totals, is_json);
}

}  // namespace tessera::cli
