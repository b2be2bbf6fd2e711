// Requests that kill, hang or fool other servers. Each gets its answer beside a stream of another client, which goes
// on, and the next request works. Refusals of HTTP itself are in http_limits_test.cpp and http_head_test.cpp.
#include <gtest/gtest.h>

#include <functional>

#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;

std::string repeated(std::string_view text, size_t n) {
  std::string out;
  out.reserve(text.size() * n);
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

constexpr size_t kMostRefusalBytes = 4096;

struct HostileRequest {
  std::string name;
  std::string path;
  std::string body;
  std::vector<int> statuses;  // that are right
  std::string part{};         // of the message, of a refusal
};

std::string completion(const std::string& field, ordered_json value) {
  ordered_json body = {{"prompt", "a"}, {"n_predict", 2}};
  body[field] = std::move(value);
  return body.dump();
}

std::string chat(const std::string& field, ordered_json value) {
  ordered_json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 2}};
  body[field] = std::move(value);
  return body.dump();
}

ordered_json tool(const std::string& name) {
  return {{"type", "function"}, {"function", {{"name", name}, {"parameters", {{"type", "object"}}}}}};
}

// A completion that a deep value ends in, written as text: the writer of the tests recurses.
std::string with_raw(const std::string& field, const std::string& value) {
  return R"({"prompt":"a","n_predict":2,")" + field + "\":" + value + "}";
}

class HostileApi : public ApiTest {
 protected:
  void SetUp() override {
    ApiSetup setup{.n_ctx = 1 << 17};
    setup.options.http.limits.body_bytes = size_t{16} << 20;
    start(std::move(setup));
    stream_ = std::make_unique<HttpClient>(connect());
    ASSERT_TRUE(stream_->post("/completion", R"({"prompt":"a","n_predict":-1,"ignore_eos":true,"stream":true})"));
    head_ = stream_->read_head();
    ASSERT_EQ(head_.status, 200);
  }
  void TearDown() override {
    stream_.reset();
    wait_until_idle();
  }

  void send(const std::vector<HostileRequest>& requests) {
    for (const HostileRequest& request : requests) {
      const Answer answer = post(request.path, request.body);
      const bool is_right = std::ranges::find(request.statuses, answer.status) != request.statuses.end();
      EXPECT_TRUE(is_right) << request.name << ": " << answer.status << ' ' << answer.reply.body.substr(0, 300);
      EXPECT_NE(answer.reply.body.find(request.part), std::string::npos)
          << request.name << ": " << answer.reply.body.substr(0, 300);
      EXPECT_TRUE(answer.status == 200 || answer.reply.body.size() < kMostRefusalBytes) << request.name;
      // The stream goes on, and others are served.
      ASSERT_TRUE(stream_->read_piece(head_)) << request.name;
      ASSERT_EQ(post("/completion", R"({"prompt":"a","n_predict":1})").status, 200) << request.name;
    }
  }

  std::unique_ptr<HttpClient> stream_;
  HttpReply head_;
};

TEST_F(HostileApi, Grammars) {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 200'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  send({
      {"parentheses",
       "/completion",
       completion("grammar", "root ::= " + repeated("(", 60'000) + repeated(")", 60'000)),
       {400}},
      {"chain of rules", "/completion", completion("grammar", chain + "r200000 ::= \"a\"\n"), {200, 400}},
      {"empty repetition", "/completion", completion("grammar", "root ::= ([x]*)*"), {200, 400}},
      {"count", "/completion", completion("grammar", "root ::= \"a\"{1000000000}"), {200, 400}},
      {"nested counts",
       "/completion",
       completion("grammar", "root ::= (((\"a\"{0,99}){0,99}){0,99}){0,99}"),
       {200, 400}},
      {"left recursion", "/completion", completion("grammar", "root ::= root \"a\" | \"b\""), {200, 400}},
      {"undefined rule", "/completion", completion("grammar", "root ::= nothing"), {400}, "nothing"},
      {"bytes", "/completion", completion("grammar", std::string((1 << 20) + 1, ' ')), {400}},
  });
}

TEST_F(HostileApi, Schemas) {
  std::string deep = "true", many = "[";
  for (int i = 0; i < 2000; ++i) deep = R"({"items":)" + deep + "}";
  for (int i = 0; i < 100'000; ++i) many += "\"v" + std::to_string(i) + "\",";
  many.back() = ']';
  const auto with_pattern = [](const std::string& pattern) {
    return with_raw("json_schema", ordered_json{{"type", "string"}, {"pattern", pattern}}.dump());
  };
  send({
      {"deep", "/completion", with_raw("json_schema", deep), {400}},
      {"enum of 100k", "/completion", with_raw("json_schema", R"({"enum":)" + many + "}"), {200, 400}},
      {"pattern ^*$", "/completion", with_pattern("^*$"), {400}, "pattern"},
      {"look-behind", "/completion", with_pattern("^(?<=x)*$"), {400}, "pattern"},
      {"deep pattern", "/completion", with_pattern(repeated("(", 50'000) + repeated(")", 50'000)), {400}},
      {"minLength", "/completion", with_raw("json_schema", R"({"type":"string","minLength":1000000000})"), {200, 400}},
      {"cycle", "/completion", with_raw("json_schema", R"({"$ref":"#"})"), {400}},
      {"remote", "/completion", with_raw("json_schema", R"({"$ref":"http://127.0.0.1/x"})"), {400}, "$ref"},
      {"response_format", "/v1/chat/completions", chat("response_format", 5), {400}, "response_format"},
  });
}

TEST_F(HostileApi, Texts) {
  std::string emoji = repeated("\xF0\x9F\x91\xA9\xE2\x80\x8D", 20'000);
  send({
      {"newlines", "/tokenize", ordered_json{{"content", std::string(1'000'000, '\n')}}.dump(), {200}},
      {"letters", "/tokenize", ordered_json{{"content", std::string(2'000'000, 'a')}}.dump(), {200}},
      {"emoji", "/tokenize", ordered_json{{"content", emoji}}.dump(), {200}},
      {"long prompt", "/completion", completion("prompt", std::string(2'000'000, 'a')), {400}, "exceed"},
      {"negative token", "/detokenize", R"({"tokens":[-1]})", {400}, "tokens[0]"},
      {"large token", "/detokenize", R"({"tokens":[1099511627776]})", {400}, "tokens[0]"},
  });
}

TEST_F(HostileApi, Bodies) {
  std::vector<HostileRequest> requests;
  const std::pair<const char*, std::string> bodies[] = {
      {"colon", "{:"},
      {"null", "null"},
      {"list", "[]"},
      {"depth", repeated("[", 200'000)},
      {"closed depth", repeated("[", 200'000) + repeated("]", 200'000)},
      {"bad UTF-8", "{\"prompt\":\"\xFF\"}"},
      {"lone surrogate", R"({"prompt":"\ud800"})"},
      {"NaN", R"({"prompt":"a","temperature":NaN})"},
      {"1e999", R"({"prompt":"a","temperature":1e999})"},
      {"NUL", std::string("{\"prompt\":\"a\"}\0", 15)},
      {"two values", R"({"prompt":"a"}{})"},
      {"equal keys", R"({"prompt":"a","prompt":"b"})"},
  };
  for (const char* path : {"/completion", "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses",
                           "/api/chat", "/api/generate", "/tokenize", "/apply-template"})
    for (const auto& [name, body] : bodies) requests.push_back({std::string(path) + ' ' + name, path, body, {400}});
  send(requests);
  // No body is an empty one.
  for (const char* path : {"/completion", "/v1/chat/completions", "/v1/messages"})
    EXPECT_EQ(post(path, "").status, 400);
}

TEST_F(HostileApi, Messages) {
  const auto messages = [](const char* json) { return R"({"max_tokens":2,"messages":)" + std::string(json) + "}"; };
  std::vector<HostileRequest> requests;
  for (const char* json : {
           R"([{"role":5,"content":"a"}])",
           R"([{"content":"a"}])",
           R"([{"role":"user","content":5}])",
           R"([{"role":"user","content":[{"type":"nothing"}]}])",
           R"([{"role":"user"}])",
           R"([5])",
           R"("a")",
           R"([{"role":"nobody","content":"a"}])",
           R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}])",
           R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1:1/"}}]}])",
           R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,@@"}}]}])",
           R"([{"role":"assistant","tool_calls":[{"type":"function"}]}])",
           R"([{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"a","arguments":5}}]}])",
       })
    requests.push_back({json, "/v1/chat/completions", messages(json), {400}, "messages"});
  send(requests);
}

TEST_F(HostileApi, Tools) {
  ordered_json many = ordered_json::array();
  for (int i = 0; i < 10'000; ++i) many.push_back(tool("t" + std::to_string(i)));
  send({
      {"quotes", "/v1/chat/completions", chat("tools", {tool("a\"b")}), {400}, "tools[0].function.name"},
      {"newline", "/v1/chat/completions", chat("tools", {tool("a\nb")}), {400}, "tools[0].function.name"},
      {"rule", "/v1/chat/completions", chat("tools", {tool("a ::= b")}), {400}, "tools[0].function.name"},
      {"doubles", "/v1/chat/completions", chat("tools", {tool("a"), tool("a")}), {400}},
      {"many", "/v1/chat/completions", chat("tools", many), {400}, "tools"},
      {"each kind of character", "/v1/chat/completions", chat("tools", {tool("azAZ09_.-")}), {200}},
  });
  std::vector<HostileRequest> neighbours;  // of the characters that names may have
  for (const char c : {'`', '{', '@', '[', '/', ':', '^', ','})
    neighbours.push_back({"character", "/v1/chat/completions", chat("tools", {tool(std::string("a") + c)}), {400}});
  send(neighbours);
}

TEST_F(HostileApi, Fields) {
  std::vector<HostileRequest> requests;
  const auto refused = [&](const std::string& field, ordered_json value) {
    requests.push_back({field + ' ' + value.dump(), "/completion", completion(field, value), {400}, field});
  };
  refused("n_probs", 2147483647);
  refused("n_probs", -5);
  refused("id_slot", 999);
  refused("id_slot", -7);
  refused("mirostat", 99);
  refused("samplers", {"nothing"});
  refused("samplers", 5);
  refused("logit_bias", {{1'000'000, 1.0}});
  refused("logit_bias", {{-1, 1.0}});
  refused("n", 1'000'000'000);
  refused("n_discard", -1);
  refused("dry_allowed_length", -2147483648LL);
  refused("seed", 9223372036854775807LL);
  refused("top_k", 1.5);
  refused("stop", {1, nullptr});
  refused("stop", std::string(2000, 'x'));
  refused("chat_parser", "x");
  refused("grammar_triggers", ordered_json::array());
  refused("temperature", "hot");
  refused("cache_salt", std::string(65, 'x'));
  refused("priority", -10);
  requests.push_back({"2^63", "/completion", with_raw("n_predict", "9223372036854775808"), {400}, "n_predict"});
  send(requests);
}

TEST_F(HostileApi, Slots) {
  for (const char* id : {"abc", "1099511627776", "-1", "4", ""}) {
    const int status = post("/slots/" + std::string(id) + "?action=erase", "{}").status;
    EXPECT_TRUE(status == 400 || status == 404 || status == 405) << id << ' ' << status;
  }
  EXPECT_EQ(post("/slots/0?action=nothing", "{}").status, 400);
  send({{"save", "/slots/1?action=save", R"({"filename":"../x"})", {400, 501}}});
}

// A user cannot write the control tokens of a template.
TEST_F(HostileApi, ControlTokensOfAUserAreText) {
  const Answer control = post("/tokenize", R"({"content":"<s>"})");
  const Answer prompt =
      post("/v1/chat/completions/input_tokens", chat("messages", {{{"role", "user"}, {"content", "<s>"}}}));
  const Answer empty =
      post("/v1/chat/completions/input_tokens", chat("messages", {{{"role", "user"}, {"content", "x"}}}));
  ASSERT_EQ(prompt.status, 200) << prompt.reply.body;
  ASSERT_EQ(control.json["tokens"].size(), 1u) << control.reply.body;
  EXPECT_GT(prompt.json["input_tokens"], empty.json["input_tokens"]);
}

}  // namespace
}  // namespace tessera
