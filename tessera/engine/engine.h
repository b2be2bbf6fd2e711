// An engine: one model, opened and loaded once, shared by any number of sessions. Opening reads the metadata and plans
// the weights' memory; loading allocates and fills it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"
#include "tessera/engine/memory_report.h"
#include "tessera/engine/placement.h"
#include "tessera/gguf/split.h"
#include "tessera/models/model.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

enum class LoadMode : uint8_t {
  mmap,  // map the file: weights that need no packing are used in place
  read,  // read the file: nothing stays mapped
};

/// Whether the model's prediction head is loaded too: see Model::head().
enum class HeadUse : uint8_t { none, optional, needed };  // optional: if there is one that is supported

class Engine;

struct EngineOptions {
  PlacementOptions placement{};
  LoadMode load = LoadMode::mmap;
  bool lock_memory = false;     // keep the weights from being swapped out
  bool pack_weights = true;     // false: matrices are used in place too, and packed piecewise in each product
  bool check_tensors = false;   // refuse weights that are not finite
  ThreadPoolOptions threads{};  // for packing
  RopeOverrides rope{};
  HeadUse head = HeadUse::none;
  std::shared_ptr<const Engine> target{};  // of a draft model: the model for which it guesses
};

/// Called with the loaded share of the bytes, 0 to 1; returns false to stop.
using LoadProgress = std::function<bool(float)>;

class Engine {
 public:
  /// Reads a model's metadata and plans its memory. The registry must outlive the engine. Errors: those of the file, of
  /// its keys and tensors, and of its vocabulary.
  static Result<std::shared_ptr<Engine>> open(const Registry& registry, const std::string& path,
                                              const EngineOptions& options);
  /// Likewise, for files that are open already.
  static Result<std::shared_ptr<Engine>> open(const Registry& registry, std::unique_ptr<ModelFiles> files,
                                              const EngineOptions& options);

  /// Plans the weights' memory again, with other options. Frees loaded weights. No session may exist, and the caller
  /// then calls Adapter::place() for each adapter. Errors: those of ModelPlacement.
  Result<> place(const PlacementOptions& options);
  const PlacementOptions& placement_options() const { return options_.placement; }
  const ModelPlacement& placement() const { return *placement_; }
  /// The devices that run the model, in order of priority.
  std::span<const Device* const> devices() const { return placement_->devices(); }
  /// The first of devices().
  const Device& device() const { return *devices().front(); }

  /// Allocates the planned memory and fills it. Errors: out_of_memory; io; cancelled (progress returned false); format
  /// (a value that is not finite, with check_tensors).
  Result<> load(const LoadProgress& progress);
  bool is_loaded() const { return loaded_; }
  /// Error: io (a mapped file of the model has shrunk, so its weights are lost; see replace_lost_map()).
  Result<> require_files() const;

  const Model& model() const { return *model_; }
  const ModelFiles& files() const { return *files_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const text::Vocab& vocab() const { return tokenizer_->vocab(); }

  /// The planned buffers of the weights.
  std::vector<MemoryPart> planned_memory() const;
  /// The buffers that load() has allocated.
  std::vector<MemoryPart> allocated_memory() const;

  /// Whether experts can stay in the file (PlacementOptions::expert_cache): the CPU computes some.
  bool can_stream_experts() const;
  /// Bytes of the planned cache of experts; 0 without one.
  size_t stream_bytes() const { return stream_bytes_; }
  /// Counts of the cache of experts since load(); none without one.
  std::optional<StreamCounts> stream_counts() const;

  /// Requests that could not be met and are not fatal ("cannot lock ..."), as text for the user.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Identifies the model for saved states: a hash of metadata, tensor list, samples of the weights and rope settings.
  uint64_t fingerprint() const;

 private:
  Engine() = default;
  Result<> plan_weights();
  bool is_usable_in_place(const Weight& weight, const BufferType& type) const;
  bool can_stream(const Weight& weight) const;
  Result<> plan_streams();
  Result<> create_streams();
  bool reads_directly() const;
  void add_streams(std::vector<MemoryPart>& parts, size_t bytes) const;
  void add_mapped(std::vector<MemoryPart>& parts, size_t bytes) const;
  Result<> map_in_place();
  void lock_all();

  EngineOptions options_;
  const Registry* registry_ = nullptr;
  std::optional<ModelPlacement> placement_;
  std::unique_ptr<ModelFiles> files_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<const text::Tokenizer> tokenizer_;
  std::vector<Weight*> in_place_;              // used in the mapped file
  std::vector<Weight*> copied_;                // in buffers of their own
  std::vector<Weight*> streamed_;              // in the file, read into a cache
  std::vector<StreamedWeight> slots_;          // of streamed_
  size_t stream_bytes_ = 0;                    // of their cache
  TensorMemory memory_;                        // of copied_
  std::vector<std::unique_ptr<Buffer>> maps_;  // over each part of the model's files
  std::unique_ptr<StreamedBuffer> streams_;    // of streamed_
  std::vector<std::string> warnings_;
  bool loaded_ = false;
};

/// Refuses a plan that needs more than the free memory of a device. Mapped weights do not count: the system can drop
/// their file pages. Errors: out_of_memory, with both numbers.
Result<> require_memory(const Engine& engine, const MemoryReport& report);

}  // namespace tessera
