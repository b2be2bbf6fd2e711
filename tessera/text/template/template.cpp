#include "tessera/text/template/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/error.h"
#include "tessera/text/template/interpreter.h"
#include "tessera/text/template/parser.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

constexpr std::array<std::string_view, 6> kErrorKinds{"syntax", "undefined", "value", "forbidden", "limit", "raised"};

TemplateErrorKind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::format:
      return TemplateErrorKind::syntax;
    case ErrorCode::not_found:
      return TemplateErrorKind::undefined;
    case ErrorCode::unsupported:
      return TemplateErrorKind::forbidden;
    case ErrorCode::limit:
      return TemplateErrorKind::limit;
    case kRaised:
      return TemplateErrorKind::raised;
    default:
      return TemplateErrorKind::value;
  }
}

// Makes '\n' the only line break, and removes one at the very end.
void normalize_lines(std::string& source) {
  size_t n = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    source[n++] = source[i] == '\r' ? '\n' : source[i];
  }
  source.resize(n);
  if (source.ends_with('\n')) source.pop_back();
}

}  // namespace

std::string_view to_string(TemplateErrorKind kind) { return kErrorKinds[to_size(kind)]; }

std::string TemplateError::text() const {
  if (kind == TemplateErrorKind::raised) return message;
  return fmt::format("template: {}:{}: {}", line, column, message);
}

SourcePlace place_of(std::string_view source, size_t at) {
  const std::string_view before = source.substr(0, at);
  const size_t line = before.rfind('\n') + 1;  // 0 if there is none
  return {to_size(std::ranges::count(before, '\n')) + 1, count_code_points(before.substr(line)) + 1};
}

TemplateError error_at(std::string_view source, size_t at, const Error& error) {
  const SourcePlace place = place_of(source, at);
  return {kind_of(error.code()), error.message(), place.line, place.column};
}

std::string quote_source(std::string_view source, const TemplateError& error) {
  constexpr size_t kBefore = 60, kAfter = 20;  // code points around the place
  for (size_t line = 1; line < error.line; ++line) source.remove_prefix(std::min(source.find('\n') + 1, source.size()));
  source = source.substr(0, source.find('\n'));
  const size_t caret = error.column - 1;
  const size_t begin = caret > kBefore ? caret - kBefore : 0;
  const size_t first = code_point_offset(source, begin), last = code_point_offset(source, caret + kAfter);
  std::string quoted;
  for (const char c : source.substr(first, last - first))
    quoted += static_cast<uint8_t>(c) < ' ' || c == 0x7F ? ' ' : c;
  return fmt::format("{}\n{:>{}}\n", quoted, '^', caret - begin + 1);
}

Template::Template(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

std::expected<Template, TemplateError> Template::parse(std::string source) {
  if (source.size() > kMaxSourceBytes)
    return std::unexpected(TemplateError{TemplateErrorKind::limit,
                                         fmt::format("source of {} bytes, limit {}", source.size(), kMaxSourceBytes)});
  if (!is_valid_utf8(source))
    return std::unexpected(TemplateError{TemplateErrorKind::syntax, "source is not valid UTF-8"});
  normalize_lines(source);
  auto program = parse_program(std::move(source));
  if (!program) return std::unexpected(std::move(program).error());
  return Template(std::move(*program));
}

std::expected<Rendered, TemplateError> Template::render(Heap& heap, std::span<const Variable> variables,
                                                        const std::tm& now) const {
  return run_program(*program_, heap, variables, now);
}

std::string_view Template::source() const { return program_->source; }

bool Template::names_variable(std::string_view name) const {
  return std::ranges::any_of(program_->variables, [&](const Value& variable) { return variable.bytes() == name; });
}

bool Template::names_member(std::string_view name) const {
  return std::ranges::any_of(program_->constants,
                             [&](const Value& constant) { return constant.is_text() && constant.bytes() == name; });
}

}  // namespace tessera::text::jinja
