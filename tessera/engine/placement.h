// The placement of a model's weights and caches. From options with the same meaning as in llama.cpp, it chooses a
// device for each entry of the model (its layers and, last, the output) and a type of memory for each weight. An engine
// has one placement; docs/offload.md is the documentation for users.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/index.h"
#include "tessera/base/tensor_pattern.h"
#include "tessera/models/model.h"

namespace tessera {

enum class SplitMode : uint8_t {
  none,   // all offloaded weights on the main device
  layer,  // whole layers, divided among the devices
  row,    // rows of each matrix on all devices, the rest on the main device
};

/// How experts are read that stay in the model's file.
enum class ExpertReads : uint8_t {
  automatic,  // cached, if the free memory holds all of them beside the plan; else direct
  direct,     // past the system's page cache
  cached,     // through it
};

/// Puts weights with matching names in a memory, or on a device, in the memory that the device prefers for them.
struct PlacementRule {
  std::string pattern;  // base/tensor_pattern.h
  std::string target;   // name of a device or of a type of memory; case is ignored
};

inline constexpr int64_t kAutoLayers = -1;  // as many as fit, if engine/fit.h is used; else all
inline constexpr int64_t kAllLayers = std::numeric_limits<int64_t>::max();

struct PlacementOptions {
  std::vector<std::string> devices{"cpu"};  // in order of priority; "none" and "cpu" add none; empty: all GPUs
  int64_t n_gpu_layers = kAutoLayers;       // number of entries on devices, counted from the last
  SplitMode split = SplitMode::layer;
  std::vector<float> shares{};         // of the devices; empty: in proportion to their free memory
  int64_t main_device = 0;             // for SplitMode::none and row: an index in devices
  std::vector<PlacementRule> rules{};  // the first match applies
  int64_t n_cpu_expert_layers = 0;     // number of layers, from the first, with experts on the CPU
  bool offload_caches = true;
  /// Bytes of memory for experts that stay in the model's file and are read when they are used; none: all experts are
  /// in memory. At least two experts of each weight are in memory, whatever the bytes.
  std::optional<uint64_t> expert_cache{};
  ExpertReads expert_reads = ExpertReads::automatic;
};

class ModelPlacement {
 public:
  /// Errors: not_found (an unknown device or memory; the message lists the known ones); invalid_argument (a pattern,
  /// shares, a main device out of range).
  static Result<ModelPlacement> create(const Registry& registry, const ModelInfo& model,
                                       const PlacementOptions& options);

  /// The devices that run graphs, in order of priority: the devices of the options, then the registry's "cpu" if there
  /// is one.
  static Result<std::vector<const Device*>> find_devices(const Registry& registry, const PlacementOptions& options);
  std::span<const Device* const> devices() const { return devices_; }
  /// The last of devices().
  const Device& cpu() const { return *devices_.back(); }
  /// Entries that are not on the CPU, of n_layers + 1.
  int64_t n_offloaded() const;
  int64_t n_entries() const { return static_cast<int64_t>(entries_.size()); }
  /// The device of an entry.
  const Device& entry(int64_t i) const { return *entries_[to_size(i)]; }

  /// The device of the cache or state of a layer; for a list of the model's layers, the devices in the same order.
  const Device& cache_of(int64_t layer) const;
  std::vector<const Device*> caches_of(std::span<const int64_t> layers) const;

  /// The memory of a weight. A weight that its device cannot multiply or hold is on the CPU. Errors:
  /// invalid_argument (a rule names memory that cannot hold it).
  Result<const BufferType*> type_of(const Weight& weight, bool pack) const;
  /// The parts of a weight whose rows are on several devices, in row order and without buffers. Empty: not split.
  std::vector<Tensor> row_parts_of(const Weight& weight, bool pack) const;
  /// The memory of a tensor stored beside a weight (such as an adapter's), for an operation `use` of its own.
  const BufferType& type_beside(const Weight& weight, const Tensor& tensor, Op use) const;

 private:
  struct Rule {
    TensorPattern pattern;
    const Device* device = nullptr;  // null: `type` is set
    const BufferType* type = nullptr;
  };

  Result<> add_rules(const Registry& registry, const PlacementOptions& options);
  void place_entries(const ModelInfo& model, const PlacementOptions& options);
  const Rule* rule_for(const std::string& name) const;
  const Device& device_of(const Weight& weight) const;
  const Device& rows_device() const;
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
