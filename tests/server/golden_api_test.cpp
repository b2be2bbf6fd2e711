// The JSON answers of every route for a fixed model and seed, compared with the files of tests/server/golden. Times and
// random ids are masked. TESSERA_UPDATE_GOLDEN=1 writes the files anew: review each change by eye.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/server/api_support.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// A template with tools and reasoning, short enough for the file of GET /props.
constexpr const char* kGoldenTemplate =
    "{% if tools %}{{ tools|tojson }}{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content or '' }}{% for call in message.tool_calls %}<tool_call>\n{{ call.function|tojson }}\n"
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

bool updates() {
  const char* update = std::getenv("TESSERA_UPDATE_GOLDEN");
  return update != nullptr && std::string_view(update) == "1";
}

// --- masks

bool is_time(std::string_view key) {
  static const std::set<std::string_view> kTimes = {
      "created",      "created_at", "completed_at", "modified_at", "expires_at", "time_ms",     "prompt_ms",
      "predicted_ms", "queue_ms",   "ttft_ms",      "save_ms",     "restore_ms", "created_date"};
  return kTimes.contains(key) || key.ends_with("_per_second") || key.ends_with("_per_token_ms") ||
         key.ends_with("_duration");
}

// A random id keeps its prefix: "chatcmpl-*".
std::string masked_id(std::string text) {
  for (const char* prefix : {"chatcmpl-", "cmpl-", "resp_", "msg_", "rs_", "fc_", "call_", "toolu_"})
    if (text.starts_with(prefix)) return std::string(prefix) + "*";
  return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Two digits after the point: instruction sets differ in later ones.
double rounded(double value) { return std::round(value * 100) / 100 + 0.0; }

struct Masks {
  std::vector<std::pair<std::string, std::string>> texts{};  // paths of this machine

  void apply(ordered_json& value, const std::string& key = "") const {
    if (value.is_structured()) {
      // The id of a tool call has no prefix.
      if (value.is_object() && value.contains("function") && value.contains("id")) value["id"] = "<id>";
      if (value.is_object())
        for (auto& [name, member] : value.items()) apply(member, name);
      else
        for (ordered_json& element : value) apply(element, key);
    } else if (is_time(key) && value.is_number()) {
      value = "<number>";
    } else if (is_time(key) && value.is_string()) {
      value = "<time>";
    } else if (value.is_number_float() && key != "temperature" && key != "top_p" && !key.ends_with("_p")) {
      value = rounded(value);
    } else if (value.is_string()) {
      std::string text = value.get<std::string>();
      for (const auto& [from, to] : texts) replace_all(text, from, to);
      value = masked_id(std::move(text));
    }
  }
};

// JSON with a line for each member; a list without objects is one line.
void print(std::string& out, const ordered_json& value, size_t depth) {
  const auto is_flat = [](const ordered_json& list) {
    return list.is_array() && std::ranges::none_of(list, [](const auto& one) { return one.is_structured(); });
  };
  if (!value.is_structured() || value.empty() || is_flat(value)) {
    out += value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    return;
  }
  const std::string indent(2 * depth + 2, ' ');
  out += value.is_array() ? "[" : "{";
  std::string separator = "\n";
  for (const auto& [name, member] : value.items()) {
    out += separator + indent;
    if (value.is_object()) out += ordered_json(name).dump() + ": ";
    print(out, member, depth + 1);
    separator = ",\n";
  }
  out += "\n" + std::string(2 * depth, ' ') + (value.is_array() ? "]" : "}");
}

// --- the test

class GoldenApi : public ApiTest {
 protected:
  static std::string folder() { return source_dir() + "/tests/server/golden"; }

  void start_golden() {
    lora_ = write_lora(story_model(), "golden_lora.gguf", 2, 4, 3);
    slots_ = temporary_path("golden_slots");
    fs::create_directory(slots_);
    ApiSetup setup{.adapters = {.loras = {{lora_, 0.0f}}, .control_vectors = {}},
                   .n_slots = 2,
                   .n_ctx = 1024,
                   .embeddings = EmbeddingUse{.pooling = nn::Pooling::mean}};
    setup.options.api.has_props = true;
    setup.options.storage.slot_directory = slots_;
    setup.served.chat_template = kGoldenTemplate;
    setup.served.aliases = {"story"};
    start(std::move(setup));
    masks_.texts = {{lora_, "LORA"}, {story_model(), "MODEL"}};
  }

  /// Sends a request and compares it and its answer with the file NAME.json.
  Answer expect(const std::string& name, const std::string& method, const std::string& path,
                const ordered_json& body = nullptr, const std::string& fields = "") {
    HttpClient client = connect();
    const std::string text = body.is_null() ? "" : body.is_string() ? body.get<std::string>() : body.dump();
    std::string head = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: golden\r\n" + fields;
    if (!text.empty() || method == "POST") head += fmt::format("Content-Length: {}\r\n", text.size());
    EXPECT_TRUE(client.send(head + "\r\n" + text));
    const Answer answer = read(client);
    ordered_json record{{"request", method + " " + path}};
    if (!body.is_null()) record["body"] = body;
    record["status"] = answer.status;
    record["answer"] = content_of(answer.reply);
    for (const char* key : {"body", "answer"})
      if (record.contains(key)) masks_.apply(record[key]);
    compare(name, record);
    return answer;
  }

  /// JSON, the events of a stream, its lines, or text.
  static ordered_json content_of(const HttpReply& reply) {
    const std::string type(reply.field("content-type"));
    if (type.starts_with("text/event-stream")) return events_with_names(reply.body);
    if (type != "application/x-ndjson") {
      ordered_json json = ordered_json::parse(reply.body, nullptr, false);
      return json.is_discarded() ? ordered_json(reply.body) : json;
    }
    ordered_json lines = ordered_json::array();
    for (size_t begin = 0, end; (end = reply.body.find('\n', begin)) != std::string::npos; begin = end + 1)
      lines.push_back(ordered_json::parse(reply.body.substr(begin, end - begin), nullptr, false));
    return lines;
  }
  static ordered_json events_with_names(const std::string& text) {
    ordered_json events = ordered_json::array();
    for (size_t begin = 0, end; (end = text.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
      std::string event = text.substr(begin, end - begin), name;
      if (event.starts_with("event: ")) {
        name = event.substr(7, event.find('\n') - 7);
        event.erase(0, event.find('\n') + 1);
      }
      if (!event.starts_with("data: ")) continue;  // a comment
      ordered_json data = ordered_json::parse(event.substr(6), nullptr, false);
      if (data.is_discarded()) data = event.substr(6);
      events.push_back(name.empty() ? data : ordered_json{{"event", name}, {"data", data}});
    }
    return events;
  }

  void compare(const std::string& name, const ordered_json& record) {
    EXPECT_TRUE(names_.insert(name).second) << name;
    std::string text;
    print(text, record, 0);
    text += '\n';
    const std::string path = folder() + "/" + name + ".json";
    if (updates()) {
      fs::create_directories(folder());
      std::ofstream(path, std::ios::trunc) << text;
    }
    if (!fs::exists(path)) {
      ADD_FAILURE() << path << " is missing: TESSERA_UPDATE_GOLDEN=1 writes it";
      return;
    }
    EXPECT_EQ(text, read_all(path)) << name;
  }

  /// Every file belongs to a request.
  void expect_all_used() const {
    std::set<std::string> files;
    for (const auto& file : fs::directory_iterator(folder())) files.insert(file.path().stem().string());
    EXPECT_EQ(files, names_);
  }

  std::string lora_, slots_;
  Masks masks_;
  std::set<std::string> names_;
};

ordered_json with(ordered_json body, const ordered_json& more) {
  body.update(more);
  return body;
}

TEST_F(GoldenApi, EveryRouteAnswersAsBefore) {
  start_golden();
  const ordered_json messages = ordered_json::parse(R"([{"role":"user","content":"Tell me a story"}])");
  const ordered_json tools = ordered_json::parse(
      R"([{"type":"function","function":{"name":"look","description":"Looks","parameters":{"type":"object",
          "properties":{"what":{"enum":["cat"]}},"required":["what"],"additionalProperties":false}}}])");
  const ordered_json greedy{{"temperature", 0}, {"seed", 7}}, streams{{"stream", true}};

  // llama-server: state
  expect("health", "GET", "/health");
  expect("props", "GET", "/props");
  expect("props_change", "POST", "/props", ordered_json::object());
  expect("slots_unused", "GET", "/slots");
  expect("lora_adapters", "GET", "/lora-adapters");
  expect("lora_adapters_change", "POST", "/lora-adapters", ordered_json::parse(R"([{"id":0,"scale":0}])"));
  expect("tokenizer_info", "GET", "/tokenizer_info");
  expect("models", "GET", "/v1/models");
  expect("models_one", "GET", "/v1/models/story");
  expect("models_anthropic", "GET", "/v1/models", nullptr, "anthropic-version: 2023-06-01\r\n");

  // llama-server: texts
  const ordered_json completion = with({{"prompt", "Once upon a time"}, {"n_predict", 4}, {"id_slot", 0}}, greedy);
  expect("completion", "POST", "/completion", completion);
  expect("slots_used", "GET", "/slots");
  expect("completion_stream", "POST", "/completion",
         with(with(completion, streams), {{"return_progress", true}, {"timings_per_token", true}}));
  expect("completion_probs", "POST", "/completion", with(completion, {{"n_probs", 2}, {"n_predict", 2}}));
  expect("completion_probs_after", "POST", "/completion",
         with(completion, {{"n_probs", 2}, {"n_predict", 1}, {"post_sampling_probs", true}}));
  expect("completion_list", "POST", "/completion",
         with(completion, {{"prompt", {"A cat", ordered_json::array({1, 2})}},
                           {"n_predict", 1},
                           {"return_tokens", true},
                           {"id_slot", -1},
                           {"cache_prompt", false}}));
  expect("completion_fields", "POST", "/completion",
         with(completion, {{"response_fields", {"content", "generation_settings/n_predict"}}}));
  expect("completion_lora", "POST", "/completion",
         with(completion, {{"lora", ordered_json::parse(R"([{"id":0,"scale":1}])")},
                           {"response_fields", {"content", "generation_settings/lora"}}}));
  expect("tokenize", "POST", "/tokenize", {{"content", "The cat"}, {"add_special", true}});
  expect("tokenize_pieces", "POST", "/tokenize", {{"content", "The cat"}, {"with_pieces", true}});
  expect("detokenize", "POST", "/detokenize", {{"tokens", {1, 403, 407}}});
  expect("apply_template", "POST", "/apply-template", {{"messages", messages}});
  expect("embedding", "POST", "/embedding", {{"content", "a cat"}});
  expect("slots_save", "POST", "/slots/0?action=save", {{"filename", "a"}});
  expect("slots_restore", "POST", "/slots/1?action=restore", {{"filename", "a"}});
  expect("slots_erase", "POST", "/slots/1?action=erase");
  expect("cache_clear", "POST", "/cache?action=clear");

  // OpenAI
  const ordered_json text = with({{"model", "story"}, {"prompt", "Once upon"}, {"max_tokens", 3}}, greedy);
  expect("openai_completion", "POST", "/v1/completions", text);
  expect("openai_completion_stream", "POST", "/v1/completions", with(text, streams));
  expect("openai_completion_echo", "POST", "/v1/completions", with(text, {{"echo", true}, {"logprobs", 1}}));
  const ordered_json chat = with({{"model", "story"}, {"messages", messages}, {"max_tokens", 3}}, greedy);
  expect("openai_chat", "POST", "/v1/chat/completions", chat);
  expect("openai_chat_stream", "POST", "/v1/chat/completions",
         with(with(chat, streams), {{"stream_options", {{"include_usage", true}}}}));
  expect("openai_chat_logprobs", "POST", "/v1/chat/completions",
         with(chat, {{"logprobs", true}, {"top_logprobs", 1}, {"max_tokens", 2}}));
  const ordered_json call =
      with(chat, {{"tools", tools}, {"tool_choice", "required"}, {"parallel_tool_calls", false}, {"max_tokens", 160}});
  expect("openai_chat_tools", "POST", "/v1/chat/completions", call);
  expect("openai_chat_tools_stream", "POST", "/v1/chat/completions", with(call, streams));
  expect("openai_chat_control", "POST", "/v1/chat/completions/control", {{"id", "none"}, {"action", "reasoning_end"}});
  expect("openai_chat_input_tokens", "POST", "/v1/chat/completions/input_tokens", {{"messages", messages}});
  const ordered_json response = with({{"model", "story"}, {"input", "Tell me"}, {"max_output_tokens", 3}}, greedy);
  const Answer stored = expect("openai_response", "POST", "/v1/responses", response);
  expect("openai_response_stream", "POST", "/v1/responses", with(response, streams));
  expect("openai_response_input_tokens", "POST", "/v1/responses/input_tokens", {{"input", "Tell me"}});
  const std::string id = stored.json["id"];
  masks_.texts.emplace_back(id, "resp_*");
  EXPECT_EQ(get("/v1/responses/" + id).json, stored.json);
  expect("openai_embeddings", "POST", "/v1/embeddings", {{"input", {"a cat", "a dog"}}, {"dimensions", 4}});
  expect("openai_embeddings_base64", "POST", "/v1/embeddings",
         {{"input", ""}, {"encoding_format", "base64"}, {"dimensions", 1}});

  // Anthropic
  const ordered_json message = with({{"model", "story"}, {"messages", messages}, {"max_tokens", 3}}, greedy);
  expect("anthropic_message", "POST", "/v1/messages", message);
  expect("anthropic_message_stream", "POST", "/v1/messages", with(message, streams));
  const ordered_json anthropic_tools = {{{"name", "look"}, {"input_schema", tools[0]["function"]["parameters"]}}};
  expect("anthropic_message_tools", "POST", "/v1/messages",
         with(message, {{"tools", anthropic_tools},
                        {"tool_choice", {{"type", "any"}, {"disable_parallel_tool_use", true}}},
                        {"max_tokens", 160}}));
  expect("anthropic_count_tokens", "POST", "/v1/messages/count_tokens", {{"messages", messages}});

  // Ollama
  const ordered_json options{{"options", with({{"num_predict", 3}}, greedy)}, {"model", "story"}};
  expect("ollama_generate", "POST", "/api/generate", with(options, {{"prompt", "A cat"}, {"stream", false}}));
  expect("ollama_generate_stream", "POST", "/api/generate", with(options, {{"prompt", "A cat"}}));
  expect("ollama_generate_load", "POST", "/api/generate", {{"model", "story"}});
  expect("ollama_chat", "POST", "/api/chat", with(options, {{"messages", messages}, {"stream", false}}));
  expect("ollama_chat_stream", "POST", "/api/chat", with(options, {{"messages", messages}}));
  expect("ollama_embed", "POST", "/api/embed", {{"model", "story"}, {"input", "a cat"}, {"dimensions", 4}});
  expect("ollama_embeddings", "POST", "/api/embeddings", {{"model", "story"}, {"prompt", "a cat"}});
  expect("ollama_tags", "GET", "/api/tags");
  expect("ollama_ps", "GET", "/api/ps");
  expect("ollama_show", "POST", "/api/show", {{"model", "story"}});
  expect("ollama_version", "GET", "/api/version");
  expect("ollama_pull", "POST", "/api/pull", {{"model", "story"}});

  // Refusals
  expect("error_field", "POST", "/completion", {{"prompt", "a"}, {"top_p", 1.5}});
  expect("error_field_openai", "POST", "/v1/chat/completions", {{"messages", 5}});
  expect("error_field_anthropic", "POST", "/v1/messages", {{"messages", messages}, {"max_tokens", "x"}});
  expect("error_field_ollama", "POST", "/api/chat", {{"model", "story"}, {"messages", 5}});
  expect("error_json", "POST", "/completion", "{:");
  expect("error_context", "POST", "/completion", {{"prompt", ordered_json(std::vector<int>(1024, 5))}});
  expect("error_infill", "POST", "/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}});
  expect("error_rerank", "POST", "/rerank", {{"query", "a"}, {"documents", {"b"}}});
  expect("error_metrics", "GET", "/metrics");
  expect("error_path", "GET", "/no/such/path");
  expect("error_path_anthropic", "GET", "/v1/messages/none");
  expect("error_path_ollama", "GET", "/api/none");
  expect("error_method", "GET", "/completion");
  expect("error_tools", "POST", "/tools", ordered_json::object());
  expect("error_model_ollama", "POST", "/api/show", {{"model", "other"}});
  expect("error_response", "GET", "/v1/responses/resp_none");
  expect("error_copy_ollama", "POST", "/api/copy", {{"source", "story"}, {"destination", "b"}});
  expect_all_used();
}

}  // namespace
}  // namespace tessera
