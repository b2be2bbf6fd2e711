// What an importance matrix says of a model, as tables: per weight and per layer. Used by imatrix --show-statistics.
#pragma once

#include <string>
#include <vector>

#include "tessera/convert/imatrix.h"

namespace tessera::cli {

/// Of the mean squared inputs of a weight's columns, over all matrices that tokens have reached.
struct ImatrixStatistics {
  std::string weight;
  int64_t layer = -1;  // -1: in no layer
  size_t n_columns = 0;
  double sum = 0, mean = 0, min = 0, max = 0, deviation = 0;
  double active_share = 0;  // of columns whose mean square is above 1e-5
  double entropy = 0;       // bits, of the columns' shares of the sum; log2(n_columns) when all are equal
};

/// Layer by layer, in a layer the largest sum first.
std::vector<ImatrixStatistics> statistics_of(const convert::Imatrix& imatrix);

/// The tables as text.
std::string format_statistics(const convert::Imatrix& imatrix);

}  // namespace tessera::cli
