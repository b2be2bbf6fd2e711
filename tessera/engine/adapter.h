// Adapters: LoRA matrices and control vectors, opened for an engine's model and loaded beside its weights. The options
// of a session list its adapters and their scales; docs/adapters.md.
#pragma once

#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/gguf/lora_file.h"
#include "tessera/graph/adapters.h"

namespace tessera {

/// Layers [first, last], counted from 0.
struct LayerSpan {
  int64_t first = 0;
  int64_t last = std::numeric_limits<int64_t>::max();
};

class Adapter {
 public:
  /// Reads a LoRA adapter and plans its memory. The engine, which need not be loaded, must outlive it. Errors: those of
  /// LoraFile::open(); unsupported (no adapter is possible for the use of a weight).
  static Result<std::shared_ptr<Adapter>> open_lora(const Engine& engine, const std::string& path);

  /// Reads a control vector: directions [n_embd], added to the outputs of its layers within the span. Errors: those of
  /// the file; mismatch (the architecture, width or number of layers is another model's); invalid_argument (no
  /// direction in the span).
  static Result<std::shared_ptr<Adapter>> open_control_vector(const Engine& engine, const std::string& path,
                                                              const LayerSpan& span);

  /// Plans the memory of each tensor beside the weight that it changes. Call it again after Engine::place().
  Result<> place();
  /// Allocates the planned memory and fills it. Errors: out_of_memory, io; format (a value that is not finite).
  Result<> load();
  bool is_loaded() const { return loaded_; }

  const std::string& name() const { return files().name(); }
  /// The file of a LoRA adapter; null for a control vector.
  const LoraFile* lora() const { return lora_ ? &*lora_ : nullptr; }
  const Engine& engine() const { return engine_; }
  const AdapterTerms& terms() const { return terms_; }
  /// A hash of its file's metadata, list of tensors and samples of the weights, and of the span.
  uint64_t fingerprint() const;

  /// The planned buffers, and the buffers that load() has allocated.
  std::vector<MemoryPart> planned_memory() const;
  std::vector<MemoryPart> allocated_memory() const;

 private:
  explicit Adapter(const Engine& engine) : engine_(engine) {}
  const ModelFiles& files() const { return lora_ ? lora_->files() : *files_; }
  const Tensor* add(const ModelFiles::Tensor& source, Op use, const Weight* beside);
  Result<> add_pair(const LoraPair& pair);
  Result<> add_product(const LoraPair& pair, const Weight& weight, const Tensor* down, const Tensor* up);
  Result<> plan_transposed(const LoraPair& pair);
  Result<> fill_transposed();
  Result<> require_control_vector() const;
  Result<> add_direction(const ModelFiles::Tensor& tensor, const LayerSpan& span);

  const Engine& engine_;
  std::optional<LoraFile> lora_;       // absent for a control vector
  std::unique_ptr<ModelFiles> files_;  // the file of a control vector
  std::deque<Weight> weights_;         // terms_ has their addresses
  std::vector<const Weight*> beside_;  // by weight: the model's weight beside which it is stored
  Tensor transposed_;                  // up of the token table [n, rank], if the table is also an output matrix
  const ModelFiles::Tensor* transposed_source_ = nullptr;
  const Weight* transposed_beside_ = nullptr;
  AdapterTerms terms_;
  TensorMemory memory_;
  LayerSpan span_{};  // of a control vector
  bool loaded_ = false;
};

/// An adapter that a session may use, and the scale with which its sequences begin.
struct SessionAdapter {
  std::shared_ptr<Adapter> adapter;
  float scale = 1.0f;
};

}  // namespace tessera
