// Building blocks for messages as values of the template language.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "tessera/text/template/value.h"

namespace tessera::text {

/// A dict with trusted keys.
jinja::Value make_dict(jinja::Heap& heap, std::initializer_list<std::pair<std::string_view, jinja::Value>> members);
jinja::Value make_list(jinja::Heap& heap, std::initializer_list<jinja::Value> elements);

/// A copy of a dict or a list whose members are those of the original.
jinja::Value copy_dict(jinja::Heap& heap, const jinja::Value& dict);

void set_member(jinja::Heap& heap, const jinja::Value& dict, std::string_view name, const jinja::Value& value);

/// Returns a member of a dict; missing if there is none or the value is no dict.
jinja::Value member_of(const jinja::Value& dict, std::string_view name);

/// Returns the text of a member, or "" if it is no text.
std::string_view text_member(const jinja::Value& dict, std::string_view name);

/// The text that a prompt gains from add_generation_prompt: all behind the common prefix. A cut inside a mark such as
/// <|end|> moves back to its '<'.
std::string_view added_text(std::string_view without, std::string_view with);

}  // namespace tessera::text
