// Statistics of an importance matrix, by weight and by layer. Used by `tessera imatrix --show-statistics`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/convert/imatrix.h"

namespace tessera::convert {

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
std::vector<ImatrixStatistics> statistics_of(const Imatrix& imatrix);

/// The sums over the weights of one layer.
struct LayerStatistics {
  int64_t layer = -1;
  size_t n_weights = 0;
  double sum = 0, mean = 0;
  double active_share = 0;
};

/// Layer by layer.
std::vector<LayerStatistics> layers_of(std::span<const ImatrixStatistics> weights);

}  // namespace tessera::convert
