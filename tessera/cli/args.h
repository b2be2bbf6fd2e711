// Flags as a table. A command lists its flags once. Parsing, environment variables, help, man pages and completions all
// use that list.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

struct Context;

/// Sets the target of a flag from the text of its value ("" for a switch).
using SetValue = std::function<Result<>(std::string_view)>;

/// A function that sets a flag's target, and the target's default as text.
struct Setter {
  SetValue set;
  std::string default_text{};
  bool* switched_on = nullptr;  // of a switch: the target that it sets to true

  template <class F>
  requires std::is_invocable_r_v<Result<>, F&, std::string_view> Setter(F function, std::string text = {})
      : set(std::move(function)), default_text(std::move(text)) {}
};

enum class Shown : uint8_t { always, with_all };  // with_all: only by --help-all

struct EnvironmentName {
  std::string name;
  bool is_inverted = false;  // of a switch: an "off" in the variable sets the flag
};

struct Flag {
  std::string name;                  // "--ctx-size"; its environment variable is TESSERA_CTX_SIZE
  std::vector<std::string> aliases;  // "-c"
  std::string value;                 // "N", "START END" for two words; empty for a switch
  std::string help;                  // one line
  std::string default_text;          // printed after the help; empty: no default
  Shown shown = Shown::with_all;
  SetValue set;
  bool* switched_on = nullptr;                 // see Setter
  std::vector<EnvironmentName> environment{};  // further variables; the first one that is set counts
};

struct FlagTable {
  std::vector<Flag> flags;
  std::string positional;  // "IN.gguf"; empty: no positional arguments
  std::function<Result<>(std::string_view)> add_positional;
  /// Runs after the check of all flags and before the command: downloads the model that a flag names. May be empty.
  std::function<Result<>(const Context&)> before_run;

  /// Adds a flag that -h shows. names: "--ctx-size -c", the aliases last. Help prints the target's present value as the
  /// default, or default_text in its place ("": none).
  void common(std::string_view names, std::string value, std::string help, Setter setter,
              std::optional<std::string> default_text = {}) {
    add(Shown::always, names, std::move(value), std::move(help), std::move(setter), std::move(default_text));
  }
  /// Adds a flag that only --help-all shows.
  void rare(std::string_view names, std::string value, std::string help, Setter setter,
            std::optional<std::string> default_text = {}) {
    add(Shown::with_all, names, std::move(value), std::move(help), std::move(setter), std::move(default_text));
  }
  /// Returns a flag of the table, which must exist.
  Flag& at(std::string_view name);

 private:
  void add(Shown shown, std::string_view names, std::string value, std::string help, Setter setter,
           std::optional<std::string> default_text);
};

/// Sets flags from the environment, then from an argument list. Both "--flag value" and "--flag=value" are valid,
/// "--the_flag" is "--the-flag", and "--" ends the flags. Errors: invalid_argument. The error of an unknown flag names
/// the nearest known one.
Result<> parse(const FlagTable& table, std::span<const std::string_view> args);

/// Whether the value of a switch in an environment variable or a file is on: 1, true, on, enabled, or nothing for on;
/// 0, false, off, disabled. Errors: invalid_argument.
Result<bool> parse_switch(std::string_view text);

/// Returns "TESSERA_CTX_SIZE" for "--ctx-size" and the prefix "TESSERA_".
std::string environment_name(std::string_view flag, std::string_view prefix = "TESSERA_");

/// Returns the flag with this name or alias, or null. Long names may have underscores.
const Flag* find_flag(const FlagTable& table, std::string_view name);

/// Returns the nearest of the known names, or "" if none is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// Setters for common kinds of values. Their targets must outlive the table.

Setter set_switch(bool& target, bool value = true);
Setter set_string(std::string& target);
Setter set_integer(int64_t& target, int64_t min, int64_t max);
Setter set_integer(int32_t& target, int32_t min, int32_t max);
/// Accepts a finite number; '.' is the decimal point in every locale.
Setter set_real(float& target, float min, float max);

/// Returns the setter extended to set is_given when its flag occurs.
Setter noting(bool& is_given, Setter setter);

Result<int64_t> parse_integer(std::string_view text, int64_t min, int64_t max);
Result<float> parse_real(std::string_view text, float min, float max);
/// Parses a number of bytes: "512M" and "1.5GiB" in powers of 1024, "16GB" in powers of 1000, "4096".
Result<uint64_t> parse_bytes(std::string_view text);
/// Parses token ids: "1,2,3", "1 2 3" or "[1, 2, 3]".
Result<std::vector<int32_t>> parse_ids(std::string_view text);

}  // namespace tessera::cli
