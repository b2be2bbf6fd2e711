#include "tessera/eval/imatrix_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::eval {

void ImatrixCollector::observe(std::string_view weight, std::span<const float> sums, int64_t n_tokens) {
  const bool is_wanted = weight.starts_with("blk.") || (output_ == Output::collect && weight == "output.weight");
  if (error_ || !is_wanted || n_tokens == 0) return;
  const auto bad = std::ranges::find_if(sums, [](float sum) { return !std::isfinite(sum); });
  if (bad != sums.end()) {
    error_ = Error(ErrorCode::format, fmt::format("{}: input column {}: the sum of squares is {}, want a finite number",
                                                  weight, bad - sums.begin(), *bad));
    return;
  }
  auto at = imatrix_.entries.find(weight);
  if (at == imatrix_.entries.end())
    at = imatrix_.entries.emplace(weight, convert::ImatrixEntry{std::vector<double>(sums.size()), {0.0}}).first;
  convert::ImatrixEntry& entry = at->second;
  if (entry.sums.size() != sums.size() || entry.counts.size() != 1) {
    error_ = Error(ErrorCode::mismatch, fmt::format("{}: {} columns, but {} in {} matrices were collected before",
                                                    weight, sums.size(), entry.sums.size(), entry.counts.size()));
    return;
  }
  for (size_t i = 0; i < sums.size(); ++i) entry.sums[i] += static_cast<double>(sums[i]);
  entry.counts[0] += static_cast<double>(n_tokens);
}

Result<> ImatrixCollector::status() const {
  if (error_) return std::unexpected<Error>(*error_);
  return {};
}

}  // namespace tessera::eval
