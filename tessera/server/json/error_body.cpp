// Statuses and types of errors per dialect, as tables.
#include "tessera/server/json/error_body.h"

#include <fmt/format.h>

#include "tessera/server/json/writer.h"

namespace tessera::server {
namespace {

constexpr std::string_view kBusy = "server busy, please try again.  maximum pending requests exceeded";

struct AnthropicRow {
  int status;
  std::string_view type;
};
constexpr AnthropicRow kAnthropicTypes[] = {
    {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},  {413, "request_too_large"},
    {429, "rate_limit_error"},     {500, "api_error"},        {503, "overloaded_error"}, {529, "overloaded_error"},
};

std::string_view anthropic_type(int status) {
  for (const AnthropicRow& row : kAnthropicTypes) {
    if (row.status == status) return row.type;
  }
  return "invalid_request_error";
}

void write_native(JsonWriter& writer, const FieldError& error) {
  writer.begin_object().key("error").begin_object();
  writer.member("code", error.status).member("message", error.message).member("type", error.type);
  if (!error.param.empty()) writer.member("param", error.param);
  if (error.overflow)
    writer.member("n_prompt_tokens", error.overflow->n_prompt_tokens).member("n_ctx", error.overflow->n_ctx);
  writer.end_object().end_object();
}

void write_anthropic(JsonWriter& writer, const FieldError& error, std::string_view request_id) {
  writer.begin_object().member("type", "error").key("error").begin_object();
  writer.member("type", anthropic_type(error.status)).member("message", error.message).end_object();
  writer.member("request_id", request_id).end_object();
}

void write_ollama(JsonWriter& writer, const FieldError& error) {
  const std::string_view message = error.status == 429 ? kBusy : std::string_view(error.message);
  writer.begin_object().member("error", message).end_object();
}

bool is_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace

Dialect dialect_of_path(std::string_view path) {
  if (is_below(path, "/v1/messages")) return Dialect::anthropic;
  return is_below(path, "/api") ? Dialect::ollama : Dialect::native;
}

int dialect_status(int status, Dialect dialect) {
  if (dialect == Dialect::anthropic && status == 503) return 529;
  if (dialect == Dialect::ollama && status == 429) return 503;
  return status;
}

std::string error_body(const FieldError& error, Dialect dialect, std::string_view request_id) {
  std::string body;
  JsonWriter writer(body);
  switch (dialect) {
    case Dialect::native:
      write_native(writer, error);
      break;
    case Dialect::anthropic:
      write_anthropic(writer, error, request_id);
      break;
    case Dialect::ollama:
      write_ollama(writer, error);
      break;
  }
  return body;
}

HttpAnswer error_answer(const FieldError& error, std::string_view path, std::string_view request_id) {
  const Dialect dialect = dialect_of_path(path);
  HttpAnswer answer;
  answer.status = dialect_status(error.status, dialect);
  answer.body = error_body(error, dialect, request_id);
  if (error.retry_after_s > 0) answer.fields.push_back({"Retry-After", fmt::format("{}", error.retry_after_s)});
  return answer;
}

HttpAnswer error_answer(const HttpProblem& problem) {
  FieldError error;
  error.status = problem.status;
  if (!problem.type.empty()) error.type = problem.type;
  error.message = problem.message;
  return error_answer(error, problem.path, problem.request_id);
}

std::string error_event(const FieldError& error, Dialect dialect, std::string_view request_id) {
  const std::string body = error_body(error, dialect, request_id);
  switch (dialect) {
    case Dialect::anthropic:
      return fmt::format("event: error\ndata: {}\n\n", body);
    case Dialect::ollama:
      return body + "\n";
    case Dialect::native:
      break;
  }
  return fmt::format("data: {}\n\n", body);
}

}  // namespace tessera::server
