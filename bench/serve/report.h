// Results of a scenario, and their two forms: aligned tables for people and one JSON object for scripts.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera::load {

using Json = nlohmann::ordered_json;

/// A table of a scenario, such as the resident memory over time. Cells are numbers or texts.
struct Series {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Json>> rows;
};

struct Report {
  std::vector<std::pair<std::string, double>> metrics;  // the unit is the last part of the name
  std::vector<Series> series;
  std::vector<std::string> failures;  // broken promises; any of them makes the exit status 1

  void add(std::string name, double value) { metrics.emplace_back(std::move(name), value); }
  /// Returns a metric, or NaN.
  double metric(const std::string& name) const;
};

/// Returns the reports of all repetitions: a row per metric with every value and the median, then the tables.
std::string as_text(std::span<const Report> reports);
/// Returns {"runs":[{"metrics","series","failures"}],"median":{...}}. Values that are not finite are null.
Json as_json(std::span<const Report> reports);

/// Returns rows of cells as lines of equally wide columns. The first column is aligned to the left.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace tessera::load
