#include "tessera/cli/chat_settings.h"

#include <fmt/format.h>
#include <algorithm>

#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

struct ThinkingName {
  std::string_view name;
  Thinking thinking;
};
constexpr ThinkingName kThinkingNames[] = {
    {"auto", Thinking::automatic}, {"on", Thinking::on}, {"off", Thinking::off}, {"hide", Thinking::hide}};

Setter set_thinking(Thinking& target) {
  const auto set = [&target](std::string_view text) -> Result<> {
    const auto* found = std::ranges::find(kThinkingNames, text, &ThinkingName::name);
    if (found == std::end(kThinkingNames))
      return fail(ErrorCode::invalid_argument, "'{}' is not one of auto, on, off, hide", text);
    target = found->thinking;
    return {};
  };
  const auto* present = std::ranges::find(kThinkingNames, target, &ThinkingName::thinking);
  return Setter(set, std::string(present->name));
}

Setter set_on_or_off(bool& target) {
  const auto set = [&target](std::string_view text) -> Result<> {
    if (text != "on" && text != "off") return fail(ErrorCode::invalid_argument, "'{}' is not one of on, off", text);
    target = text == "on";
    return {};
  };
  return Setter(set, target ? "on" : "off");
}

// The name of a setting: that of its flag without dashes in front, and with dashes for underscores.
std::string setting_name(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string plain(name);
  std::ranges::replace(plain, '_', '-');
  return plain;
}

// The settings as a table whose flags all take a value. Switches become on or off.
FlagTable value_table(ChatSettings& settings) {
  FlagTable table;
  settings.add_to(table);
  table.rare("--verbose", "", "print counts and times after each reply", set_switch(settings.is_verbose));
  for (Flag& flag : table.flags) {
    if (flag.switched_on == nullptr) continue;
    Setter setter = set_on_or_off(*flag.switched_on);
    flag.value = "on|off";
    flag.set = std::move(setter.set);
    flag.default_text = std::move(setter.default_text);
  }
  std::erase_if(table.flags, [](const Flag& flag) { return flag.value.empty(); });
  return table;
}

// The place of a setting in a table. Errors: not_found.
Result<size_t> find_setting(const FlagTable& table, std::string_view name) {
  const std::string plain = setting_name(name);
  std::vector<std::string> names;
  for (size_t i = 0; i < table.flags.size(); ++i) {
    names.push_back(setting_name(table.flags[i].name));
    for (const std::string& alias : table.flags[i].aliases) names.push_back(setting_name(alias));
    if (std::ranges::count(names, plain) > 0) return i;
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = nearest(plain, views);
  return fail(ErrorCode::not_found, "unknown setting {}{}", text::quote_text(name),
              near.empty() ? ", /set lists them" : fmt::format(", did you mean {}?", near));
}

}  // namespace

void ChatSettings::add_to(FlagTable& table) {
  table.common("--predict -n --n-predict", "N", "largest number of tokens of a reply; -1: until the model ends it",
               set_integer(n_predict, -1, INT32_MAX));
  table.common("--think", "MODE", "reasoning before the answer: auto (as the template), on, off, hide (on, not shown)",
               set_thinking(thinking));
  table.rare("--reasoning-effort", "LEVEL", "effort of reasoning, for templates that know it: low, medium, high, none",
             set_string(reasoning_effort));
  table.rare("--free-calls", "", "let the model write calls of tools in any way, also wrong ones",
             set_switch(has_free_calls));
  table.rare("--context-shift", "", "when the context is full, leave out the oldest turns (default)",
             set_switch(drops_turns));
  table.rare("--no-context-shift", "", "when the context is full, end the reply", set_switch(drops_turns, false));
  sampling.add_to(table);
}

Result<> ChatSettings::check() { return sampling.check(); }

Result<> ChatSettings::set(std::string_view name, std::string_view value) {
  ChatSettings changed = *this;
  const FlagTable table = value_table(changed);
  TESSERA_ASSIGN(const size_t i, find_setting(table, name));
  const std::string plain = setting_name(table.flags[i].name);
  auto set = table.flags[i].set(value);
  if (!set) return forward_error(set, plain);
  changed.texts_[plain] = value;
  TESSERA_TRY(changed.check());
  *this = std::move(changed);
  return {};
}

Result<ShownSetting> ChatSettings::get(std::string_view name) const {
  ChatSettings copy = *this;
  TESSERA_ASSIGN(const size_t i, find_setting(value_table(copy), name));
  return all()[i];
}

std::vector<ShownSetting> ChatSettings::all() const {
  ChatSettings copy = *this;
  std::vector<ShownSetting> rows;
  const FlagTable table = value_table(copy);
  for (const Flag& flag : table.flags) {
    const std::string name = setting_name(flag.name);
    const auto text = texts_.find(name);
    rows.push_back({name, text == texts_.end() ? flag.default_text : text->second, flag.help});
  }
  return rows;
}

std::vector<ShownSetting> ChatSettings::changed() const {
  const std::vector<ShownSetting> defaults = ChatSettings().all();
  std::vector<ShownSetting> rows = all();
  std::erase_if(rows, [&](const ShownSetting& row) {
    return row.value == std::ranges::find(defaults, row.name, &ShownSetting::name)->value;
  });
  return rows;
}

void ChatSettings::apply_to(ChatOptions& options) const {
  options.sampling = sampling.seeded();
  options.generate.n_predict = n_predict;
  options.generate.ignore_end = sampling.ignore_eos;
  options.drops_turns = drops_turns;
  options.constrains_calls = !has_free_calls;
  options.reply.seed = static_cast<uint64_t>(options.sampling.seed);
  options.enable_thinking.reset();
  if (thinking != Thinking::automatic) options.enable_thinking = thinking != Thinking::off;
  options.reasoning_effort.reset();
  if (!reasoning_effort.empty()) options.reasoning_effort = reasoning_effort;
}

}  // namespace tessera::cli
