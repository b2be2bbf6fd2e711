#include "tessera/cli/call_text.h"

#include <fmt/format.h>

#include "tessera/text/chat/json_view.h"

namespace tessera::cli {

std::string call_text(std::string_view name, std::string_view arguments) {
  const auto members = text::json_members(arguments);
  if (!members) return fmt::format("{}({})", name, arguments);
  std::string shown;
  for (const text::JsonMember& member : *members)
    shown += fmt::format("{}{}={}", shown.empty() ? "" : ", ", member.key, member.value);
  return fmt::format("{}({})", name, shown);
}

}  // namespace tessera::cli
