// The tensors of a model or a checkpoint as floats, whatever holds them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::convert {

class WeightSet {
 public:
  struct Tensor {
    std::string name{};
    std::string type{};            // "Q4_K", "BF16"
    std::vector<int64_t> shape{};  // outermost first, without extents of 1
    int64_t n_values = 0;
  };

  virtual ~WeightSet() = default;
  const std::string& name() const { return name_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  /// Reads values of a tensor from number `first` on, which is a multiple of kUnit. Called from several threads at
  /// once.
  virtual void read(size_t tensor, int64_t first, std::span<float> into) const = 0;
  /// Releases memory of values that were read.
  virtual void forget(size_t tensor, int64_t first, int64_t n) const = 0;

  /// The values of every block are among so many, from a multiple on.
  static constexpr int64_t kUnit = 256;

 protected:
  explicit WeightSet(std::string name) : name_(std::move(name)) {}
  std::string name_;
  std::vector<Tensor> tensors_;
};

/// Whether tensors have the names of their files, or those of the model that a checkpoint becomes.
enum class WeightNames : uint8_t { stored, converted };

/// Opens a GGUF file, or a checkpoint. Errors: unsupported (a type without a decoder); those of ModelFiles::open(),
/// Checkpoint::open() and Conversion::open().
Result<std::unique_ptr<WeightSet>> open_weights(const std::string& path, WeightNames names);

}  // namespace tessera::convert
