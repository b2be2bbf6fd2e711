#include "tessera/models/weights.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

const Tensor* WeightTable::need(const std::string& name, const Shape& shape, Op use) {
  if (files_.is_blueprint()) return error_ ? nullptr : add(name, shape, use, nullptr);
  const Tensor* tensor = maybe(name, shape, use);
  if (tensor == nullptr && !error_)
    error_ =
        Error(ErrorCode::not_found, fmt::format("{}: tensor {} {} is missing", files_.name(), name, to_string(shape)));
  return tensor;
}

const Tensor* WeightTable::need_stacked(const std::string& name, const Shape& shape, Op use) {
  const ModelFiles::Tensor* source = files_.find_tensor(name);
  const bool is_flat = source != nullptr && source->info.shape == Shape{shape[0], shape[1] * shape[2]};
  return is_flat && !error_ ? add(name, shape, use, source) : need(name, shape, use);
}

const Tensor* WeightTable::maybe(const std::string& name, const Shape& shape, Op use) {
  if (error_) return nullptr;
  const ModelFiles::Tensor* source = files_.find_tensor(name);
  if (source == nullptr) return files_.wants(name) ? add(name, shape, use, nullptr) : nullptr;
  if (source->info.shape != shape) {
    error_ = Error(ErrorCode::mismatch, fmt::format("{}: tensor {} is {}, the model's keys want {}", files_.name(),
                                                    name, to_string(source->info.shape), to_string(shape)));
    return nullptr;
  }
  return add(name, shape, use, source);
}

const Tensor* WeightTable::add(const std::string& name, const Shape& shape, Op use, const ModelFiles::Tensor* source) {
  const DType dtype = source == nullptr ? DType::f32 : source->info.dtype;
  auto layout = contiguous_layout(dtype, shape);
  if (!layout) {
    error_ = std::move(layout).error().within(name);
    return nullptr;
  }
  Tensor tensor{{dtype, *layout}, name};
  return &weights_.emplace_back(std::move(tensor), use, source).tensor;
}

void WeightTable::also_multiplies(const Tensor* tensor) {
  for (Weight& weight : weights_)
    if (&weight.tensor == tensor) weight.use = Op::mul_mat;
}

const Tensor* WeightTable::find_listed(std::string_view name) const {
  const auto found = std::ranges::find_if(weights_, [&](const Weight& weight) { return weight.tensor.name == name; });
  return found == weights_.end() ? nullptr : &found->tensor;
}

void WeightTable::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<> WeightTable::finish() const {
  if (error_) return std::unexpected<Error>(*error_);
  return {};
}

}  // namespace tessera
