// Chat templates that a user can name: --chat-template chatml.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace tessera::text {

/// Returns the source of a built-in template, or nothing for an unknown name.
std::optional<std::string_view> find_builtin_template(std::string_view name);

/// The names in the order of builtin_templates.def.
std::vector<std::string_view> builtin_template_names();

}  // namespace tessera::text
