#include "tessera/convert/compare_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "tessera/base/index.h"

namespace tessera::convert {

namespace {

constexpr int64_t kComparedValues = 1024 * WeightSet::kUnit;

struct Pair {
  size_t first, second, result;
};
// Values of a pair of tensors, which a thread compares.
struct ComparedPiece {
  const Pair* pair;
  int64_t begin, n;
};
struct DifferenceSums {
  int64_t n_different = 0;
  double error = 0, power = 0, largest = 0;
};

DifferenceSums compare(std::span<const float> first, std::span<const float> second) {
  DifferenceSums sums;
  for (size_t i = 0; i < first.size(); ++i) {
    const double a = first[i], b = second[i];
    if (std::isfinite(a)) sums.power += a * a;
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ++sums.n_different;
    const double difference =
        std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : std::numeric_limits<double>::infinity();
    sums.error += difference * difference;
    sums.largest = std::max(sums.largest, difference);
  }
  return sums;
}

std::vector<ComparedPiece> cut_pairs(std::span<const Pair> pairs, const std::vector<WeightDifference>& results) {
  std::vector<ComparedPiece> pieces;
  for (const Pair& pair : pairs) {
    const int64_t n = results[pair.result].n_values;
    for (int64_t begin = 0; begin < n; begin += kComparedValues)
      pieces.push_back({&pair, begin, std::min(kComparedValues, n - begin)});
  }
  return pieces;
}

// Fills in what is known without the values. Returns the tensors whose values are to be compared.
std::vector<Pair> pair_tensors(const WeightSet& first, const WeightSet& second,
                               std::vector<WeightDifference>& results) {
  std::unordered_map<std::string_view, size_t> unmatched;
  for (size_t i = 0; i < second.tensors().size(); ++i) unmatched.emplace(second.tensors()[i].name, i);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < first.tensors().size(); ++i) {
    const WeightSet::Tensor& tensor = first.tensors()[i];
    WeightDifference result{.name = tensor.name, .first_type = tensor.type, .first_shape = tensor.shape};
    if (const auto found = unmatched.find(tensor.name); found != unmatched.end()) {
      const WeightSet::Tensor& other = second.tensors()[found->second];
      result.second_type = other.type;
      result.second_shape = other.shape;
      result.is_compared = tensor.shape == other.shape && tensor.n_values == other.n_values;
      if (result.is_compared) {
        result.n_values = tensor.n_values;
        pairs.push_back({i, found->second, results.size()});
      }
      unmatched.erase(found);
    }
    results.push_back(std::move(result));
  }
  for (const WeightSet::Tensor& tensor : second.tensors())
    if (unmatched.contains(tensor.name))
      results.push_back({.name = tensor.name, .second_type = tensor.type, .second_shape = tensor.shape});
  return pairs;
}

}  // namespace

Result<std::vector<WeightDifference>> compare_weights(const WeightSet& first, const WeightSet& second,
                                                      const WorkContext& context) {
  std::vector<WeightDifference> results;
  const std::vector<Pair> pairs = pair_tensors(first, second, results);
  const std::vector<ComparedPiece> pieces = cut_pairs(pairs, results);
  std::vector<DifferenceSums> sums(pieces.size());
  std::atomic<size_t> n_done{0};
  std::atomic<bool> is_stopped{false};
  context.threads.run([&](ThreadContext& thread) {
    std::vector<float> a, b;
    for (;;) {
      const auto i = to_size(thread.next_chunk());
      if (i >= pieces.size() || is_stopped) return;
      const ComparedPiece& piece = pieces[i];
      a.resize(to_size(piece.n));
      b.resize(to_size(piece.n));
      first.read(piece.pair->first, piece.begin, a);
      second.read(piece.pair->second, piece.begin, b);
      sums[i] = compare(a, b);
      first.forget(piece.pair->first, piece.begin, piece.n);
      second.forget(piece.pair->second, piece.begin, piece.n);
      ++n_done;
      if (context.cancel != nullptr && context.cancel->cancelled()) is_stopped = true;
      if (thread.index == 0 && !context.progress(static_cast<float>(n_done) / static_cast<float>(pieces.size())))
        is_stopped = true;
    }
  });
  if (is_stopped) return fail(ErrorCode::cancelled, "cancelled");
  std::vector<DifferenceSums> totals(results.size());
  for (size_t i = 0; i < pieces.size(); ++i) {  // in the order of the values, for any number of threads
    DifferenceSums& total = totals[pieces[i].pair->result];
    total.n_different += sums[i].n_different;
    total.error += sums[i].error;
    total.power += sums[i].power;
    total.largest = std::max(total.largest, sums[i].largest);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].n_different = totals[i].n_different;
    results[i].largest = totals[i].largest;
    results[i].nmse = totals[i].error == 0 ? 0 : totals[i].error / totals[i].power;
  }
  return results;
}

}  // namespace tessera::convert
