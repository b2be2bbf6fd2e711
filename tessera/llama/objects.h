// The objects behind the handles of llama.h. Each begins with a tag word, so that a pointer to something else makes a
// call fail.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/engine/loaded_model.h"
#include "tessera/engine/session.h"
#include "tessera/llama/boundary.h"
#include "tessera/text/grammar/mask_vocab.h"

namespace tessera::llama {

enum class HandleTag : uint64_t {
  freed = 0,
  model = 0x6c65646f'6d6c6c61,  // any numbers that other memory hardly has
  vocab = 0x62616376'6f6c6c61,
  context = 0x74786574'6e6f6c61,
  memory = 0x79726f6d'656d6c61,
  adapter = 0x61726f6c'61646c61,
};

class Tagged {
 public:
  HandleTag tag() const { return tag_; }

 protected:
  explicit Tagged(HandleTag tag) : tag_(tag) {}
  ~Tagged() { tag_ = HandleTag::freed; }

 private:
  HandleTag tag_;  // the first 8 bytes
};

/// Refuses NULL and handles of other kinds. Error: invalid_argument.
template <class T>
Result<> require(const T* handle, std::string_view name) {
  if (handle == nullptr) return fail(ErrorCode::invalid_argument, "{}: is NULL", name);
  if (handle->tag() != T::kTag) return fail(ErrorCode::invalid_argument, "{}: is no {}", name, T::kName);
  return {};
}

}  // namespace tessera::llama

struct llama_vocab : tessera::llama::Tagged {
  static constexpr auto kTag = tessera::llama::HandleTag::vocab;
  static constexpr std::string_view kName = "vocabulary";
  llama_vocab() : Tagged(kTag) {}

  const tessera::text::Vocab& vocab() const { return tokenizer->vocab(); }
  bool has(int32_t token) const { return vocab().has_text() && vocab().contains(token); }
  /// The text of a token that the vocabulary has(), with a NUL at its end.
  const char* text(int32_t token) const;
  /// The vocabulary as grammars see it.
  std::shared_ptr<const tessera::text::grammar::MaskVocab> mask() const;

  const llama_model* model = nullptr;
  const tessera::text::Tokenizer* tokenizer = nullptr;
  int64_t n_tokens = 0;

 private:
  mutable std::mutex mutex_;
  mutable std::string texts_;  // one after another; made when the first is asked for
  mutable std::vector<size_t> text_begins_;
  mutable std::shared_ptr<const tessera::text::grammar::MaskVocab> mask_;
};

/// A model. Contexts, adapters and samplers keep it, so they may outlive llama_model_free().
struct llama_model : tessera::llama::Tagged, std::enable_shared_from_this<llama_model> {
  static constexpr auto kTag = tessera::llama::HandleTag::model;
  static constexpr std::string_view kName = "model";
  llama_model() : Tagged(kTag) {}

  const tessera::ModelFiles& files() const { return engine ? engine->files() : *files_only; }
  const tessera::Metadata& metadata() const { return files().metadata(); }
  /// Null if only the vocabulary is loaded.
  const tessera::ModelInfo* info() const { return engine ? &engine->model().info() : nullptr; }
  /// An engine with other rope settings, which needs memory of its own for the weights. Errors: those of opening it.
  tessera::Result<std::shared_ptr<tessera::Engine>> engine_with(const tessera::RopeOverrides& rope) const;

  std::shared_ptr<const tessera::Registry> registry{};  // outlives the engine
  tessera::EngineOptions options{};
  std::shared_ptr<tessera::Engine> engine{};
  std::unique_ptr<const tessera::ModelFiles> files_only{};
  std::unique_ptr<const tessera::text::Tokenizer> tokenizer_only{};
  llama_vocab vocab{};
  std::vector<std::string> class_labels{};
  std::map<std::string, std::string, std::less<>> chat_templates{};  // by key
  int64_t load_us = 0;
  std::shared_ptr<llama_model> self{};  // until llama_model_free()
};

struct llama_adapter_lora : tessera::llama::Tagged {
  static constexpr auto kTag = tessera::llama::HandleTag::adapter;
  static constexpr std::string_view kName = "adapter";
  explicit llama_adapter_lora(std::shared_ptr<const llama_model> of) : Tagged(kTag), model(std::move(of)) {}

  std::shared_ptr<const llama_model> model;
  std::shared_ptr<tessera::Adapter> adapter{};
  std::vector<int32_t> invocation_tokens{};
};
