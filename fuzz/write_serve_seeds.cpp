// Writes the initial corpus of serve_fuzz into a directory: a body for each route, and whole requests as bytes.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/serve_routes.h"

namespace {

constexpr std::string_view kMessages = R"("messages":[{"role":"user","content":"Hello"}])";

// Bodies of requests, with the routes they are for.
const std::pair<std::string_view, std::string> kBodies[] = {
    {"/completion", R"({"prompt":"One day","n_predict":3,"seed":1,"n_probs":2,"stream":true})"},
    {"/completion", R"({"prompt":[1,2,"a"],"grammar":"root ::= \"a\" [b-d]*","logit_bias":[[3,false]]})"},
    {"/completion", R"({"prompt":"a","json_schema":{"type":"object","properties":{"a":{"type":"integer"}}}})"},
    {"/completion", R"({"prompt":["a","b"],"samplers":["top_k","min_p"],"mirostat":2,"stop":["x"],"n_indent":1})"},
    {"/infill", R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"c","text":"d"}]})"},
    {"/tokenize", R"({"content":"a text","add_special":true,"with_pieces":true})"},
    {"/detokenize", R"({"tokens":[1,2,300]})"},
    {"/apply-template", fmt::format(R"({{{}}})", kMessages)},
    {"/embedding", R"({"content":["a","b"],"embd_normalize":0})"},
    {"/rerank", R"({"query":"a","documents":["b","c"],"top_n":1})"},
    {"/slots/0?action=erase", "{}"},
    {"/v1/completions", R"({"prompt":"a","echo":true,"logprobs":2,"max_tokens":1,"n":2})"},
    {"/v1/completions", R"({"prompt":[1,5],"prompt_logprobs":1,"best_of":2,"suffix":null})"},
    {"/v1/chat/completions",
     fmt::format(R"({{{},"stream":true,"stream_options":{{"include_usage":true}}}})", kMessages)},
    {"/v1/chat/completions",
     fmt::format(R"({{{},"tools":[{{"type":"function","function":{{"name":"f","parameters":{{"type":"object"}}}}}}],)"
                 R"("tool_choice":"required"}})",
                 kMessages)},
    {"/v1/chat/completions",
     fmt::format(R"({{{},"response_format":{{"type":"json_schema","json_schema":{{"schema":{{"enum":[1,"a"]}}}}}},)"
                 R"("logprobs":true,"top_logprobs":1,"reasoning_effort":"none"}})",
                 kMessages)},
    {"/v1/chat/completions/control", R"({"id":"chatcmpl-1","action":"reasoning_end"})"},
    {"/v1/chat/completions/input_tokens", fmt::format(R"({{{}}})", kMessages)},
    {"/v1/responses", R"({"input":"a","instructions":"b","stream":true,"text":{"format":{"type":"json_object"}}})"},
    {"/v1/responses", R"({"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},)"
                      R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"},)"
                      R"({"type":"function_call_output","call_id":"c","output":"x"}],"truncation":"auto"})"},
    {"/v1/responses/input_tokens", R"({"input":"a"})"},
    {"/v1/embeddings", R"({"input":["a",[1,2]],"encoding_format":"base64","dimensions":4})"},
    {"/v1/rerank", R"({"query":"a","texts":["b"],"return_text":true})"},
    {"/v1/messages", fmt::format(R"({{"max_tokens":4,"system":[{{"type":"text","text":"s"}}],{}}})", kMessages)},
    {"/v1/messages",
     R"({"max_tokens":4,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[)"
     R"({"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f",)"
     R"("input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]}],)"
     R"("tools":[{"name":"f","input_schema":{"type":"object"}}]})"},
    {"/v1/messages/count_tokens", fmt::format(R"({{{}}})", kMessages)},
    {"/api/generate", R"({"model":"m","prompt":"a","options":{"num_predict":3,"stop":["x"]},"format":"json"})"},
    {"/api/generate", R"({"prompt":"","keep_alive":"5m","context":[1,2],"raw":true,"stream":false})"},
    {"/api/chat", fmt::format(R"({{{},"think":false,"stream":true,"logprobs":true}})", kMessages)},
    {"/api/embed", R"({"input":["a"],"truncate":true,"dimensions":3})"},
    {"/api/embeddings", R"({"prompt":"a"})"},
    {"/api/show", R"({"model":"m","verbose":true})"},
    {"/models/load", R"({"model":"m"})"},
    {"/models/unload", R"({"model":"m"})"},
    {"/props", "{}"},
    {"/lora-adapters", R"([{"id":0,"scale":1}])"},
    {"/cache?action=clear", ""},
    {"/v1/streams/lookup", R"({"conversation_ids":["a"]})"},
};

const std::string_view kRequests[] = {
    "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /props HTTP/1.1\r\nHost: localhost\r\n\r\nGET /slots HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nanthropic-version: 1\r\nConnection: close\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nIf-None-Match: \"a\"\r\n\r\n",
    "GET /api/tags HTTP/1.0\r\nHost: localhost\r\nUser-Agent: ollama/1\r\n\r\n",
    "GET /v1/stream?conv_id=a&from=0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n\r\n",
    "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5\r\n{\"con\r\n9\r\ntent\":\"a\"\r\n1\r\n}\r\n0\r\n\r\n",
    "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\nX-Conversation-Id: "
    "a\r\n\r\n{\"prompt\":\"a\"}",
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  size_t n_seeds = 0;
  const auto write = [&](char piece, char route, std::string_view bytes) {
    std::ofstream(fmt::format("{}/seed-{}", argv[1], n_seeds++)) << piece << route << bytes;
  };
  for (const auto& [route, body] : kBodies) {
    const auto index = std::ranges::find(tessera::fuzz::kRoutes, route) - tessera::fuzz::kRoutes.begin();
    write('\x01', static_cast<char>(index), body);
  }
  for (const std::string_view request : kRequests) {
    write('\x01', '\xFF', request);
    write('\x08', '\xFF', request);
  }
  return 0;
}
