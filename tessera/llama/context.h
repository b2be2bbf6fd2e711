// A context of llama.h: a session, the rows of its last batch, and settings that may change while it lives.
#pragma once

#include <map>
#include <optional>

#include "tessera/base/cancel.h"
#include "tessera/llama/objects.h"

namespace tessera::llama {

/// The rows of logits or embeddings of the last batch. They stay where they are until the next one.
class Outputs {
 public:
  /// Starts over for a batch of n_tokens, of which n_rows have a row.
  void begin(size_t n_tokens, size_t n_rows, size_t width);
  /// Adds the row of a token of the batch.
  void add(size_t token, std::span<const float> row);
  void set_pooled(int32_t sequence, std::vector<float> values) { pooled_[sequence] = std::move(values); }
  void clear() { begin(0, 0, 0); }

  float* rows() { return rows_.empty() ? nullptr : rows_.data(); }
  size_t n_rows() const { return width_ == 0 ? 0 : rows_.size() / width_; }
  size_t width() const { return width_; }
  /// The row of the i-th token of the batch, or of the last rows if i is negative. Errors: invalid_argument (no such
  /// token, or it has no row).
  Result<float*> row(int32_t i);
  /// Null: none of this sequence.
  float* pooled(int32_t sequence);

 private:
  size_t width_ = 0;
  std::vector<float> rows_;
  std::vector<int64_t> row_of_token_;  // -1: none
  std::map<int32_t, std::vector<float>> pooled_;
};

struct Timing {
  int64_t start_us = 0;
  int64_t prompt_us = 0, token_us = 0;
  int32_t n_prompt = 0, n_tokens = 0;
};

struct ScaledAdapter {
  std::shared_ptr<Adapter> adapter;
  float scale = 1.0f;
};

}  // namespace tessera::llama

struct llama_memory_i : tessera::llama::Tagged {
  static constexpr auto kTag = tessera::llama::HandleTag::memory;
  static constexpr std::string_view kName = "memory";
  explicit llama_memory_i(llama_context& of) : Tagged(kTag), context(of) {}
  llama_context& context;
};

struct llama_context : tessera::llama::Tagged {
  static constexpr auto kTag = tessera::llama::HandleTag::context;
  static constexpr std::string_view kName = "context";
  explicit llama_context(std::shared_ptr<const llama_model> of) : Tagged(kTag), model(std::move(of)) {}

  const tessera::ModelInfo& info() const { return *model->info(); }
  /// Whether tokens attend to later ones, so that a batch has whole sequences and nothing is stored.
  bool is_without_memory() const;
  /// Creates the session with other options. It has the sequences of the old one. Errors: those of Session::create()
  /// and restore_state(); then the old session stays.
  tessera::Result<> rebuild(const tessera::SessionOptions& next);
  /// Sets the adapters of all sequences. Creates a session that has them, if the session has not. Errors: those of
  /// rebuild(); invalid_argument (a bad scale). Then the old adapters stay.
  tessera::Result<> use_adapters(std::vector<tessera::llama::ScaledAdapter> new_loras,
                                 std::optional<tessera::llama::ScaledAdapter> new_control_vector);
  bool is_empty() const;
  /// Options for rows of embeddings or of logits.
  tessera::SessionOptions options_for(bool embeddings) const;
  /// Errors: invalid_argument (no such sequence).
  tessera::Result<> require_sequence(int32_t sequence) const;

  std::shared_ptr<const llama_model> model;
  std::shared_ptr<tessera::Engine> engine{};
  tessera::llama::ContextParams params{};  // after rounding, with defaults filled in
  int64_t n_ctx_seq = 0;
  tessera::nn::Pooling pooling = tessera::nn::Pooling::none;
  tessera::SessionOptions options{};
  std::unique_ptr<tessera::Session> session{};
  std::vector<tessera::llama::ScaledAdapter> loras{};
  std::optional<tessera::llama::ScaledAdapter> control_vector{};
  tessera::llama::Outputs outputs{};
  tessera::llama::Timing timing{};
  tessera::CancelToken cancel{};
  llama_memory_i memory{*this};

 private:
  tessera::Result<> apply_adapters();
};

namespace tessera::llama {

/// Calls a function for a context of llama.h, which may be const.
template <class T, class Context, class Function>
T of_context(const char* function, Context* ctx, T failed, Function&& body) {
  return guarded<T>(function, failed, [&]() -> Result<T> {
    TESSERA_TRY(require(ctx, "ctx"));
    return body(*ctx);
  });
}

}  // namespace tessera::llama
