// Chat templates: the language of Jinja2 as Hugging Face transformers sets it up. A template is parsed once and
// rendered with variables. Hostile templates end within limits: steps, bytes of text, values and depth.
#pragma once

#include <ctime>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/marked_text.h"
#include "tessera/text/template/value.h"

namespace tessera::text::jinja {

struct Program;

enum class TemplateErrorKind : uint8_t {
  syntax,     // the source is not a template
  undefined,  // use of a variable or member that does not exist
  value,      // an operation does not accept its values
  forbidden,  // a member that templates may not use
  limit,      // a limit on size, steps or depth
  raised,     // the template called raise_exception
};

/// "syntax", "undefined", ...
std::string_view to_string(TemplateErrorKind kind);

struct TemplateError {
  TemplateErrorKind kind;
  std::string message;  // of raise_exception: the words of the template
  size_t line = 1;      // from 1
  size_t column = 1;    // in code points from 1

  /// "template: LINE:COLUMN: MESSAGE"; of raise_exception the message alone.
  std::string text() const;
};

/// Returns the line of the source where the error is and a second line with a caret below the place. Long lines are
/// cut.
std::string quote_source(std::string_view source, const TemplateError& error);

struct Variable {
  std::string_view name;
  Value value;
};

struct Rendered {
  MarkedText prompt;
  std::vector<ByteRange> generated;  // text inside {% generation %} blocks
};

class Template {
 public:
  static constexpr size_t kMaxSourceBytes = size_t{1} << 20;

  /// Errors: syntax; limit; value (a number outside 64 bits, a statement that needs other templates).
  static std::expected<Template, TemplateError> parse(std::string source);

  /// Renders the template. The variables are in `heap`; the template may append to their lists, so each render needs
  /// new ones. `now` is the local time for strftime_now. Thread-safe for different heaps.
  std::expected<Rendered, TemplateError> render(Heap& heap, std::span<const Variable> variables,
                                                const std::tm& now) const;

  /// The source with '\n' as its only line break.
  std::string_view source() const;

  /// True if the template reads or sets a variable of this name.
  bool names_variable(std::string_view name) const;
  /// True if the template names a member or has a text literal of this name: message.name, message['name'].
  bool names_member(std::string_view name) const;

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

 private:
  explicit Template(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
};

}  // namespace tessera::text::jinja
