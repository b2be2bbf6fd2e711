// Arguments of tool calls, in the forms in which models write them.
#pragma once

#include <expected>
#include <string_view>

#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/schema/value_syntax.h"

namespace tessera::text::grammar {

enum class ArgumentsForm : uint8_t {
  json,    // {"a": 1}
  python,  // (a=1)
  gemma,   // {a:1}
};

/// Adds the rule of the objects that a schema allows. Only `properties` in their order can be written, then others.
/// Errors: those of Grammar::from_json_schema(), with the same pointers.
std::expected<RuleId, GrammarError> add_arguments(const GrammarParts& parts, std::string_view schema,
                                                  ArgumentsForm form, const FindToken& find_control);

/// The same for objects whose members stand between marks.
std::expected<RuleId, GrammarError> add_arguments(const GrammarParts& parts, std::string_view schema,
                                                  const TaggedMembers& form, const FindToken& find_control);

}  // namespace tessera::text::grammar
