// Log-probabilities in answers of /v1/completions: of generated tokens, and of those of a prompt that is echoed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/server/json/writer.h"
#include "tessera/server/run/task.h"
#include "tessera/text/detokenize.h"

namespace tessera::server {

/// A prompt as an answer shows it.
struct PromptText {
  std::vector<int32_t> tokens{};
  std::vector<size_t> offsets{};  // where the text of each token begins, in code points
  std::string text{};
  size_t n_code_points = 0;  // of the text
};

/// Errors: invalid_argument (an id that is no token).
Result<PromptText> prompt_text(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens, bool renders_special);

/// The places of generated tokens in a text, in code points.
class TextOffsets {
 public:
  /// The tokens follow n_before code points. The tokenizer must outlive this.
  TextOffsets(const text::Tokenizer& tokenizer, bool renders_special, size_t n_before)
      : writer_(tokenizer, {.render_special = renders_special, .at_start = false}), next_(n_before) {}

  /// The place of the next token.
  size_t add(int32_t token);

 private:
  text::PieceWriter writer_;
  size_t next_;
};

/// A token of an answer.
struct ShownToken {
  int32_t id = 0;
  size_t offset = 0;                  // of its text, in code points
  const TokenProbs* probs = nullptr;  // null: it has none, like the first token of a prompt
};

/// Writes the object `logprobs`: the old form of parallel lists, and the one of chat completions beside it. At most
/// n_top others are shown of each token.
void write_completion_logprobs(JsonWriter& writer, std::span<const ShownToken> tokens, size_t n_top,
                               const text::Tokenizer& tokenizer);

/// Writes the list `prompt_logprobs`, as vLLM does: for each token an object with the n_top most probable ones and
/// itself, by id; null for the first. `scores` are those of the second and later tokens.
void write_prompt_logprobs(JsonWriter& writer, const PromptText& prompt, std::span<const TokenProbs> scores,
                           size_t n_top, const text::Tokenizer& tokenizer);

}  // namespace tessera::server
