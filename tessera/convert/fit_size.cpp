#include "tessera/convert/fit_size.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <tuple>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/weight_facts.h"

namespace tessera::convert {

namespace {

// Candidate types of a tensor, besides its current type. Blocks of 32 and f16 serve rows that are not whole blocks of
// longer formats.
constexpr DType kLadder[] = {DType::iq2_xxs, DType::iq2_xs, DType::iq2_s,  DType::q2_k, DType::iq3_xxs, DType::q3_k,
                             DType::iq3_s,   DType::iq4_xs, DType::iq4_nl, DType::q4_k, DType::q4_1,    DType::q5_0,
                             DType::q5_k,    DType::q5_1,   DType::q6_k,   DType::q8_0, DType::f16};

// Sample size of a tensor, in whole rows. Errors differ by some percent between rows, but by a factor of 1.1 or more
// between types.
constexpr int64_t kSampleValues = int64_t{1} << 15;
constexpr int64_t kMinSampleRows = 4;

uint64_t padded(uint64_t n_bytes) { return round_up(n_bytes, kGgufDefaultAlignment); }

bool is_free(const PlannedTensor& tensor) {
  return tensor.reason != MixReason::kept && tensor.reason != MixReason::asked;
}

// Measures the points of one tensor. It runs on one thread, so that sums have a fixed order.
class Measurement {
 public:
  Measurement(const ModelFiles& files, const PlannedTensor& tensor, const QuantizeOptions& options)
      : files_(files), tensor_(tensor), options_(options), shape_(tensor.source.info.shape) {}

  Result<std::vector<SizePoint>> run(const CancelToken* cancel) const {
    const GgufTensor& source = tensor_.source.info;
    TESSERA_ASSIGN(const TensorImportance importance, convert::importance_of(options_.imatrix, source));
    std::vector<SizePoint> points = {{source.dtype, padded(source.n_bytes), 0.0}};
    const quant::Format* from = find_decoder(source.dtype);
    if (from == nullptr) return points;
    for (const DType dtype : kLadder) {
      if (cancel != nullptr && cancel->cancelled()) return fail(ErrorCode::cancelled, "interrupted");
      const quant::Format* to = find_encoder(dtype, options_.encoder);
      if (to == nullptr || shape_[0] % info(dtype).block_elements != 0 || dtype == source.dtype) continue;
      TESSERA_ASSIGN(const size_t n_bytes, nbytes(dtype, shape_));
      TESSERA_ASSIGN(const double error, error_of(*from, *to, dtype, importance));
      if (std::isfinite(error)) points.push_back({dtype, padded(n_bytes), error});
    }
    return points;
  }

 private:
  Result<double> error_of(const quant::Format& from, const quant::Format& to, DType dtype,
                          const TensorImportance& importance) const {
    const int64_t n_rows = shape_.n_rows();
    const int64_t n_sample = std::min(n_rows, std::max(kMinSampleRows, kSampleValues / shape_[0]));
    const size_t row_bytes = to_size(tensor_.source.info.n_bytes) / to_size(n_rows);
    std::vector<std::byte> read(options_.rows == nullptr ? 0 : row_bytes);
    RowCoder coder(from, &to, dtype, shape_[0], options_.encoder);
    TESSERA_ASSIGN(const size_t encoded_bytes, tessera::row_bytes(dtype, shape_[0]));
    std::vector<std::byte> encoded(encoded_bytes);
    std::vector<float> decoded(to_size(shape_[0]));
    double error = 0, energy = 0;
    for (int64_t i = 0; i < n_sample; ++i) {
      const int64_t row = i * (n_rows / n_sample) + (i * (n_rows % n_sample) + n_rows / 2) / n_sample;
      if (options_.rows != nullptr) options_.rows->read(tensor_.source.info, row, 1, read);
      const std::byte* source =
          options_.rows != nullptr ? read.data() : files_.data(tensor_.source).data() + to_size(row) * row_bytes;
      if (const auto fault = coder.read(source)) return std::unexpected(to_error(*fault, files_, tensor_, row));
      if (coder.write(importance, row, encoded.data())) return HUGE_VAL;  // exceeds the range of the type
      to.dequantize_row(encoded.data(), shape_[0], decoded.data());
      const std::span<const float> x = coder.values(), q = importance.weights(row);
      for (size_t j = 0; j < x.size(); ++j) {
        const double w = q.empty() ? 1.0 : static_cast<double>(q[j]), value = static_cast<double>(x[j]);
        const double difference = value - static_cast<double>(decoded[j]);
        error += w * difference * difference;
        energy += w * value * value;
      }
    }
    return energy > 0 ? error / energy * static_cast<double>(shape_.n_elements()) : 0.0;
  }

  const ModelFiles& files_;
  const PlannedTensor& tensor_;
  const QuantizeOptions& options_;
  const Shape& shape_;
};

using Points = std::vector<SizePoint>;

// Mapped pages of the input count as memory of this process, so they are released.
void forget(const ModelFiles& files, const QuantizeOptions& options, const ModelFiles::Tensor& tensor) {
  if (options.rows != nullptr) return options.rows->forget(tensor.info, 0, tensor.info.shape.n_rows());
  if (const MappedFile* map = files.files()[tensor.file]->map())
    map->discard(tensor.info.file_offset, tensor.info.n_bytes);
}

// The points of every free tensor of the plan; none for the others.
Result<std::vector<Points>> measure_all(const ModelFiles& files, const QuantizePlan& plan,
                                        const QuantizeOptions& options, const WorkContext& context) {
  std::vector<Result<Points>> measured(plan.tensors.size());
  const auto measure = [&](size_t i) -> Result<Points> {
    try {
      return Measurement(files, plan.tensors[i], options).run(context.cancel);
    } catch (const std::bad_alloc&) {  // no exception may leave a thread of the pool
      return fail(ErrorCode::out_of_memory, "out of memory");
    }
  };
  std::vector<size_t> free;
  for (size_t i = 0; i < plan.tensors.size(); ++i)
    if (is_free(plan.tensors[i])) free.push_back(i);
  // Each turn gives every thread a few tensors; progress is reported between turns.
  const auto n_turn = to_size(context.threads.size()) * 4;
  for (size_t begin = 0; begin < free.size(); begin += n_turn) {
    const size_t n = std::min(n_turn, free.size() - begin);
    context.threads.run([&](ThreadContext& thread) {
      for (auto at = to_size(thread.next_chunk()); at < n; at = to_size(thread.next_chunk()))
        measured[free[begin + at]] = measure(free[begin + at]);
    });
    for (size_t at = begin; at < begin + n; ++at) {
      if (!measured[free[at]]) return forward_error(measured[free[at]]);
      forget(files, options, plan.tensors[free[at]].source);
    }
    if (!context.progress(static_cast<float>(begin + n) / static_cast<float>(free.size())))
      return fail(ErrorCode::cancelled, "interrupted");
  }
  std::vector<Points> points;
  for (Result<Points>& result : measured) points.push_back(std::move(*result));
  return points;
}

}  // namespace

uint64_t bytes_of_bits(double bits_per_value, const ModelFiles& files) {
  return static_cast<uint64_t>(bits_per_value / 8 * static_cast<double>(count_parameters(files)));
}

std::vector<SizePoint> lower_hull(std::vector<SizePoint> points) {
  std::ranges::sort(points, [](const SizePoint& a, const SizePoint& b) {
    return std::tuple(a.n_bytes, a.error) < std::tuple(b.n_bytes, b.error);
  });
  // Decrease of the error per byte from a to b.
  const auto slope = [](const SizePoint& a, const SizePoint& b) {
    return (a.error - b.error) / static_cast<double>(b.n_bytes - a.n_bytes);
  };
  std::vector<SizePoint> hull;
  for (const SizePoint& point : points) {
    if (!hull.empty() && point.error >= hull.back().error) continue;  // larger without a smaller error
    while (hull.size() >= 2 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), point)) hull.pop_back();
    hull.push_back(point);
  }
  return hull;
}

std::vector<size_t> spend_bytes(std::span<const std::vector<SizePoint>> hulls, uint64_t max_bytes) {
  struct Step {
    double slope;
    size_t tensor;
    size_t to;
  };
  std::vector<Step> steps;
  uint64_t sum = 0;
  for (size_t i = 0; i < hulls.size(); ++i) {
    sum += hulls[i].front().n_bytes;
    for (size_t to = 1; to < hulls[i].size(); ++to) {
      const SizePoint &a = hulls[i][to - 1], &b = hulls[i][to];
      steps.push_back({(a.error - b.error) / static_cast<double>(b.n_bytes - a.n_bytes), i, to});
    }
  }
  std::ranges::sort(steps, [](const Step& a, const Step& b) {
    return std::tuple(-a.slope, a.tensor, a.to) < std::tuple(-b.slope, b.tensor, b.to);
  });
  std::vector<size_t> reached(hulls.size(), 0);
  for (const Step& step : steps) {
    if (reached[step.tensor] + 1 != step.to) continue;  // an earlier step did not fit
    const uint64_t more = hulls[step.tensor][step.to].n_bytes - hulls[step.tensor][step.to - 1].n_bytes;
    if (more > max_bytes - sum) continue;
    sum += more;
    reached[step.tensor] = step.to;
  }
  return reached;
}

Result<> fit_size(const ModelFiles& files, QuantizePlan& plan, const QuantizeOptions& options, uint64_t max_bytes,
                  const WorkContext& context) {
  // The size of the header does not depend on the types.
  TESSERA_ASSIGN(uint64_t n_fixed, output_bytes(files, plan, options));
  TESSERA_ASSIGN(std::vector<Points> points, measure_all(files, plan, options, context));
  std::vector<size_t> tensors;
  std::vector<Points> hulls;
  uint64_t n_least = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].empty()) continue;
    n_fixed -= padded(plan.tensors[i].n_bytes);
    tensors.push_back(i);
    hulls.push_back(lower_hull(std::move(points[i])));
    n_least += hulls.back().front().n_bytes;
  }
  if (n_fixed + n_least > max_bytes)
    return fail(ErrorCode::limit, "{}: {} bytes are too few: the smallest mix of types takes {}", files.name(),
                max_bytes, n_fixed + n_least);
  const std::vector<size_t> reached = spend_bytes(hulls, max_bytes - n_fixed);
  std::map<DType, uint64_t> bytes_of;
  for (size_t i = 0; i < tensors.size(); ++i) {
    PlannedTensor& tensor = plan.tensors[tensors[i]];
    tensor.to = hulls[i][reached[i]].dtype;
    tensor.reason = MixReason::size;
    TESSERA_ASSIGN(tensor.n_bytes, nbytes(tensor.to, tensor.source.info.shape));
    bytes_of[tensor.to] += tensor.n_bytes;
  }
  const auto most = std::ranges::max_element(bytes_of, {}, [](const auto& entry) { return entry.second; });
  if (most != bytes_of.end()) plan.file_type = file_type_of(most->first);
  return {};
}

}  // namespace tessera::convert
