#include "tessera/cli/template_batch.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "tessera/cli/console.h"
#include "tessera/cli/line_input.h"
#include "tessera/text/chat/value_tools.h"
#include "tessera/text/json_quoted.h"
#include "tessera/text/template/json_reader.h"

namespace tessera::cli {
namespace {

using text::json_quoted;
using text::member_of;
using text::text_member;
using text::jinja::Heap;
using text::jinja::Kind;
using text::jinja::TemplateError;
using text::jinja::Value;

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr text::jinja::JsonLimits kLimits{.max_depth = 128, .max_values = size_t{1} << 22};

Result<bool> flag_of(const Value& object, std::string_view name, bool otherwise) {
  const Value value = member_of(object, name);
  if (value.is_missing()) return otherwise;
  if (!value.is(Kind::boolean)) return fail(ErrorCode::mismatch, "{}: not a boolean", name);
  return value.as_boolean();
}

Result<text::ChatRequest> request_of(const Value& object) {
  text::ChatRequest request;
  request.messages = member_of(object, "messages");
  request.tools = member_of(object, "tools");
  request.documents = member_of(object, "documents");
  request.variables = member_of(object, "vars");
  request.variables_field = "vars";
  TESSERA_ASSIGN(request.add_generation_prompt, flag_of(object, "add_generation_prompt", true));
  TESSERA_ASSIGN(request.continues_last, flag_of(object, "continue_final_message", false));
  TESSERA_ASSIGN(request.adapts, flag_of(object, "adapt", true));
  return request;
}

std::string error_json(std::string_view kind, std::string_view message) {
  return fmt::format("{{\"error\": \"{}\", \"message\": {}}}\n", kind, json_quoted(message));
}

std::string error_json(const TemplateError& error) {
  return fmt::format("{{\"error\": \"{}\", \"message\": {}, \"line\": {}, \"col\": {}}}\n", to_string(error.kind),
                     json_quoted(error.message), error.line, error.column);
}

std::string prompt_json(std::string_view prompt) { return fmt::format("{{\"prompt\": {}}}\n", json_quoted(prompt)); }

std::string render_variables(Heap& heap, std::string source, const Value& variables, const std::tm& now) {
  const auto parsed = text::jinja::Template::parse(std::move(source));
  if (!parsed) return error_json(parsed.error());
  std::vector<text::jinja::Variable> all;
  for (const auto& entry : variables.as_dict().entries) all.push_back({entry.key.bytes(), entry.value});
  const auto rendered = parsed->render(heap, all, now);
  return rendered ? prompt_json(rendered->prompt.text) : error_json(rendered.error());
}

std::string render_request(Heap& heap, std::string source, const Value& object, const std::tm& now) {
  auto request = request_of(object);
  if (!request) return error_json("request", request.error().message());
  request->now = now;
  request->sets_dates = false;  // a line has all its variables
  const auto chat_template = text::ChatTemplate::create(std::move(source), {.bos = "<s>", .eos = "</s>"});
  if (!chat_template) return error_json(chat_template.error());
  const auto prompt = chat_template->render(heap, *request);
  if (prompt) return prompt_json(prompt->prompt.text);
  return prompt.error().in_template ? error_json(*prompt.error().in_template)
                                    : error_json("request", prompt.error().message);
}

std::string render_line(std::string_view line, const std::tm& now) {
  Heap heap;
  const auto parsed = text::jinja::parse_json(heap, line, text::Origin::given, kLimits);
  if (!parsed) return error_json("request", parsed.error().message());
  const Value source = member_of(parsed->value, "source");
  if (!source.is_text()) return error_json("request", "source: missing, want a text");
  const Value variables = member_of(parsed->value, "variables");
  if (!variables.is_missing() && !variables.is(Kind::dict)) return error_json("request", "variables: not an object");
  if (variables.is(Kind::dict)) return render_variables(heap, std::string(source.bytes()), variables, now);
  return render_request(heap, std::string(source.bytes()), parsed->value, now);
}

// Reads the number of a part of a time, of fixed width.
bool read_part(std::string_view text, size_t begin, size_t n, int min, int max, int& value) {
  const char* first = text.data() + begin;
  const auto [end, error] = std::from_chars(first, first + n, value);
  return error == std::errc() && end == first + n && value >= min && value <= max;
}

}  // namespace

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

Setter set_time(std::optional<std::tm>& target) {
  return [&target](std::string_view text) -> Result<> {
    std::tm time{};
    int year = 0, month = 0;
    constexpr std::string_view kForm = "0000-00-00T00:00:00";
    bool is_valid = text.size() == kForm.size();
    for (size_t i = 0; is_valid && i < text.size(); ++i) is_valid = kForm[i] == '0' || kForm[i] == text[i];
    is_valid = is_valid && read_part(text, 0, 4, 1900, 9999, year) && read_part(text, 5, 2, 1, 12, month) &&
               read_part(text, 8, 2, 1, 31, time.tm_mday) && read_part(text, 11, 2, 0, 23, time.tm_hour) &&
               read_part(text, 14, 2, 0, 59, time.tm_min) && read_part(text, 17, 2, 0, 60, time.tm_sec);
    if (!is_valid) return fail(ErrorCode::invalid_argument, "not a time like 2026-02-28T09:05:07");
    time.tm_year = year - 1900;
    time.tm_mon = month - 1;
    ::timegm(&time);  // fills in the day of the week and of the year
    target = time;
    return {};
  };
}

Result<text::ChatRequest> parse_chat_request(Heap& heap, std::string_view json) {
  TESSERA_ASSIGN(const auto parsed, text::jinja::parse_json(heap, json, text::Origin::given, kLimits));
  if (!parsed.value.is(Kind::list)) return request_of(parsed.value);
  text::ChatRequest request;
  request.messages = parsed.value;
  return request;
}

Result<> render_template_batch(const std::tm& now, const Context& process) {
  LineInput input(kMaxLineBytes);
  while (true) {
    TESSERA_ASSIGN(const std::optional<std::string> line, input.next(process.interrupt));
    if (!line) return {};
    TESSERA_TRY(print(render_line(*line, now)));
  }
}

}  // namespace tessera::cli
