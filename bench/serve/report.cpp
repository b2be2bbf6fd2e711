// Tables and JSON of the results (report.h).
#include "bench/serve/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/serve/stats.h"

namespace tessera::load {
namespace {

/// Formats a number with about four significant digits, without exponents.
std::string number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::fabs(value);
  if (value == std::round(value) || size >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 5);
}

std::string cell_text(const Json& cell) {
  return cell.is_number() ? number(cell.get<double>()) : cell.is_string() ? cell.get<std::string>() : "-";
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double median_metric(std::span<const Report> reports, const std::string& name) {
  std::vector<double> values;
  for (const Report& report : reports) {
    const double value = report.metric(name);
    if (std::isfinite(value)) values.push_back(value);
  }
  return median(std::move(values));
}

/// Names of the metrics of all reports, in the order of their first occurrence.
std::vector<std::string> metric_names(std::span<const Report> reports) {
  std::vector<std::string> names;
  for (const Report& report : reports) {
    for (const auto& [name, value] : report.metrics) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string metrics_text(std::span<const Report> reports) {
  const bool repeats = reports.size() > 1;
  std::vector<std::vector<std::string>> rows;
  if (repeats) {
    rows.push_back({"metric", "median"});
    for (size_t i = 0; i < reports.size(); ++i) rows[0].push_back(fmt::format("run {}", i + 1));
  }
  for (const std::string& name : metric_names(reports)) {
    std::vector<std::string> row = {name, number(median_metric(reports, name))};
    for (const Report& report : reports) {
      if (repeats) row.push_back(number(report.metric(name)));
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

std::string series_text(const Series& series) {
  std::vector<std::vector<std::string>> rows = {series.columns};
  for (const auto& cells : series.rows) {
    std::vector<std::string> row;
    for (const Json& cell : cells) row.push_back(cell_text(cell));
    rows.push_back(std::move(row));
  }
  return fmt::format("\n{}\n{}", series.title, aligned(rows));
}

Json report_json(const Report& report) {
  Json metrics = Json::object(), series = Json::array();
  for (const auto& [name, value] : report.metrics) metrics[name] = finite_or_null(value);
  for (const Series& table : report.series) {
    series.push_back({{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}});
  }
  return {{"metrics", metrics}, {"series", series}, {"failures", report.failures}};
}

}  // namespace

double Report::metric(const std::string& name) const {
  for (const auto& [other, value] : metrics) {
    if (other == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += '\n';
  }
  return text;
}

std::string as_text(std::span<const Report> reports) {
  std::string text = metrics_text(reports);
  for (const Report& report : reports) {
    for (const Series& series : report.series) text += series_text(series);
    for (const std::string& failure : report.failures) text += fmt::format("FAILED: {}\n", failure);
  }
  return text;
}

Json as_json(std::span<const Report> reports) {
  Json runs = Json::array(), medians = Json::object();
  for (const Report& report : reports) runs.push_back(report_json(report));
  for (const std::string& name : metric_names(reports)) medians[name] = finite_or_null(median_metric(reports, name));
  return {{"runs", runs}, {"median", medians}};
}

}  // namespace tessera::load
