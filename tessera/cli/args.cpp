#include "tessera/cli/args.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tessera/base/index.h"

namespace tessera::cli {

namespace {

std::unexpected<Error> unknown_flag(const FlagTable& table, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Flag& flag : table.flags) {
    known.push_back(flag.name);
    known.insert(known.end(), flag.aliases.begin(), flag.aliases.end());
  }
  const std::string_view near = nearest(name, known);
  if (near.empty()) return fail(ErrorCode::invalid_argument, "unknown flag {} (--help-all lists them)", name);
  return fail(ErrorCode::invalid_argument, "unknown flag {}; did you mean {}?", name, near);
}

Result<> set_from_variable(const Flag& flag, const EnvironmentName& variable, std::string_view text) {
  if (flag.value.empty()) {
    const auto is_on = parse_switch(text);
    if (!is_on) return fail(ErrorCode::invalid_argument, "{}={}: want 0 or 1", variable.name, text);
    if (*is_on == variable.is_inverted) return {};
    text = {};
  }
  auto set = flag.set(text);
  if (!set) return forward_error(set, variable.name);
  return {};
}

Result<> set_from_environment(const FlagTable& table) {
  for (const Flag& flag : table.flags) {
    std::vector<EnvironmentName> variables = flag.environment;
    variables.insert(variables.begin(), {.name = environment_name(flag.name)});
    for (const EnvironmentName& variable : variables) {
      const char* value = std::getenv(variable.name.c_str());
      if (value == nullptr) continue;
      // An empty variable of a switch counts as absent.
      if (*value != 0 || !flag.value.empty()) TESSERA_TRY(set_from_variable(flag, variable, value));
      break;
    }
  }
  return {};
}

// A negative number is a value, not a flag.
bool looks_like_flag(std::string_view arg) {
  return arg.size() > 1 && arg[0] == '-' && !(arg[1] >= '0' && arg[1] <= '9') && arg[1] != '.';
}

}  // namespace

const Flag* find_flag(const FlagTable& table, std::string_view given) {
  std::string name(given);
  if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
  for (const Flag& flag : table.flags)
    if (flag.name == name || std::ranges::find(flag.aliases, name) != flag.aliases.end()) return &flag;
  return nullptr;
}

void FlagTable::add(Shown shown, std::string_view names, std::string value, std::string help, Setter setter,
                    std::optional<std::string> default_text) {
  Flag flag{.name = std::string(names.substr(0, names.find(' '))),
            .aliases = {},
            .value = std::move(value),
            .help = std::move(help),
            .default_text = default_text ? std::move(*default_text) : std::move(setter.default_text),
            .shown = shown,
            .set = std::move(setter.set),
            .switched_on = setter.switched_on};
  for (size_t space; (space = names.find(' ')) != std::string_view::npos;) {
    names.remove_prefix(space + 1);
    flag.aliases.emplace_back(names.substr(0, names.find(' ')));
  }
  flags.push_back(std::move(flag));
}

Flag& FlagTable::at(std::string_view name) { return *std::ranges::find(flags, name, &Flag::name); }

Result<> parse(const FlagTable& table, std::span<const std::string_view> args) {
  TESSERA_TRY(set_from_environment(table));
  bool flags_ended = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (flags_ended || !looks_like_flag(arg)) {
      if (!table.add_positional) return fail(ErrorCode::invalid_argument, "unexpected argument '{}'", arg);
      TESSERA_TRY(table.add_positional(arg));
      continue;
    }
    if (arg == "--") {
      flags_ended = true;
      continue;
    }
    const size_t equals = arg.substr(0, 2) == "--" ? arg.find('=') : std::string_view::npos;
    const std::string_view name = arg.substr(0, equals);
    const Flag* flag = find_flag(table, name);
    if (flag == nullptr) return unknown_flag(table, name);
    std::string_view value;
    std::string words;  // a value that consists of several arguments
    if (flag->value.empty()) {
      if (equals != std::string_view::npos) return fail(ErrorCode::invalid_argument, "{} takes no value", name);
    } else if (equals != std::string_view::npos) {
      value = arg.substr(equals + 1);
    } else if (const auto n_more = to_size(std::ranges::count(flag->value, ' ')); i + 1 + n_more < args.size()) {
      value = args[++i];
      if (find_flag(table, value) != nullptr)
        return fail(ErrorCode::invalid_argument, "{} wants a value: {}, got the flag {} ({}={} if it is one)", name,
                    flag->value, value, flag->name, value);
      if (n_more > 0) words = value;
      for (size_t n = 0; n < n_more; ++n) words.append(" ").append(args[++i]);
    } else {
      return fail(ErrorCode::invalid_argument, "{} wants a value: {}", name, flag->value);
    }
    auto set = flag->set(words.empty() ? value : words);
    if (!set) return forward_error(set, name);
  }
  return {};
}

Result<bool> parse_switch(std::string_view text) {
  for (const std::string_view on : {"1", "true", "on", "enabled", ""})
    if (text == on) return true;
  for (const std::string_view off : {"0", "false", "off", "disabled"})
    if (text == off) return false;
  return fail(ErrorCode::invalid_argument, "'{}' is none of on and off", text);
}

std::string environment_name(std::string_view flag, std::string_view prefix) {
  std::string name(prefix);
  for (const char c : flag.substr(flag.find_first_not_of('-')))
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = name.size() / 3 + 2;  // a larger distance is not a typing error
  // Edit distance in which swapping neighbours is one edit (optimal string alignment). Three rows of the table suffice.
  std::vector<size_t> before, previous, row;
  for (const std::string_view candidate : known) {
    previous.resize(candidate.size() + 1);
    std::iota(previous.begin(), previous.end(), size_t{0});
    before = row = previous;
    for (size_t i = 1; i <= name.size(); ++i) {
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        const bool same = name[i - 1] == candidate[j - 1];
        row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
        const bool swapped = i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1];
        if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
      }
      std::swap(before, previous);
      std::swap(previous, row);
    }
    if (previous.back() < best_distance) {
      best_distance = previous.back();
      best = candidate;
    }
  }
  return best;
}

Result<int64_t> parse_integer(std::string_view text, int64_t min, int64_t max) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range || (error == std::errc() && (value < min || value > max)))
    return fail(ErrorCode::invalid_argument, "{} is out of range, want {} to {}", text, min, max);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(ErrorCode::invalid_argument, "'{}' is not a whole number", text);
  return value;
}

Result<float> parse_real(std::string_view text, float min, float max) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(ErrorCode::invalid_argument, "'{}' is not a number", text);
  if (!(value >= min && value <= max))
    return fail(ErrorCode::invalid_argument, "{} is out of range, want {} to {}", text, min, max);
  return value;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kPrefixes = "KMGT";
  constexpr double kMaxBytes = 9.2e18;  // below 2^63
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, to_size(text.data() + text.size() - end));
  double scale = 1;
  bool is_size = error == std::errc() && std::isfinite(value);
  if (is_size && !unit.empty() && unit != "B") {
    const size_t power = kPrefixes.find(unit[0]);
    const std::string_view suffix = unit.substr(1);
    is_size = power != std::string_view::npos && (suffix.empty() || suffix == "B" || suffix == "iB");
    scale = is_size ? std::pow(suffix == "B" ? 1000.0 : 1024.0, static_cast<double>(power + 1)) : 1;
  }
  if (!is_size) return fail(ErrorCode::invalid_argument, "'{}' is not a size: want e.g. 12G, 512M, 1.5GiB, 16GB", text);
  if (!(value * scale >= 1 && value * scale <= kMaxBytes))
    return fail(ErrorCode::invalid_argument, "{} is out of range, want 1 byte to 8388607T", text);
  return static_cast<uint64_t>(value * scale);
}

Result<std::vector<int32_t>> parse_ids(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto trim = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  };
  trim();
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
    trim();
  }
  std::vector<int32_t> ids;
  while (!text.empty()) {
    auto id = parse_integer(text.substr(0, text.find_first_of(", \t\r\n")), 0, INT32_MAX);
    if (!id) return forward_error(id, fmt::format("token {}", ids.size()));
    ids.push_back(static_cast<int32_t>(*id));
    text.remove_prefix(std::min(text.find_first_of(", \t\r\n"), text.size()));
    trim();
    if (text.empty() || text[0] != ',') continue;
    text.remove_prefix(1);
    trim();
    if (text.empty()) return fail(ErrorCode::invalid_argument, "token {}: nothing follows the comma", ids.size());
  }
  return ids;
}

Setter set_switch(bool& target, bool value) {
  Setter setter([&target, value](std::string_view) -> Result<> {
    target = value;
    return {};
  });
  setter.switched_on = value ? &target : nullptr;
  return setter;
}

Setter set_string(std::string& target) {
  const auto set = [&target](std::string_view text) -> Result<> {
    target = text;
    return {};
  };
  return Setter(set, target);
}

Setter set_integer(int64_t& target, int64_t min, int64_t max) {
  const auto set = [&target, min, max](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(target, parse_integer(text, min, max));
    return {};
  };
  return Setter(set, fmt::format("{}", target));
}

Setter set_integer(int32_t& target, int32_t min, int32_t max) {
  const auto set = [&target, min, max](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(const int64_t value, parse_integer(text, min, max));
    target = static_cast<int32_t>(value);
    return {};
  };
  return Setter(set, fmt::format("{}", target));
}

Setter set_real(float& target, float min, float max) {
  const auto set = [&target, min, max](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(target, parse_real(text, min, max));
    return {};
  };
  return Setter(set, fmt::format("{}", target));
}

Setter noting(bool& is_given, Setter setter) {
  const auto set = [&is_given, set = std::move(setter.set)](std::string_view text) {
    is_given = true;
    return set(text);
  };
  return Setter(set, std::move(setter.default_text));
}

}  // namespace tessera::cli
