// The table of hostile requests (hostile.h). Rows follow ../shared/design/serve.md, section 10.2. Requests whose right
// answer depends on the build or the model list every right status.
#include "bench/serve/hostile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera::load {
namespace {

using Json = nlohmann::json;

std::string repeat(std::string_view part, size_t n) {
  std::string text;
  text.reserve(part.size() * n);
  for (size_t i = 0; i < n; ++i) text += part;
  return text;
}

/// A completion of one token with further members, given as JSON text.
std::string with(std::string_view members) { return fmt::format(R"({{"prompt":"Hi","n_predict":1,{}}})", members); }

std::string with_grammar(const std::string& grammar) { return with(R"("grammar":)" + Json(grammar).dump()); }

/// A chat of one short message with further members.
std::string chat_with(std::string_view members) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"Hi"}}],"max_tokens":1,{}}})", members);
}

std::string chat_of(std::string_view messages) { return fmt::format(R"({{"messages":{},"max_tokens":1}})", messages); }

std::string with_pattern(const std::string& pattern) {
  return with(R"("json_schema":{"type":"string","pattern":)" + Json(pattern).dump() + "}");
}

std::string rule_chain(size_t n) {
  std::string grammar = "root ::= r0\n";
  for (size_t i = 0; i < n; ++i) grammar += fmt::format("r{} ::= r{}\n", i, i + 1);
  return grammar + fmt::format("r{} ::= \"a\"\n", n);
}

std::string deep_schema(size_t depth) {
  return with(R"("json_schema":)" + repeat(R"({"type":"array","items":)", depth) + R"({"type":"null"})" +
              std::string(depth, '}'));
}

std::string large_enum(size_t n) {
  std::string values = R"("v0")";
  for (size_t i = 1; i < n; ++i) values += fmt::format(R"(,"v{}")", i);
  return with(fmt::format(R"("json_schema":{{"enum":[{}]}})", values));
}

std::string many_tools(size_t n) {
  std::string tools;
  for (size_t i = 0; i < n; ++i) {
    tools +=
        fmt::format(R"({}{{"type":"function","function":{{"name":"f{}","parameters":{{}}}}}})", i > 0 ? "," : "", i);
  }
  return chat_with(R"("tools":[)" + tools + "]");
}

std::string tool_named(const std::string& name) {
  return chat_with(
      fmt::format(R"("tools":[{{"type":"function","function":{{"name":{},"parameters":{{}}}}}}])", Json(name).dump()));
}

std::string many_fields(size_t n) {
  std::string head = "GET /health HTTP/1.1\r\nHost: x\r\n";
  for (size_t i = 0; i < n; ++i) head += fmt::format("X-{}: 1\r\n", i);
  return head + "\r\n";
}

/// A raw POST /completion with the given fields, then `body`.
std::string raw_post(std::string_view fields, std::string_view body = "") {
  return fmt::format("POST /completion HTTP/1.1\r\nHost: localhost\r\n{}\r\n{}", fields, body);
}

#define TEXT(expression) [] { return std::string(expression); }
constexpr std::string_view kCompletion = "/completion", kChat = "/v1/chat/completions";
constexpr auto kLarge = Hostile::Size::large;

std::vector<Hostile> grammar_rows() {
  return {
      {"grammar of 60k parentheses",
       kCompletion,
       TEXT(with_grammar("root ::= " + repeat("(", 60000) + "\"a\"" + repeat(")", 60000))),
       {200, 400}},
      {"grammar: chain of 200k rules", kCompletion, TEXT(with_grammar(rule_chain(200000))), {200, 400}, kLarge},
      {"grammar: nested empty repetition", kCompletion, TEXT(with_grammar("root ::= ([x]*)*")), {200, 400}},
      {"grammar: 1e9 repetitions", kCompletion, TEXT(with_grammar("root ::= \"a\"{1000000000}")), {400}},
      {"grammar: four nested {0,99}",
       kCompletion,
       TEXT(with_grammar("root ::= ((((\"a\"{0,99}){0,99}){0,99}){0,99})")),
       {200, 400}},
      {"grammar: left recursion", kCompletion, TEXT(with_grammar("root ::= root \"a\" | \"b\"")), {400}},
      {"schema 100k deep", kCompletion, TEXT(deep_schema(100000)), {400}, kLarge},
      {"schema 2,000 deep", kCompletion, TEXT(deep_schema(2000)), {400}},
      {"schema: pattern ^*$", kCompletion, TEXT(with_pattern("^*$")), {400}},
      {"schema: pattern with lookbehind", kCompletion, TEXT(with_pattern("^(?<=x)*$")), {400}},
      {"schema: pattern of 50k parentheses",
       kCompletion,
       TEXT(with_pattern("^" + repeat("(", 50000) + "a" + repeat(")", 50000) + "$")),
       {400}},
      {"schema: minLength 1e9",
       kCompletion,
       TEXT(with(R"("json_schema":{"type":"string","minLength":1000000000})")),
       {400}},
      {"schema: remote $ref", kCompletion, TEXT(with(R"("json_schema":{"$ref":"http://127.0.0.1:1/x"})")), {400}},
      {"schema: $ref cycle", kCompletion, TEXT(with(R"("json_schema":{"$ref":"#"})")), {400}},
      {"schema: enum of 100k values", kCompletion, TEXT(large_enum(100000)), {200, 400}, kLarge},
      {"grammar and schema", kCompletion, TEXT(with(R"("grammar":"root ::= \"a\"","json_schema":{})")), {400}},
  };
}

std::vector<Hostile> json_rows() {
  return {
      {"body {:", kCompletion, TEXT("{:"), {400}},
      {"body empty", kCompletion, TEXT(""), {400}},
      {"body null", kCompletion, TEXT("null"), {400}},
      {"body []", kCompletion, TEXT("[]"), {400}},
      {"JSON 200k deep", kCompletion, TEXT(repeat("[", 200000) + repeat("]", 200000)), {400}},
      {"bad UTF-8", kCompletion, TEXT("{\"prompt\":\"\xff\xfe\",\"n_predict\":1}"), {400}},
      {"lone surrogate", kCompletion, TEXT(R"({"prompt":"\ud800","n_predict":1})"), {400}},
      {"NaN", kCompletion, TEXT(with(R"("temperature":NaN)")), {400}},
      {"1e999", kCompletion, TEXT(with(R"("temperature":1e999)")), {400}},
      {"role a number", kChat, TEXT(chat_of(R"([{"role":5,"content":"x"}])")), {400}},
      {"message without role", kChat, TEXT(chat_of(R"([{"content":"x"}])")), {400}},
      {"content a number", kChat, TEXT(chat_of(R"([{"role":"user","content":5}])")), {400}},
      {"bad part", kChat, TEXT(chat_of(R"([{"role":"user","content":[{"type":"smell"}]}])")), {400}},
      {"image file:///etc/passwd",
       kChat,
       TEXT(chat_of(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}])")),
       {400}},
      {"detokenize -1", "/detokenize", TEXT(R"({"tokens":[-1]})"), {400}},
      {"detokenize 2^40", "/detokenize", TEXT(R"({"tokens":[1099511627776]})"), {400}},
      {"tokenize 1M newlines", "/tokenize", TEXT(Json({{"content", repeat("\n", 1000000)}}).dump()), {200}, kLarge},
      {"tokenize 10M letters", "/tokenize", TEXT(Json({{"content", repeat("a", 10000000)}}).dump()), {200}, kLarge},
      {"tokenize emoji chain",
       "/tokenize",
       TEXT(Json({{"content", repeat("\xf0\x9f\x91\xa9\xe2\x80\x8d", 10000)}}).dump()),
       {200}},
  };
}

std::vector<Hostile> field_rows() {
  return {
      {"n_probs 2^31-1", kCompletion, TEXT(with(R"("n_probs":2147483647)")), {400}},
      {"n_probs -5", kCompletion, TEXT(with(R"("n_probs":-5)")), {400}},
      {"id_slot 999", kCompletion, TEXT(with(R"("id_slot":999)")), {400}},
      {"id_slot -7", kCompletion, TEXT(with(R"("id_slot":-7)")), {400}},
      {"mirostat 99", kCompletion, TEXT(with(R"("mirostat":99)")), {400}},
      {"unknown sampler", kCompletion, TEXT(with(R"("samplers":["magic"])")), {400}},
      {"bias of a bad token", kCompletion, TEXT(with(R"("logit_bias":[[99999999,1]])")), {400}},
      {"lora 99", kCompletion, TEXT(with(R"("lora":[{"id":99,"scale":1}])")), {400}},
      {"prompt id 2^63", kCompletion, TEXT(R"({"prompt":[9223372036854775808],"n_predict":1})"), {400}},
      {"n 1e9", kCompletion, TEXT(with(R"("n":1000000000)")), {400}},
      {"n_discard -1", kCompletion, TEXT(with(R"("n_discard":-1)")), {400}},
      {"dry_allowed_length INT_MIN", kCompletion, TEXT(with(R"("dry_allowed_length":-2147483648)")), {400}},
      {"top_n -1", "/rerank", TEXT(R"({"query":"a","documents":["b"],"top_n":-1})"), {400, 501}},
      {"stop [1,null]", kCompletion, TEXT(with(R"("stop":[1,null])")), {400}},
      {"response_format 5", kChat, TEXT(chat_with(R"("response_format":5)")), {400}},
      {"chat_parser from a client", kCompletion, TEXT(with(R"("chat_parser":{"a":"a"})")), {400}},
      {"tool name with ::=", kChat, TEXT(tool_named("a\"\n::= b")), {400}},
      {"10k tools", kChat, TEXT(many_tools(10000)), {400}, kLarge},
      {"slot name ../x", "/slots/0?action=save", TEXT(R"({"filename":"../x"})"), {400, 501}},
      {"slot name with NUL", "/slots/0?action=save", TEXT(R"({"filename":"a\u0000b"})"), {400, 501}},
      {"slot abc", "/slots/abc?action=save", TEXT(R"({"filename":"x"})"), {400, 404, 501}},
      {"slot 2^40", "/slots/1099511627776?action=save", TEXT(R"({"filename":"x"})"), {400, 404, 501}},
      {"unknown path", "/no/such/path", TEXT("{}"), {404}},
  };
}

std::vector<Hostile> wire_rows() {
  return {
      {"Content-Length 10^18", "", TEXT(raw_post("Content-Length: 1000000000000000000\r\n")), {413}},
      {"Content-Length -1", "", TEXT(raw_post("Content-Length: -1\r\n")), {400}},
      {"two Content-Lengths", "", TEXT(raw_post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}")), {400}},
      {"length and chunked",
       "",
       TEXT(raw_post("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n")),
       {400}},
      {"bad chunk size", "", TEXT(raw_post("Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n")), {400}},
      {"field of 20 KB", "", TEXT(raw_post("X-A: " + repeat("a", 20000) + "\r\nContent-Length: 2\r\n", "{}")), {431}},
      {"10k fields", "", TEXT(many_fields(10000)), {431}},
      {"target of 1 MB", "", TEXT("GET /" + repeat("a", 1000000) + " HTTP/1.1\r\nHost: x\r\n\r\n"), {0, 414, 431}},
      {"obs-fold", "", TEXT(raw_post("X-A: 1\r\n 2\r\nContent-Length: 2\r\n", "{}")), {400}},
      {"NUL in the head", "", TEXT(raw_post(std::string_view("X-A: \0\r\n", 8))), {400}},
      {"bare line feeds", "", TEXT("GET /health HTTP/1.1\nHost: x\n\n"), {0, 400}},
      {"no Host", "", TEXT("GET /health HTTP/1.1\r\n\r\n"), {400}},
      {"foreign Origin", "", TEXT(raw_post("Origin: http://evil.example\r\nContent-Length: 2\r\n", "{}")), {403}},
      {"foreign Host", "", TEXT("GET /props HTTP/1.1\r\nHost: evil.example\r\n\r\n"), {401, 403}},
      {"not HTTP", "", TEXT("\x16\x03\x01\x02\r\n\r\n"), {0, 400}},
  };
}
#undef TEXT

std::vector<Hostile> all_rows() {
  std::vector<Hostile> rows;
  for (const auto& part : {grammar_rows(), json_rows(), field_rows(), wire_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace

std::span<const Hostile> hostile_requests() {
  static const std::vector<Hostile> rows = all_rows();
  return rows;
}

Request hostile_request(const Hostile& row, const std::string& api_key) {
  Request request;
  request.api_key = api_key;
  if (row.target.empty()) {
    request.raw = row.text();
  } else {
    request.target = row.target;
    request.body = row.text();
  }
  return request;
}

bool is_right(const Hostile& row, int status) {
  return std::find(row.statuses.begin(), row.statuses.end(), status) != row.statuses.end();
}

}  // namespace tessera::load
