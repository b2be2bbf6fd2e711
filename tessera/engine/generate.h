// Text generation: decodes a prompt, then returns tokens one by one until a stop reason applies.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/engine/speculative/speculator.h"
#include "tessera/sample/chain.h"
#include "tessera/text/detokenize.h"

namespace tessera {

/// The vocabulary as samplers see it; keeps the engine alive.
std::shared_ptr<const sample::VocabView> sampling_vocab(std::shared_ptr<const Engine> engine);

enum class StopReason : uint8_t {
  none,          // more tokens can follow
  end_of_text,   // the model ended it, or the grammar allows nothing more
  n_predict,     // the requested number of tokens was generated
  context_full,  // no position is left and the context is not shifted
};

struct GenerateOptions {
  int64_t n_predict = -1;      // -1: until the model ends it or the context is full
  bool ignore_end = false;     // generate on after a token that ends a text
  bool context_shift = false;  // when the context is full, forget half of the tokens after the first n_keep
  int64_t n_keep = 0;          // -1: the whole prompt
  bool forces_text = true;     // add tokens that a grammar leaves no choice about without computing their logits
  int64_t n_batch = 2048;      // prompt tokens per decode(); a cancellation keeps the tokens of earlier calls
  // Guesses tokens, which changes the time only; null: one token per step. It must outlive the generator. The session
  // needs n_outputs of a row per guess and one more, and a checkpoint if it is recurrent. With fewer rows there are
  // fewer guesses.
  Speculator* speculator = nullptr;
};

/// Called after each part of a prompt, with the number of tokens that are stored and the number of all.
using PromptProgress = std::function<void(int64_t n_stored, int64_t n_tokens)>;

class Generator {
 public:
  /// Generates in one sequence of a session; session and chain must outlive this.
  Generator(Session& session, sample::Chain& chain, int32_t sequence, const GenerateOptions& options)
      : session_(session), chain_(chain), sequence_(sequence), options_(options) {}

  /// Decodes the prompt but its first n_stored tokens, which the sequence already holds. If the model has an encoder,
  /// encodes the prompt instead and begins a text. Errors: invalid_argument (empty prompt, n_stored out of range);
  /// limit (longer than the context); unsupported (context_shift with a model whose context cannot be shifted);
  /// cancelled.
  Result<> start(std::span<const int32_t> prompt, const CancelToken* cancel, int64_t n_stored = 0,
                 const PromptProgress& progress = {});

  /// Returns the next token, or -1 with the reason in stop_reason(). Errors: limit (the context cannot be shifted with
  /// n_keep tokens kept); cancelled.
  Result<int32_t> next(const CancelToken* cancel);

  StopReason stop_reason() const { return stop_; }
  int64_t n_generated() const { return n_generated_; }
  /// The number of tokens of prompt and text that the sequence holds, also after an error. With speculation it may hold
  /// guesses after them.
  int64_t n_stored() const { return position_; }
  /// Removes guesses from the sequence that are not part of the text. Call it before other uses of the sequence. The
  /// generator can go on afterwards. In a recurrent model n_stored() may get smaller. Errors: those of
  /// Session::remove().
  Result<> remove_guesses();
  /// The logits for the choice of the next token.
  std::span<const float> logits() const { return session_.logits(row_); }

 private:
  Result<> read(std::span<const int32_t> prompt, const PromptProgress& progress, const CancelToken* cancel);
  Result<> make_room();
  void take_right_guesses();
  Result<> decode_pending(const CancelToken* cancel);
  Result<> decode_with_guesses(std::span<const int32_t> part, const CancelToken* cancel);
  Result<std::span<const int32_t>> guess(int64_t n_part, const CancelToken* cancel);
  Result<int32_t> choose(const CancelToken* cancel);

  Session& session_;
  sample::Chain& chain_;
  int32_t sequence_;
  GenerateOptions options_;
  int32_t position_ = 0;  // of the next token
  int64_t n_keep_ = 0;
  int64_t n_generated_ = 0;
  std::vector<int32_t> pending_;  // returned, not yet decoded
  std::vector<int32_t> forced_;   // to be returned, the first one last

  // Of speculation.
  std::vector<int32_t>
      guesses_;      // in the sequence from position_ on, not yet compared with the text; the first one last
  int64_t row_ = 0;  // of the logits after the last token at or before position_ - 1
  std::vector<int32_t> since_checkpoint_;  // tokens before position_, which a recurrent model computes again
  StopReason stop_ = StopReason::none;
};

}  // namespace tessera
