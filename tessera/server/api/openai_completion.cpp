#include "tessera/server/api/openai_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tessera/server/api/completion_logprobs.h"
#include "tessera/server/api/generation.h"
#include "tessera/server/api/infill.h"
#include "tessera/server/api/native_object.h"
#include "tessera/server/api/openai_format.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/prompt.h"

namespace tessera::server {

namespace {

// The fields of this route beside those of generation.
struct CompletionFields {
  int32_t n_logprobs = -1;         // -1: none
  int32_t n_prompt_logprobs = -1;  // as vLLM has them; -1: none
  bool echoes = false;
  int32_t n_answers = 1;  // to each prompt: the best of n_best
  int32_t n_best = 1;
};

class OpenAiCompletion final : public Generation {
 public:
  /// `prompts` are empty unless answers show them.
  OpenAiCompletion(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, GenerationFields fields,
                   const CompletionFields& own, std::vector<PromptText> prompts, std::optional<NativeFacts> verbose)
      : Generation(context, model, std::move(exchange), std::move(fields)),
        head_{.id = new_id("cmpl-"), .model = model.facts().id, .fingerprint = context.options().build_info},
        own_(own),
        prompts_(std::move(prompts)),
        verbose_(std::move(verbose)) {}

 private:
  void on_started(Choice& choice) override { write_prompt(choice); }
  void on_scored(Choice& choice) override { write_prompt(choice); }

  void on_token(Choice& choice, const TaskEvent& event) override {
    if (streams() && !event.text.empty()) write_chunk(choice, event.text, nullptr);
  }

  void on_end(Choice& choice, const std::string& rest) override {
    if (!streams()) return;
    write_prompt(choice);
    if (!rest.empty()) write_chunk(choice, rest, nullptr);
    write_chunk(choice, "", &choice);
  }

  void on_all_ended() override { out() += "data: [DONE]\n\n"; }

  std::string whole_answer() override {
    std::string answer;
    JsonWriter writer(answer);
    writer.begin_object().key("choices").begin_array();
    uint32_t index = 0;
    for (const Choice* choice : best_choices()) write_choice(writer, *choice, index++);
    writer.end_array();
    Usage usage;
    for (const Choice& choice : choices()) {
      const SequenceEnd& end = *choice.end;
      if (&choice == &first_of(choice)) {
        usage.n_prompt += end.n_prompt;
        usage.n_cached += end.n_cached;
      }
      usage.n_generated += end.n_generated;
    }
    head_.write(writer, "text_completion", &usage);
    writer.key("timings");
    write_timings(writer, timings_of(*choices().front().end));
    write_trace(writer, *choices().front().end);
    write_verbose(writer, *best_choices().front());
    writer.end_object();
    return answer;
  }

  void write_choice(JsonWriter& writer, const Choice& choice, uint32_t index) {
    const PromptText* prompt = own_.echoes ? &prompt_of(choice) : nullptr;
    writer.begin_object();
    writer.member("text", prompt == nullptr ? choice.text : prompt->text + choice.text).member("index", index);
    write_logprobs(writer, choice, prompt);
    if (own_.n_prompt_logprobs >= 0)
      write_prompt_logprobs(writer.key("prompt_logprobs"), prompt_of(choice), first_of(choice).prompt_scores,
                            static_cast<size_t>(own_.n_prompt_logprobs), model().tokenizer());
    writer.member("finish_reason", finish_reason_of(choice.end->reason)).end_object();
  }

  // The choices of each prompt, the most probable first where only some are wanted.
  std::vector<const Choice*> best_choices() {
    std::vector<const Choice*> best;
    const auto n_choices = static_cast<size_t>(fields().n_choices), n_answers = static_cast<size_t>(own_.n_answers);
    for (size_t first = 0; first < choices().size(); first += n_choices) {
      std::vector<const Choice*> of_prompt;
      for (const Choice& choice : std::span(choices()).subspan(first, n_choices)) of_prompt.push_back(&choice);
      if (n_answers < n_choices) std::ranges::stable_sort(of_prompt, std::greater(), mean_logprob);
      best.insert(best.end(), of_prompt.begin(), of_prompt.begin() + own_.n_answers);
    }
    return best;
  }

  static double mean_logprob(const Choice* choice) {
    if (choice->probs.empty()) return -std::numeric_limits<double>::infinity();
    double sum = 0;
    for (const TokenProbs& one : choice->probs) sum += static_cast<double>(one.chosen.value);
    return sum / static_cast<double>(choice->probs.size());
  }

  // --- streams

  // The prompt goes first, once its scores are there: those of the first choice count for all. A deadline may end the
  // sequence before.
  void write_prompt(Choice& choice) {
    if (!streams() || !own_.echoes) return;
    has_prompt_.resize(choices().size());
    const bool waits = own_.n_logprobs >= 0 && choice.end == nullptr &&
                       first_of(choice).prompt_scores.size() + 1 < prompt_of(choice).tokens.size();
    if (waits || has_prompt_[choice.index]) return;
    has_prompt_[choice.index] = true;
    JsonWriter writer = begin_chunk(prompt_of(choice).text, choice.index);
    write_logprobs(writer, choice, &prompt_of(choice));
    end_chunk(writer, nullptr);
  }

  // ended: for the last chunk of a choice.
  void write_chunk(Choice& choice, std::string_view text, const Choice* ended) {
    JsonWriter writer = begin_chunk(text, choice.index);
    write_logprobs(writer, choice, nullptr);
    choice.drop_settled_probs();
    end_chunk(writer, ended);
  }

  JsonWriter begin_chunk(std::string_view text, uint32_t index) {
    out() += "data: ";
    JsonWriter writer(out());
    writer.begin_object().key("choices").begin_array().begin_object();
    writer.member("text", text).member("index", index);
    return writer;
  }

  void end_chunk(JsonWriter& writer, const Choice* ended) {
    if (ended != nullptr) {
      writer.member("finish_reason", finish_reason_of(ended->end->reason));
    } else {
      writer.member("finish_reason", nullptr);
    }
    writer.end_object().end_array();
    if (ended != nullptr) {
      const SequenceEnd& end = *ended->end;
      const Usage usage{.n_prompt = end.n_prompt, .n_cached = end.n_cached, .n_generated = end.n_generated};
      head_.write(writer, "text_completion", &usage);
      writer.key("timings");
      write_timings(writer, timings_of(end));
      write_trace(writer, end);
      write_verbose(writer, *ended);
    } else {
      head_.write(writer, "text_completion");
    }
    writer.end_object();
    out() += "\n\n";
  }

  void write_verbose(JsonWriter& writer, const Choice& choice) {
    if (verbose_) write_verbose_object(writer, model(), fields(), choice, *verbose_);
  }

  // --- log-probabilities

  // The prompt, if it is shown, goes before the settled tokens.
  void write_logprobs(JsonWriter& writer, const Choice& choice, const PromptText* prompt) {
    writer.key("logprobs");
    if (own_.n_logprobs < 0) {
      writer.value(nullptr);
      return;
    }
    std::vector<ShownToken> tokens;
    const std::vector<TokenProbs>& scores = first_of(choice).prompt_scores;
    for (size_t i = 0; prompt != nullptr && i < prompt->tokens.size(); ++i) {
      const bool is_scored = i > 0 && i <= scores.size();
      tokens.push_back({prompt->tokens[i], prompt->offsets[i], is_scored ? &scores[i - 1] : nullptr});
    }
    for (const TokenProbs& one : choice.settled_probs())
      tokens.push_back({one.chosen.id, offsets_of(choice).add(one.chosen.id), &one});
    write_completion_logprobs(writer, tokens, static_cast<size_t>(own_.n_logprobs), model().tokenizer());
  }

  TextOffsets& offsets_of(const Choice& choice) {
    if (offsets_.empty())
      for (const Choice& each : choices())
        offsets_.emplace_back(model().tokenizer(), context().options().renders_special,
                              own_.echoes ? prompt_of(each).n_code_points : 0);
    return offsets_[choice.index];
  }

  // Of the choices of a prompt, the first is the one whose prompt is scored.
  size_t prompt_index(const Choice& choice) const { return choice.index / static_cast<size_t>(fields().n_choices); }
  const PromptText& prompt_of(const Choice& choice) const { return prompts_[prompt_index(choice)]; }
  const Choice& first_of(const Choice& choice) {
    return choices()[prompt_index(choice) * static_cast<size_t>(fields().n_choices)];
  }

  OpenAiHead head_;
  CompletionFields own_;
  std::vector<PromptText> prompts_;
  std::vector<TextOffsets> offsets_;  // by choice
  std::optional<NativeFacts> verbose_;
  std::vector<bool> has_prompt_;  // by choice, in a stream: it is written
};

FieldResult<CompletionFields> read_completion_fields(const FieldReader& body, const ApiContext& context,
                                                     const GenerationFields& fields) {
  constexpr int64_t kMostBest = 20;
  CompletionFields own{.n_answers = fields.n_choices, .n_best = fields.n_choices};
  const auto echoes = body.boolean("echo");
  if (!echoes) return std::unexpected(echoes.error());
  own.echoes = echoes->value_or(false);
  const auto n_logprobs = body.integer("logprobs", 0, context.options().max_logprobs);
  if (!n_logprobs) return std::unexpected(n_logprobs.error());
  own.n_logprobs = static_cast<int32_t>(n_logprobs->value_or(-1));
  const auto n_prompt = body.integer("prompt_logprobs", 0, context.options().max_logprobs);
  if (!n_prompt) return std::unexpected(n_prompt.error());
  own.n_prompt_logprobs = static_cast<int32_t>(n_prompt->value_or(-1));
  if (*n_prompt && fields.stream) return refuse_field(body.path_of("prompt_logprobs"), "not with a stream");
  const auto best = body.integer("best_of", 1, std::min<int64_t>(kMostBest, context.options().max_choices));
  if (!best) return std::unexpected(best.error());
  if (!*best) return own;
  if (**best < fields.n_choices)
    return refuse_field(body.path_of("best_of"),
                        fmt::format("value {}, want at least n = {}", **best, fields.n_choices));
  if (fields.stream) return refuse_field(body.path_of("best_of"), "not with a stream");
  own.n_best = static_cast<int32_t>(**best);
  return own;
}

// The tokens of the prompts. With a suffix, the prompt is the text before the gap.
FieldResult<std::vector<std::vector<int32_t>>> completion_prompts(const ServedModel& model, const Json& prompt,
                                                                  std::string_view suffix,
                                                                  const GenerationFields& fields) {
  std::vector<std::vector<int32_t>> tokenized;
  if (!suffix.empty()) {
    if (!can_infill(model))
      return refuse_field({.name = "suffix"}, "not supported: the model's vocabulary has no marks for it");
    const auto prefix = read_text(prompt, {.name = "prompt"});
    if (!prefix) return std::unexpected(prefix.error());
    auto tokens = infill_tokens(model, {.prefix = *prefix, .suffix = suffix, .n_predict = fields.n_predict});
    if (!tokens) return forward_error(tokens);
    tokenized.push_back(std::move(*tokens));
    return tokenized;
  }
  auto prompts = read_prompts(prompt, "prompt", {.max_prompts = kMaxPrompts, .n_vocab = model.facts().n_vocab});
  if (!prompts) return forward_error(prompts);
  for (const PromptParts& parts : *prompts) {
    auto tokens = tokenize_prompt(parts, model.tokenizer(), "prompt");
    if (!tokens) return forward_error(tokens);
    tokenized.push_back(std::move(*tokens));
  }
  return tokenized;
}

// The prompts as answers show them. None if they do not.
FieldResult<std::vector<PromptText>> shown_prompts(const ApiContext& context, const ServedModel& model,
                                                   std::span<const std::vector<int32_t>> prompts,
                                                   const CompletionFields& own) {
  std::vector<PromptText> shown;
  if (!own.echoes && own.n_prompt_logprobs < 0) return shown;
  for (const std::vector<int32_t>& tokens : prompts) {
    auto text = prompt_text(model.tokenizer(), tokens, context.options().renders_special);
    if (!text) return std::unexpected(field_error_of(text.error(), "prompt"));
    shown.push_back(std::move(*text));
  }
  return shown;
}

// Choices are compared by the log-probabilities of their tokens.
GenerationPlan completion_plan(std::vector<std::vector<int32_t>> prompts, const GenerationFields& fields,
                               const CompletionFields& own) {
  GenerationPlan plan{.prompts = std::move(prompts), .fields = fields};
  plan.n_probs = own.n_answers < own.n_best ? std::max(own.n_logprobs, 0) : own.n_logprobs;
  plan.n_prompt_probs = std::max(own.n_prompt_logprobs, own.echoes ? own.n_logprobs : -1);
  return plan;
}

}  // namespace

FieldResult<> start_openai_completion(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange) {
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  constexpr std::string_view kOwn[] = {"prompt", "logprobs", "prompt_logprobs", "echo", "suffix", "best_of", "user"};
  const GenerationLimits limits = generation_limits(context, model, exchange->request().client);
  auto read = read_generation_fields(reader->json(), context.defaults_of(model), limits, kOwn);
  if (!read) return forward_error(read);
  const auto own = read_completion_fields(*reader, context, read->fields);
  if (!own) return std::unexpected(own.error());
  const Json* prompt = reader->find("prompt");
  if (prompt == nullptr) return refuse_field(reader->path_of("prompt"), "missing");
  const auto suffix = reader->text("suffix");
  if (!suffix) return std::unexpected(suffix.error());
  if (own->echoes && !suffix->value_or("").empty())
    return refuse_field(reader->path_of("echo"), "cannot be combined with a suffix");
  auto tokenized = completion_prompts(model, *prompt, suffix->value_or(""), read->fields);
  if (!tokenized) return forward_error(tokenized);
  auto shown = shown_prompts(context, model, *tokenized, *own);
  if (!shown) return forward_error(shown);
  draw_seed(read->fields);
  read->fields.n_choices = own->n_best;
  std::optional<NativeFacts> verbose;
  if (read->fields.verbose) {
    auto texts = shown_texts(model, *tokenized);
    if (!texts) return forward_error(texts);
    verbose = native_facts(model, read->fields, std::move(*texts));
  }
  auto sequences = make_sequences(context, model, completion_plan(std::move(*tokenized), read->fields, *own));
  if (!sequences) return forward_error(sequences);
  TaskSpec task = make_task(context, *exchange, read->fields);
  task.sequences = std::move(*sequences);
  const auto generation = std::make_shared<OpenAiCompletion>(context, model, exchange, std::move(read->fields), *own,
                                                             std::move(*shown), std::move(verbose));
  generation->set_ignored_fields(std::move(read->ignored));
  return generation->start(std::move(task));
}

}  // namespace tessera::server
