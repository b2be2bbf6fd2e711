#include "tessera/train/parameters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/half.h"
#include "tessera/base/index.h"

namespace tessera::train {

namespace {

constexpr size_t kChunk = size_t{1} << 16;  // floats per read
constexpr size_t kLanes = 8;                // partial sums that accumulate a chunk's squares in turn

Tensor beside(const Tensor& weight, const Layout& layout, std::string_view ending) {
  return {{DType::f32, layout}, weight.name + std::string(ending)};
}

}  // namespace

Result<> Parameters::add(Tensor& weight, Rule rule, bool decays) {
  TESSERA_ASSIGN(const Layout layout, contiguous_layout(DType::f32, weight.shape()));
  Parameter& p = parameters_.emplace_back();
  p.weight = &weight;
  p.rule = rule;
  p.decays = decays;
  p.exact = beside(weight, layout, "");
  p.gradient = beside(weight, layout, ".gradient");
  p.moment1 = beside(weight, layout, kMoment1Ending);
  p.moment2 = beside(weight, layout, kMoment2Ending);
  return {};
}

Result<> Parameters::plan(const BufferType& type) {
  for (Tensor* tensor : frozen_) weights_.add(*tensor, type);
  for (Parameter& p : parameters_) {
    weights_.add(*p.weight, type);
    gradients_.add(p.gradient, type);
    moments_.add(p.moment1, type);
    if (n_moments(p.rule) > 1) moments_.add(p.moment2, type);
    if (p.is_rounded()) moments_.add(p.exact, type);
  }
  for (TensorMemory* memory : {&weights_, &gradients_, &moments_}) TESSERA_TRY(memory->plan());
  return {};
}

ParameterBytes Parameters::bytes() const {
  return {total_bytes(weights_.planned()), total_bytes(gradients_.planned()), total_bytes(moments_.planned())};
}

Result<> Parameters::allocate() {
  TESSERA_TRY(weights_.allocate(BufferUsage::weights));
  TESSERA_TRY(gradients_.allocate(BufferUsage::any));
  return moments_.allocate(BufferUsage::any);
}

int64_t Parameters::n_elements() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.shape().n_elements();
  return n;
}

Result<double> Parameters::gradient_norm() {
  chunk_.resize(kChunk);
  double total = 0;
  for (const Parameter& p : parameters_) {
    const auto n = to_size(p.shape().n_elements());
    for (size_t begin = 0; begin < n; begin += kChunk) {
      const std::span<float> values = std::span(chunk_).first(std::min(kChunk, n - begin));
      TESSERA_TRY(p.gradient.buffer->get(p.gradient, begin * sizeof(float), std::as_writable_bytes(values)));
      std::array<double, kLanes> sums{};
      size_t i = 0;
      for (; i + kLanes <= values.size(); i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += double{values[i + lane]} * double{values[i + lane]};
      for (; i < values.size(); ++i) sums[0] += double{values[i]} * double{values[i]};
      for (const double sum : sums) total += sum;
    }
  }
  return std::sqrt(total);
}

Result<> Parameters::set_values(Parameter& p, std::span<const float> values) {
  if (!p.is_rounded()) return p.weight->buffer->set(*p.weight, 0, std::as_bytes(values));
  TESSERA_TRY(p.exact.buffer->set(p.exact, 0, std::as_bytes(values)));
  std::vector<uint16_t> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), f32_to_bf16);
  return p.weight->buffer->set(*p.weight, 0, std::as_bytes(std::span(rounded)));
}

Result<std::vector<float>> Parameters::get_values(const Tensor& tensor) {
  std::vector<float> values(to_size(tensor.shape().n_elements()));
  TESSERA_TRY(tensor.buffer->get(tensor, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace tessera::train
