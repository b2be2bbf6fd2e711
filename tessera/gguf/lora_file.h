// A LoRA adapter in a GGUF file (Hu et al. 2021): pairs of small matrices for some weights of one base model. The
// engine adds their products to a running model, and export-lora adds them to the weights. After open() has succeeded,
// every pair matches the shape of its weight.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/gguf/split.h"

namespace tessera {

/// A pair of matrices that adapts a weight W [n_in, n_out]: the result W x becomes W x + factor * up (down x). down is
/// [n_in, rank] and up is [rank, n_out], or one such matrix per expert. For the table of token embeddings [n, n_vocab],
/// row i of W becomes row i + factor * up (row i of down), where down is [rank, n_vocab] and up is [rank, n].
struct LoraPair {
  const ModelFiles::Tensor* weight = nullptr;  // of the base model
  const ModelFiles::Tensor* down = nullptr;    // "NAME.lora_a"
  const ModelFiles::Tensor* up = nullptr;      // "NAME.lora_b"
  int64_t rank = 0;
  bool is_table = false;
};

class LoraFile {
 public:
  /// Opens an adapter for a model. `base` must outlive it. Errors: as ModelFiles::open(); mismatch (another
  /// architecture, a weight that the model does not have, another shape); format (not an adapter, a matrix without its
  /// partner, alpha); unsupported (another kind of adapter, other tensors); limit (rank).
  static Result<LoraFile> open(const std::string& path, const ModelFiles& base);

  const ModelFiles& files() const { return *files_; }
  const std::string& name() const { return files_->name(); }
  /// The task that the file names, and the text that its prompts begin with; "" where the file has none.
  std::string_view task_name() const { return task_name_; }
  std::string_view prompt_prefix() const { return prompt_prefix_; }
  /// In the order of the file.
  std::span<const LoraPair> pairs() const { return pairs_; }
  /// The factor of a pair's product: alpha / rank, or 1 if the file has no alpha.
  float factor(const LoraPair& pair) const { return alpha_ == 0.0f ? 1.0f : alpha_ / static_cast<float>(pair.rank); }

 private:
  explicit LoraFile(std::unique_ptr<ModelFiles> files) : files_(std::move(files)) {}
  Result<> read_keys(const ModelFiles& base);
  Result<> read_pairs(const ModelFiles& base);
  Result<> require_fit(LoraPair& pair) const;

  std::unique_ptr<ModelFiles> files_;
  std::vector<LoraPair> pairs_;
  float alpha_ = 0.0f;
  std::string_view task_name_, prompt_prefix_;  // bytes of the file
};

}  // namespace tessera
