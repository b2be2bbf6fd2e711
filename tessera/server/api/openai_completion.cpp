#include "tessera/server/api/openai_completion.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/generation.h"
#include "tessera/server/api/infill.h"
#include "tessera/server/api/openai_format.h"
#include "tessera/server/api/token_probs.h"
#include "tessera/server/json/prompt.h"
#include "tessera/server/json/reader.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

size_t n_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

class OpenAiCompletion final : public Generation {
 public:
  OpenAiCompletion(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, GenerationFields fields,
                   bool has_logprobs)
      : Generation(context, model, std::move(exchange), std::move(fields)),
        head_{.id = new_id("cmpl-"), .model = model.facts().id, .fingerprint = context.options().build_info},
        has_logprobs_(has_logprobs) {}

 private:
  void on_token(Choice& choice, const TaskEvent& event) override {
    if (streams() && !event.text.empty()) write_chunk(choice, event.text, nullptr);
  }

  void on_end(Choice& choice, const std::string& rest) override {
    if (!streams()) return;
    if (!rest.empty()) write_chunk(choice, rest, nullptr);
    write_chunk(choice, "", &choice);
  }

  void on_all_ended() override { out() += "data: [DONE]\n\n"; }

  std::string whole_answer() override {
    std::string answer;
    JsonWriter writer(answer);
    writer.begin_object().key("choices").begin_array();
    for (Choice& choice : choices()) {
      writer.begin_object().member("text", choice.text).member("index", choice.index);
      write_logprobs(writer, choice);
      writer.member("finish_reason", finish_reason(choice)).end_object();
    }
    writer.end_array();
    head_.write(writer, "text_completion");
    Usage usage;
    for (size_t i = 0; i < choices().size(); ++i) {
      const SequenceEnd& end = *choices()[i].end;
      if (i % static_cast<size_t>(fields().n_choices) == 0) {
        usage.n_prompt += end.n_prompt;
        usage.n_cached += end.n_cached;
      }
      usage.n_generated += end.n_generated;
    }
    write_usage(writer.key("usage"), usage);
    writer.key("timings");
    write_timings(writer, timings_of(*choices().front().end));
    writer.end_object();
    return answer;
  }

  // ended: for the last chunk of a choice.
  void write_chunk(Choice& choice, std::string_view text, const Choice* ended) {
    out() += "data: ";
    JsonWriter writer(out());
    writer.begin_object().key("choices").begin_array().begin_object();
    writer.member("text", text).member("index", choice.index);
    write_logprobs(writer, choice);
    choice.drop_settled_probs();
    if (ended != nullptr) {
      writer.member("finish_reason", finish_reason(choice));
    } else {
      writer.member("finish_reason", nullptr);
    }
    writer.end_object().end_array();
    head_.write(writer, "text_completion");
    if (ended != nullptr) {
      const SequenceEnd& end = *choice.end;
      write_usage(writer.key("usage"),
                  {.n_prompt = end.n_prompt, .n_cached = end.n_cached, .n_generated = end.n_generated});
      writer.key("timings");
      write_timings(writer, timings_of(end));
    }
    writer.end_object();
    out() += "\n\n";
  }

  // The old form of parallel lists, and the one of chat completions beside it.
  void write_logprobs(JsonWriter& writer, const Choice& choice) {
    writer.key("logprobs");
    if (!has_logprobs_) {
      writer.value(nullptr);
      return;
    }
    const auto probs = choice.settled_probs();
    const auto text_of = [&](int32_t id) { return text::to_valid_utf8(token_bytes(model().tokenizer(), id)); };
    writer.begin_object().key("tokens").begin_array();
    for (const TokenProbs& one : probs) writer.value(text_of(one.chosen.id));
    writer.end_array().key("token_logprobs").begin_array();
    for (const TokenProbs& one : probs) writer.logprob(static_cast<double>(one.chosen.value));
    writer.end_array().key("top_logprobs").begin_array();
    for (const TokenProbs& one : probs) {
      writer.begin_object();
      for (const TokenProb& top : one.top) writer.key(text_of(top.id)).logprob(static_cast<double>(top.value));
      writer.end_object();
    }
    writer.end_array().key("text_offset").begin_array();
    offsets_.resize(choices().size());
    for (const TokenProbs& one : probs) {
      writer.value(offsets_[choice.index]);
      offsets_[choice.index] += n_code_points(text_of(one.chosen.id));
    }
    writer.end_array().key("content").begin_array();
    for (const TokenProbs& one : probs) write_token_probs(writer, one, model().tokenizer(), ProbsForm::raw);
    writer.end_array().end_object();
  }

  static const char* finish_reason(const Choice& choice) {
    const EndReason reason = choice.end->reason;
    return reason == EndReason::eos || reason == EndReason::stop_word ? "stop" : "length";
  }

  OpenAiHead head_;
  bool has_logprobs_;
  std::vector<size_t> offsets_;  // in code points, by choice: where the next token's text begins
};

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

}  // namespace

FieldResult<> start_openai_completion(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange) {
  auto body = read_json(exchange->take_body());
  if (!body) return forward_error(body);
  constexpr std::string_view kOwn[] = {"prompt", "logprobs", "echo", "suffix", "best_of", "user"};
  const GenerationLimits limits = generation_limits(context, model, exchange->request().client);
  auto read = read_generation_fields(*body, context.defaults_of(model), limits, kOwn);
  if (!read) return forward_error(read);
  auto reader = FieldReader::create(*body);
  if (!reader) return forward_error(reader);
  if (reader->find("best_of") != nullptr) return refuse_field(reader->path_of("best_of"), "not supported");
  const auto echo = reader->boolean("echo");
  if (!echo) return std::unexpected(echo.error());
  if (echo->value_or(false)) return refuse_field(reader->path_of("echo"), "not supported");
  const auto n_probs = reader->integer("logprobs", 0, context.options().max_logprobs);
  if (!n_probs) return std::unexpected(n_probs.error());
  const Json* prompt = reader->find("prompt");
  if (prompt == nullptr) return refuse_field(reader->path_of("prompt"), "missing");
  const auto suffix = reader->text("suffix");
  if (!suffix) return std::unexpected(suffix.error());
  auto tokenized = completion_prompts(model, *prompt, suffix->value_or(""), read->fields);
  if (!tokenized) return forward_error(tokenized);
  GenerationPlan plan;
  plan.prompts = std::move(*tokenized);
  draw_seed(read->fields);
  plan.fields = read->fields;
  plan.n_probs = *n_probs ? static_cast<int32_t>(**n_probs) : -1;
  const bool has_logprobs = plan.n_probs >= 0;
  auto sequences = make_sequences(context, model, std::move(plan));
  if (!sequences) return forward_error(sequences);
  TaskSpec task = make_task(context, *exchange, read->fields);
  task.sequences = std::move(*sequences);
  const auto generation =
      std::make_shared<OpenAiCompletion>(context, model, exchange, std::move(read->fields), has_logprobs);
  generation->set_ignored_fields(std::move(read->ignored));
  return generation->start(std::move(task));
}

}  // namespace tessera::server
