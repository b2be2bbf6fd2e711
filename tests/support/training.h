// Small training setups for tests: texts, vocabularies, and blueprints of models.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/app/app.h"
#include "tessera/engine/vocab_loader.h"
#include "tessera/train/blueprint.h"
#include "tessera/train/run.h"
#include "tessera/train/tokenizer_trainer.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// n different lines, each a sentence.
inline std::string training_lines(int n) {
  constexpr const char* kWho[] = {"the cat", "a dog", "my aunt", "the old man", "her friend"};
  constexpr const char* kDoes[] = {"saw", "likes", "found", "wants", "lost"};
  constexpr const char* kWhat[] = {"a red ball", "the house", "two birds", "some bread"};
  std::string text;
  for (int i = 0; i < n; ++i) text += fmt::format("{} {} {}.\n", kWho[i % 5], kDoes[i / 5 % 5], kWhat[i / 25 % 4]);
  return text;
}

/// A blueprint with a vocabulary trained from a text, and windows of that text.
struct TinyTraining {
  std::shared_ptr<Registry> registry;
  std::unique_ptr<train::Blueprint> blueprint;
  std::unique_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<train::Dataset> data;

  const Device& device() const { return *registry->find("cpu").value(); }
};

inline train::ModelSizes tiny_sizes() {
  return {.n_layers = 2, .n_embd = 32, .n_heads = 2, .n_heads_kv = 1, .n_ff = 64, .n_ctx = 32};
}

inline Result<TinyTraining> tiny_training(const std::string& text, const train::ModelSizes& sizes = tiny_sizes(),
                                          double eval_share = 0) {
  TinyTraining t;
  TESSERA_ASSIGN(t.registry, create_registry(""));
  const std::vector<std::string_view> texts = {text};
  TESSERA_ASSIGN(const auto vocab, train::train_tokenizer(texts, {.n_vocab = 300}));
  GgufBuilder keys;
  train::write_vocab(keys, vocab);
  TESSERA_ASSIGN(t.blueprint, train::Blueprint::create(sizes, keys));
  TESSERA_ASSIGN(t.tokenizer, load_tokenizer(t.blueprint->files(), t.blueprint->model().info().n_vocab));
  bool is_done = false;
  const auto next = [&]() -> Result<std::optional<train::TextPiece>> {
    if (std::exchange(is_done, true)) return std::nullopt;
    return train::TextPiece{text};
  };
  TESSERA_ASSIGN(auto data, train::Dataset::create(next, *t.tokenizer,
                                                   {.n_ctx = sizes.n_ctx, .eval_share = eval_share, .seed = 1}));
  t.data = std::make_unique<train::Dataset>(std::move(data));
  return t;
}

/// Returns an allocated and initialized trainer.
inline Result<std::unique_ptr<train::Trainer>> make_trainer(const TinyTraining& t, train::TrainerOptions options) {
  options.n_ctx = t.data->n_ctx();
  TESSERA_ASSIGN(auto trainer, train::Trainer::create(t.device(), t.blueprint->model(), options));
  TESSERA_TRY(trainer->allocate());
  TESSERA_TRY(trainer->initialize(t.blueprint->files(), 1));
  return trainer;
}

}  // namespace tessera::testing
