#include "tessera/cli/bench_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "tessera/base/counted.h"
#include "tessera/cli/console.h"
#include "tessera/cli/explain_report.h"
#include "tessera/cli/offload_args.h"
#include "tessera/cli/summary.h"

namespace tessera::cli {

namespace {

using Json = nlohmann::ordered_json;

// The peak of the machine that limits an operation, and the time at that peak.
struct Bound {
  std::string_view name;
  double seconds = 0;
};

Bound bound(const observe::BenchOpRow& row, const DevicePeaks& peaks) {
  const double compute = row.macs * 1e-9 / peaks.gmacs(row.arithmetic);
  const double read = row.bytes * 1e-9 / peaks.read_gbps;
  if (read >= compute) return {"read", read};
  return {to_string(row.arithmetic), compute};
}

std::vector<double> tokens_per_second(const BenchRow& row) {
  std::vector<double> rates;
  for (const double seconds : row.seconds) rates.push_back(static_cast<double>(row.n_prompt + row.n_gen) / seconds);
  return rates;
}

// Returns "pp512", "tg128", "pp512+tg128" or "tg128 @ d4096".
std::string test_name(const BenchRow& row) {
  std::string name;
  if (row.n_prompt > 0) name = fmt::format("pp{}", row.n_prompt);
  if (row.n_gen > 0) name += fmt::format("{}tg{}", name.empty() ? "" : "+", row.n_gen);
  if (row.n_depth > 0) name += fmt::format(" @ d{}", row.n_depth);
  return name;
}

std::string kv_name(const BenchRow& row) {
  return row.type_k == row.type_v ? row.type_k : row.type_k + "/" + row.type_v;
}

Json to_json(const BenchRow& row, const BenchMachine& machine) {
  const std::vector<double> rates = tokens_per_second(row);
  const Summary rate = summarize(rates), time = summarize(row.seconds);
  const DevicePeaks& peaks = machine.peaks.at(row.n_threads);
  std::vector<int64_t> samples_ns;
  for (const double seconds : row.seconds) samples_ns.push_back(std::llround(seconds * 1e9));
  Json json{{"cpu_info", machine.device->description()},
            {"isa", machine.isa},
            {"model_filename", row.model_filename},
            {"model_type", row.model_type},
            {"model_format", row.model_format},
            {"model_size", row.model_size},
            {"model_n_params", row.model_n_params},
            {"n_batch", row.n_batch},
            {"n_ubatch", row.n_ubatch},
            {"n_threads", row.n_threads},
            {"type_k", row.type_k},
            {"type_v", row.type_v},
            {"n_prompt", row.n_prompt},
            {"n_gen", row.n_gen},
            {"n_depth", row.n_depth},
            {"avg_ns", std::llround(time.mean * 1e9)},
            {"stddev_ns", std::llround(time.stddev * 1e9)},
            {"avg_ts", rate.mean},
            {"stddev_ts", rate.stddev},
            {"median_ts", rate.median},
            {"gmacs", row.macs / time.median * 1e-9},
            {"gbps", row.bytes / time.median * 1e-9},
            {"peak_share", row.bound_seconds / time.median},
            {"expert_hit_share", row.experts ? Json(row.experts->hit_share()) : Json()},
            {"expert_forecast_share",
             row.experts && row.experts->n_forecast > 0
                 ? Json(static_cast<double>(row.experts->n_right) / static_cast<double>(row.experts->n_forecast))
                 : Json()},
            {"expert_wait_us", row.experts ? Json(row.experts->n_wait_us / row.seconds.size()) : Json()},
            {"expert_read_bytes", row.experts ? Json(row.experts->n_read_bytes / row.seconds.size()) : Json()},
            {"peak_int8_gmacs", peaks.int8_gmacs},
            {"peak_f32_gmacs", peaks.f32_gmacs},
            {"peak_int16_gmacs", peaks.int16_gmacs},
            {"peak_read_gbps", peaks.read_gbps},
            {"samples_ns", samples_ns},
            {"samples_ts", rates}};
  if (!row.phases.empty()) json["explain"] = cli::to_json(row.phases);
  return json;
}

Json to_json(const observe::BenchOpRow& row, const BenchMachine& machine) {
  const Summary time = summarize(row.seconds);
  const DevicePeaks& peaks = machine.peaks.at(row.n_threads);
  std::vector<double> samples_us;
  for (const double seconds : row.seconds) samples_us.push_back(seconds * 1e6);
  return {{"cpu_info", machine.device->description()},
          {"isa", machine.isa},
          {"op", row.op},
          {"type", row.type},
          {"shape", row.shape},
          {"n_tokens", row.n_tokens},
          {"n_threads", row.n_threads},
          {"median_us", time.median * 1e6},
          {"stddev_us", time.stddev * 1e6},
          {"gmacs", row.macs / time.median * 1e-9},
          {"gbps", row.bytes / time.median * 1e-9},
          {"streamed_mb", row.streamed_bytes * 1e-6},
          {"bound", bound(row, peaks).name},
          {"peak_share", bound(row, peaks).seconds / time.median},
          {"peak_int8_gmacs", peaks.int8_gmacs},
          {"peak_f32_gmacs", peaks.f32_gmacs},
          {"peak_int16_gmacs", peaks.int16_gmacs},
          {"peak_read_gbps", peaks.read_gbps},
          {"samples_us", samples_us}};
}

// File names may be invalid UTF-8, so the JSON replaces invalid bytes.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string csv_line(const Json& json, bool header) {
  std::string line;
  for (const auto& [key, value] : json.items()) {
    if (value.is_array()) continue;
    std::string cell = header ? key : value.is_string() ? value.get<std::string>() : dump(value);
    for (size_t quote = cell.find('"'); quote != std::string::npos; quote = cell.find('"', quote + 2))
      cell.insert(quote, 1, '"');
    line += fmt::format("{}\"{}\"", line.empty() ? "" : ",", cell);
  }
  return line + "\n";
}

std::string md_line(const BenchRow& row) {
  const Summary rate = summarize(tokens_per_second(row));
  const double seconds = summarize(row.seconds).median;
  const std::string speed = fmt::format("{:.2f} ± {:.2f}", rate.mean, rate.stddev);
  return fmt::format(
      "| {:<22} | {:>10} | {:>9} | {:>7} | {:>5} | {:>5} | {:>18} | {:>19} | {:>9.2f} | {:>8.2f} | {:>7.2f} | "
      "{:>6.1f}% |\n",
      row.model_type, human_bytes(static_cast<double>(row.model_size)),
      fmt::format("{:.2f} M", static_cast<double>(row.model_n_params) * 1e-6), row.n_threads, row.n_ubatch,
      kv_name(row), test_name(row), speed, rate.median, row.macs / seconds * 1e-9, row.bytes / seconds * 1e-9,
      100 * row.bound_seconds / seconds);
}

std::string md_line(const observe::BenchOpRow& row, const DevicePeaks& peaks) {
  const double seconds = summarize(row.seconds).median;
  const std::string streamed = row.streamed_bytes > 0 ? fmt::format("{:.1f}", row.streamed_bytes * 1e-6) : "cached";
  return fmt::format(
      "| {:<9} | {:<7} | {:<14} | {:>6} | {:>7} | {:>10.1f} | {:>9.2f} | {:>8.2f} | {:>11} | {:>5} | {:>6.1f}% |\n",
      row.op, row.type, row.shape, row.n_tokens, row.n_threads, seconds * 1e6, row.macs / seconds * 1e-9,
      row.bytes / seconds * 1e-9, streamed, bound(row, peaks).name, 100 * bound(row, peaks).seconds / seconds);
}

std::string md_peaks(const BenchMachine& machine) {
  std::string text = fmt::format("{}, {}\n", machine.device->description(), machine.isa);
  for (const auto& [n_threads, peaks] : machine.peaks) {
    const std::string int16 = peaks.int16_gmacs > 0 ? fmt::format("int16 {:.1f} GMAC/s, ", peaks.int16_gmacs) : "";
    text += fmt::format("peaks with {}: int8 {:.1f} GMAC/s, f32 {:.1f} GMAC/s, {}read {:.1f} GB/s\n",
                        counted(n_threads, "thread"), peaks.int8_gmacs, peaks.f32_gmacs, int16, peaks.read_gbps);
  }
  return text + "\n";
}

// A column of the table. Names are aligned left, numbers right.
struct Column {
  std::string_view title;
  int width;
  bool is_number = true;
};

constexpr Column kModelColumns[] = {
    {"model", 22, false}, {"size", 10}, {"params", 9}, {"threads", 7}, {"ub", 5},   {"kv", 5},
    {"test", 18},         {"t/s", 18},  {"median", 9}, {"GMAC/s", 8},  {"GB/s", 7}, {"of peak", 7}};
constexpr Column kOpColumns[] = {{"op", 9, false},    {"type", 7, false}, {"shape", 14, false}, {"tokens", 6},
                                 {"threads", 7},      {"us", 10},         {"GMAC/s", 9},        {"GB/s", 8},
                                 {"streamed MB", 11}, {"bound", 5},       {"of peak", 7}};

std::string md_header(std::span<const Column> columns) {
  std::string titles, rules;
  for (const Column& column : columns) {
    titles += column.is_number ? fmt::format("| {:>{}} ", column.title, column.width)
                               : fmt::format("| {:<{}} ", column.title, column.width);
    rules += fmt::format("|{:-<{}}{}", "", column.width + 1, column.is_number ? ":" : "-");
  }
  return titles + "|\n" + rules + "|\n";
}

}  // namespace

Result<> BenchReport::begin() const {
  const std::span<const Column> columns =
      table_ == BenchTable::models ? std::span<const Column>(kModelColumns) : kOpColumns;
  if (format_ == BenchFormat::md) return print(md_peaks(machine_) + md_header(columns));
  return format_ == BenchFormat::json ? print("[\n") : Result<>();
}

Result<> BenchReport::add(const BenchRow& row) {
  if (format_ != BenchFormat::md) return print_json(to_json(row, machine_));
  TESSERA_TRY(print(md_line(row)));
  for (const observe::ExplainedPhase& phase : row.phases)
    explanations_ += fmt::format("\n{}, {}: {}", row.model_type, test_name(row), describe(phase));
  if (row.experts) log(test_name(row) + describe(row.experts));
  return {};
}

Result<> BenchReport::add(const observe::BenchOpRow& row) {
  return format_ == BenchFormat::md ? print(md_line(row, machine_.peaks.at(row.n_threads)))
                                    : print_json(to_json(row, machine_));
}

Result<> BenchReport::print_json(const Json& row) {
  const bool is_first = n_rows_++ == 0;
  if (format_ == BenchFormat::csv) return print((is_first ? csv_line(row, true) : "") + csv_line(row, false));
  if (format_ == BenchFormat::jsonl) return print(dump(row) + "\n");
  return print((is_first ? "  " : ",\n  ") + dump(row));
}

Result<> BenchReport::end() const {
  if (format_ == BenchFormat::json) return print("\n]\n");
  return explanations_.empty() ? Result<>() : print(explanations_);
}

}  // namespace tessera::cli
