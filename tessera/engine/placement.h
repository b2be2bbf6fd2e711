// Where a model's weights and caches lie. Options in the words of llama.cpp's users become a device for each entry of
// the model (its layers, and the output behind them) and a type of memory for each weight. An engine has one placement;
// docs/offload.md tells users.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/tensor_pattern.h"
#include "tessera/models/model.h"

namespace tessera {

enum class SplitMode : uint8_t {
  none,   // all that is offloaded on the main device
  layer,  // layers in turn
  row,    // rows of each matrix on all devices, the rest on the main device
};

/// Weights whose names match lie in this memory, or on this device in the memory that suits them.
struct PlacementRule {
  std::string pattern;  // base/tensor_pattern.h
  std::string target;   // a device or a type of memory, in any case
};

inline constexpr int64_t kAutoLayers = -1;  // all that fit, where somebody fits (engine/fit.h); else all
inline constexpr int64_t kAllLayers = std::numeric_limits<int64_t>::max();

struct PlacementOptions {
  std::vector<std::string> devices{"cpu"};  // in order of priority; "none" and "cpu" add none; empty: each gpu there is
  int64_t n_gpu_layers = kAutoLayers;       // the last so many entries go to devices
  SplitMode split = SplitMode::layer;
  std::vector<float> shares{};         // of the devices; empty: as their free memory
  int64_t main_device = 0;             // of SplitMode::none and row: an index of devices
  std::vector<PlacementRule> rules{};  // the first that matches counts
  int64_t n_cpu_expert_layers = 0;     // in the first so many layers experts stay on the CPU
  bool offload_caches = true;
};

class ModelPlacement {
 public:
  /// Errors: not_found (a device or memory, listing those there are); invalid_argument (a pattern, shares, a main
  /// device that is none of the devices).
  static Result<ModelPlacement> create(const Registry& registry, const ModelInfo& model,
                                       const PlacementOptions& options);

  /// Those that run graphs, in order of priority: what options name, and the registry's "cpu" if there is one.
  static Result<std::vector<const Device*>> find_devices(const Registry& registry, const PlacementOptions& options);
  std::span<const Device* const> devices() const { return devices_; }
  /// The last of them.
  const Device& cpu() const { return *devices_.back(); }
  /// Entries that are not on the CPU, of n_layers + 1.
  int64_t n_offloaded() const;
  int64_t n_entries() const { return static_cast<int64_t>(entries_.size()); }
  /// The device of an entry.
  const Device& entry(int64_t i) const { return *entries_[static_cast<size_t>(i)]; }

  /// The device of what a layer keeps; by layer of a cache, for the model's layers given.
  const Device& cache_of(int64_t layer) const;
  std::vector<const Device*> caches_of(std::span<const int64_t> layers) const;

  /// The memory of a weight. What its device cannot multiply or hold lies on the CPU. Errors: invalid_argument (a rule
  /// names memory that cannot hold it).
  Result<const BufferType*> type_of(const Weight& weight, bool pack) const;
  /// The parts of a weight whose rows lie on several devices, in their order: without buffers. Empty: it is not split.
  std::vector<Tensor> row_parts_of(const Weight& weight, bool pack) const;
  /// The memory of a tensor that goes with a weight (an adapter's), for another use.
  const BufferType& type_beside(const Weight& weight, const Tensor& tensor, Op use) const;

 private:
  struct Rule {
    TensorPattern pattern;
    const Device* device = nullptr;  // or:
    const BufferType* type = nullptr;
  };

  Result<> add_rules(const Registry& registry, const PlacementOptions& options);
  void place_entries(const ModelInfo& model, const PlacementOptions& options);
  const Rule* rule_for(const std::string& name) const;
  const Device& device_of(const Weight& weight) const;
  Result<> set_shares(const PlacementOptions& options);
  const BufferType& device_type(const Device& device, Op use, const Tensor& tensor, bool pack) const;
  const BufferType& cpu_type(Op use, const Tensor& tensor, bool pack) const;

  struct DeviceShare {
    const Device* device;
    double share_end;  // sum of all shares up to and including this one, as a part of the total
  };

  std::vector<const Device*> devices_;
  std::vector<DeviceShare> shares_;  // devices that hold layers or rows, except the CPU
  const Device* main_ = nullptr;
  bool splits_rows_ = false;
  std::vector<const Device*> entries_;  // n_layers + 1
  const Device* memoryless_ = nullptr;  // a device without memory of its own: it multiplies in the CPU's plain memory
  std::vector<Rule> rules_;
  int64_t n_cpu_expert_layers_ = 0;
  bool offload_caches_ = true;
};

}  // namespace tessera
