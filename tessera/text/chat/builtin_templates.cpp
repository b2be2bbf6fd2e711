#include "tessera/text/chat/builtin_templates.h"

#include <algorithm>
#include <array>

namespace tessera::text {
namespace {

struct Row {
  std::string_view name;
  std::string_view source;
};

#define TESSERA_CHAT_TEMPLATE(name, source) Row{name, source},
constexpr std::array kRows{
#include "tessera/text/chat/builtin_templates.def"
};
#undef TESSERA_CHAT_TEMPLATE

}  // namespace

std::optional<std::string_view> find_builtin_template(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  return row == kRows.end() ? std::nullopt : std::optional(row->source);
}

std::vector<std::string_view> builtin_template_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

}  // namespace tessera::text
