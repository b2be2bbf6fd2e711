// Mean, median and spread of measurements.
#pragma once

#include <utility>
#include <vector>

namespace tessera::cli {

struct Summary {
  double mean = 0, median = 0, stddev = 0;  // stddev: of the sample; 0 for a single value
};

/// values: at least one.
Summary summarize(std::vector<double> values);

inline double median(std::vector<double> values) { return summarize(std::move(values)).median; }

}  // namespace tessera::cli
