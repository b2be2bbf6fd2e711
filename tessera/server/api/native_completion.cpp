#include "tessera/server/api/native_completion.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/native_object.h"
#include "tessera/server/api/token_probs.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/prompt.h"

namespace tessera::server {

namespace {

class NativeGeneration final : public Generation {
 public:
  NativeGeneration(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, GenerationFields fields,
                   NativeFacts facts)
      : Generation(context, model, std::move(exchange), std::move(fields)), facts_(std::move(facts)) {
    collects_tokens_ = this->fields().return_tokens;
  }

 private:
  void on_started(Choice& choice) override {
    if (streams() && fields().return_progress) write_progress(choice, choice.n_cached, 0);
  }

  void on_progress(Choice& choice, const TaskEvent& event) override {
    if (streams()) write_progress(choice, event.n_done, event.prompt_ms);
  }

  void write_progress(const Choice& choice, int64_t n_done, double ms) {
    JsonWriter writer = begin_event(choice, "", {});
    writer.key("prompt_progress").begin_object();
    writer.member("total", choice.n_prompt).member("cache", choice.n_cached);
    writer.member("processed", n_done).member("time_ms", ms).end_object();
    end_event(writer);
  }

  void on_token(Choice& choice, const TaskEvent& event) override {
    if (!streams()) return;
    JsonWriter writer = begin_event(choice, event.text, std::span(&event.token, 1));
    if (fields().timings_per_token) {
      writer.key("timings");
      write_timings(writer, {.n_cached = choice.n_cached,
                             .n_prompt = choice.n_prompt - choice.n_cached,
                             .n_generated = choice.n_generated,
                             .prompt_ms = event.prompt_ms,
                             .generation_ms = event.generation_ms});
    }
    if (choice.n_settled_probs > 0) {
      writer.key("completion_probabilities");
      write_probs(writer, choice);
      choice.drop_settled_probs();
    }
    end_event(writer);
  }

  void on_end(Choice& choice, const std::string& rest) override {
    if (!streams()) return;
    if (!rest.empty()) {
      JsonWriter writer = begin_event(choice, rest, {});
      end_event(writer);
    }
    out() += "data: ";
    out() += filtered(final_object(choice));
    out() += "\n\n";
  }

  std::string whole_answer() override {
    if (choices().size() == 1) return filtered(final_object(choices().front()));
    std::string answer = "[";
    for (Choice& choice : choices()) {
      if (answer.size() > 1) answer += ',';
      answer += filtered(final_object(choice));
    }
    return answer + "]";
  }

  JsonWriter begin_event(const Choice& choice, std::string_view text, std::span<const int32_t> tokens) {
    out() += "data: ";
    JsonWriter writer(out());
    writer.begin_object().member("index", choice.index).member("content", text);
    writer.key("tokens").begin_array();
    for (const int32_t token : tokens) writer.value(token);
    writer.end_array();
    writer.member("stop", false).member("id_slot", choice.slot);
    writer.member("tokens_predicted", choice.n_generated).member("tokens_evaluated", choice.n_prompt);
    return writer;
  }

  void end_event(JsonWriter& writer) {
    writer.end_object();
    out() += "\n\n";
  }

  void write_probs(JsonWriter& writer, const Choice& choice) {
    const auto form = fields().post_sampling_probs ? ProbsForm::after_samplers : ProbsForm::raw;
    writer.begin_array();
    for (const TokenProbs& one : choice.settled_probs()) write_token_probs(writer, one, model().tokenizer(), form);
    writer.end_array();
  }

  std::string final_object(Choice& choice) {
    std::string object;
    JsonWriter writer(object);
    writer.begin_object();
    write_native_members(writer, model(), fields(), choice, facts_);
    write_trace(writer, *choice.end);
    if (!choice.probs.empty()) {
      writer.key("completion_probabilities");
      write_probs(writer, choice);
    }
    writer.end_object();
    return object;
  }

  // Only the fields that the client asked for, under their paths.
  std::string filtered(std::string object) const {
    if (fields().response_fields.empty()) return object;
    const Json whole = Json::parse(object, nullptr, false);
    Json chosen = Json::object();
    for (const std::string& path : fields().response_fields) {
      const Json* place = &whole;
      for (size_t begin = 0; place != nullptr && begin <= path.size();) {
        const size_t end = std::min(path.find('/', begin), path.size());
        const auto found = place->is_object() ? place->find(path.substr(begin, end - begin)) : place->end();
        place = found == place->end() ? nullptr : &*found;
        begin = end + 1;
      }
      if (place != nullptr) chosen[path] = *place;
    }
    return json_text(chosen);
  }

  NativeFacts facts_;
};

}  // namespace

FieldResult<> start_native_completion(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange) {
  auto body = read_json_field(exchange->take_body());
  if (!body) return forward_error(body);
  constexpr std::string_view kOwn[] = {"prompt"};
  const GenerationLimits limits = generation_limits(context, model, exchange->request().client);
  auto read = read_generation_fields(*body, context.defaults_of(model), limits, kOwn);
  if (!read) return forward_error(read);
  const auto prompt = body->find("prompt");
  if (prompt == body->end() || prompt->is_null())
    return std::unexpected(FieldError{.message = "Field 'prompt': missing", .param = "prompt"});
  auto prompts = read_prompts(*prompt, "prompt", {.max_prompts = kMaxPrompts, .n_vocab = model.facts().n_vocab});
  if (!prompts) return forward_error(prompts);
  std::vector<std::vector<int32_t>> tokenized;
  for (const PromptParts& parts : *prompts) {
    auto tokens = tokenize_prompt(parts, model.tokenizer(), "prompt");
    if (!tokens) return forward_error(tokens);
    tokenized.push_back(std::move(*tokens));
  }
  return start_native_prompts(context, model, exchange, std::move(*read), std::move(tokenized));
}

FieldResult<> start_native_prompts(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                                   ReadGenerationFields read, std::vector<std::vector<int32_t>> prompts) {
  GenerationFields fields = std::move(read.fields);
  auto texts = shown_texts(model, prompts);
  if (!texts) return forward_error(texts);
  draw_seed(fields);
  GenerationPlan plan{.prompts = std::move(prompts), .fields = {}};
  plan.fields = fields;
  plan.n_probs = fields.n_probs > 0 ? fields.n_probs : -1;
  auto sequences = make_sequences(context, model, std::move(plan));
  if (!sequences) return forward_error(sequences);
  NativeFacts facts = native_facts(model, fields, std::move(*texts));
  TaskSpec task = make_task(context, *exchange, fields);
  task.sequences = std::move(*sequences);
  const auto generation =
      std::make_shared<NativeGeneration>(context, model, exchange, std::move(fields), std::move(facts));
  generation->set_ignored_fields(std::move(read.ignored));
  return generation->start(std::move(task));
}

}  // namespace tessera::server
