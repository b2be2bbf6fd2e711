#include "tessera/cli/summary.h"

#include <algorithm>
#include <cmath>

namespace tessera::cli {

Summary summarize(std::vector<double> values) {
  const auto n = static_cast<double>(values.size());
  Summary s;
  for (const double value : values) s.mean += value / n;
  for (const double value : values) s.stddev += (value - s.mean) * (value - s.mean);
  s.stddev = n > 1 ? std::sqrt(s.stddev / (n - 1)) : 0.0;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  s.median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return s;
}

}  // namespace tessera::cli
