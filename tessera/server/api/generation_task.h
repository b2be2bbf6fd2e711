// From the fields of a request to a task of the scheduler: sampler chains, grammars, limits. Used by every dialect.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/server/api/context.h"
#include "tessera/server/run/task.h"
#include "tessera/text/grammar/grammar.h"

namespace tessera::server {

/// Prompts and settings of a generation.
struct GenerationPlan {
  std::vector<std::vector<int32_t>> prompts;                // each gets fields.n_choices sequences
  GenerationFields fields;                                  // with a seed
  std::shared_ptr<const text::grammar::Grammar> grammar{};  // of all sequences; null: that of the fields, if any
  int32_t n_probs = -1;                                     // see SequenceSpec
  int32_t n_prompt_probs = -1;                              // the same; each prompt is scored once
  std::shared_ptr<const ReasoningLimit> reasoning{};        // of all sequences
};

/// The ranges of the fields for a client.
GenerationLimits generation_limits(const ApiContext& context, const ServedModel& model, const Client& client);

/// The biases of the fields by token, with the bans of ignore_eos. Texts have no special tokens. Errors: a text that
/// the vocabulary cannot spell.
FieldResult<std::vector<sample::LogitBias>> token_biases(const ServedModel& model, const GenerationFields& fields);

/// A grammar that a client gave as a JSON schema, or else in GBNF; null if both texts are empty. Errors: that of the
/// schema under the name schema_field, or of the grammar, with its place.
FieldResult<std::shared_ptr<const text::grammar::Grammar>> compile_grammar(const ServedModel& model,
                                                                           std::string_view schema,
                                                                           std::string schema_field,
                                                                           std::string_view gbnf);

/// Draws a seed where the fields ask for a random one.
void draw_seed(GenerationFields& fields);

/// Makes the sequences, prompt by prompt. Errors: a prompt that fills the context; more than kMaxSequences or
/// kMaxPromptProbs; those of the grammar and of the sampler chain.
FieldResult<std::vector<SequenceSpec>> make_sequences(ApiContext& context, ServedModel& model, GenerationPlan plan);

/// A task for the exchange, without sink and sequences: client, priority, deadlines and the place in the queue.
TaskSpec make_task(const ApiContext& context, Exchange& exchange, const GenerationFields& fields);

/// The refusal of a generation by a model that computes embeddings only.
FieldError generates_nothing(const ServedModel& model);

/// The refusal of a task by the scheduler.
FieldError refusal_error(const Refusal& refusal);

/// Log-probabilities of prompt tokens that an answer may have. They bound its bytes.
inline constexpr int64_t kMaxPromptProbs = int64_t{1} << 20;
inline constexpr size_t kMaxPrompts = 2048;
inline constexpr size_t kMaxSequences = 4096;

}  // namespace tessera::server
