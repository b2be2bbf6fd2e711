// Errors of each dialect: statuses, bodies and events.
#include "tessera/server/json/error_body.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::server {
namespace {

FieldError sample_error(int status, std::string type = "invalid_request_error") {
  return {.status = status, .type = std::move(type), .message = "a \"b\"\n"};
}

TEST(ErrorBody, ThePathDecidesTheDialect) {
  EXPECT_EQ(dialect_of_path("/v1/messages"), Dialect::anthropic);
  EXPECT_EQ(dialect_of_path("/v1/messages/count_tokens"), Dialect::anthropic);
  EXPECT_EQ(dialect_of_path("/v1/messagesX"), Dialect::native);
  EXPECT_EQ(dialect_of_path("/api/chat"), Dialect::ollama);
  EXPECT_EQ(dialect_of_path("/apiX"), Dialect::native);
  EXPECT_EQ(dialect_of_path("/v1/chat/completions"), Dialect::native);
  EXPECT_EQ(dialect_of_path(""), Dialect::native);
}

TEST(ErrorBody, NativeHasCodeMessageTypeAndField) {
  FieldError error = sample_error(400);
  EXPECT_EQ(error_body(error, Dialect::native, "r1"),
            R"({"error":{"code":400,"message":"a \"b\"\n","type":"invalid_request_error"}})");
  error.param = "temperature";
  EXPECT_EQ(error_body(error, Dialect::native, "r1"),
            R"({"error":{"code":400,"message":"a \"b\"\n","type":"invalid_request_error","param":"temperature"}})");
}

TEST(ErrorBody, ContextOverflowHasItsNumbers) {
  EXPECT_EQ(
      error_body(context_overflow_error(5000, 4096), Dialect::native, ""),
      R"({"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), )"
      R"(try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}})");
}

TEST(ErrorBody, AnthropicHasItsTypesAndTheRequest) {
  EXPECT_EQ(error_body(sample_error(400), Dialect::anthropic, "r1"),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"a \"b\"\n"},"request_id":"r1"})");
  const std::pair<int, const char*> types[] = {{401, "authentication_error"},  {403, "permission_error"},
                                               {404, "not_found_error"},       {405, "invalid_request_error"},
                                               {408, "invalid_request_error"}, {413, "request_too_large"},
                                               {429, "rate_limit_error"},      {500, "api_error"},
                                               {501, "invalid_request_error"}, {503, "overloaded_error"}};
  for (const auto& [status, type] : types) {
    const std::string body = error_body(sample_error(status, "x"), Dialect::anthropic, "");
    EXPECT_NE(body.find(std::string("\"error\":{\"type\":\"") + type + "\""), std::string::npos) << status << body;
  }
}

TEST(ErrorBody, OllamaHasOnlyTheMessage) {
  EXPECT_EQ(error_body(sample_error(400), Dialect::ollama, "r1"), R"({"error":"a \"b\"\n"})");
}

TEST(ErrorBody, StatusesOfAFullServerDiffer) {
  EXPECT_EQ(error_answer(sample_error(503), "/v1/messages", "").status, 529);
  EXPECT_EQ(error_answer(sample_error(429), "/v1/messages", "").status, 429);
  EXPECT_EQ(error_answer(sample_error(503), "/completion", "").status, 503);
  const HttpAnswer ollama = error_answer(sample_error(429), "/api/chat", "");
  EXPECT_EQ(ollama.status, 503);
  EXPECT_EQ(ollama.body, R"({"error":"server busy, please try again.  maximum pending requests exceeded"})");
}

TEST(ErrorBody, AnswersAreJsonWithRetryAfter) {
  FieldError error = sample_error(503);
  EXPECT_TRUE(error_answer(error, "/completion", "").fields.empty());
  error.retry_after_s = 7;
  const HttpAnswer answer = error_answer(error, "/completion", "");
  EXPECT_EQ(answer.content_type, kJsonType);
  ASSERT_EQ(answer.fields.size(), 1u);
  EXPECT_EQ(answer.fields[0].name, "Retry-After");
  EXPECT_EQ(answer.fields[0].value, "7");
}

TEST(ErrorBody, ProblemsOfTheConnectionUseTheirPath) {
  const HttpProblem problem{
      .status = 404, .type = "not_found_error", .message = "File Not Found", .path = "/x", .request_id = "r2"};
  const HttpAnswer native = error_answer(problem);
  EXPECT_EQ(native.status, 404);
  EXPECT_EQ(native.body, R"({"error":{"code":404,"message":"File Not Found","type":"not_found_error"}})");
  HttpProblem other = problem;
  other.path = "/v1/messages/x";
  EXPECT_EQ(error_answer(other).body,
            R"({"type":"error","error":{"type":"not_found_error","message":"File Not Found"},"request_id":"r2"})");
}

TEST(ErrorBody, EventsEndAStream) {
  EXPECT_EQ(error_event(sample_error(500, "server_error"), Dialect::native, ""),
            "data: {\"error\":{\"code\":500,\"message\":\"a \\\"b\\\"\\n\",\"type\":\"server_error\"}}\n\n");
  EXPECT_TRUE(
      error_event(sample_error(500), Dialect::anthropic, "r").starts_with("event: error\ndata: {\"type\":\"error\""));
  EXPECT_TRUE(error_event(sample_error(500), Dialect::anthropic, "r").ends_with("}\n\n"));
  EXPECT_EQ(error_event(sample_error(500), Dialect::ollama, ""), "{\"error\":\"a \\\"b\\\"\\n\"}\n");
}

TEST(FieldErrors, ErrorsOfTheLibraryHaveAStatus) {
  const auto status = [](ErrorCode code) { return field_error_of(Error(code, "m"), "f").status; };
  EXPECT_EQ(status(ErrorCode::invalid_argument), 400);
  EXPECT_EQ(status(ErrorCode::limit), 400);
  EXPECT_EQ(status(ErrorCode::unsupported), 501);
  EXPECT_EQ(status(ErrorCode::out_of_memory), 503);
  EXPECT_EQ(status(ErrorCode::internal), 500);
  EXPECT_EQ(field_error_of(Error(ErrorCode::limit, "m"), "f").message, "Field 'f': m");
  EXPECT_EQ(field_error_of(Error(ErrorCode::limit, "m"), "").message, "m");
  EXPECT_EQ(field_error_of(Error(ErrorCode::internal, "m"), "").type, "server_error");
}

}  // namespace
}  // namespace tessera::server
