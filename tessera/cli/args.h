// Flags as a table. A command lists its flags once; parsing, environment variables, help, man pages and completions all
// come from that list.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

struct Flag {
  std::string name;                                 // "--ctx-size"; its environment variable is TESSERA_CTX_SIZE
  std::vector<std::string> aliases{};               // "-c"
  std::string value{};                              // "N", "START END" for two words; empty for a switch
  std::string help{};                               // one line
  std::string default_text{};                       // as help prints it; empty: none
  bool is_common = false;                           // shown by -h, not only by --help-all
  std::function<Result<>(std::string_view)> set{};  // the text of the value; "" for a switch
};

struct FlagTable {
  std::vector<Flag> flags;
  std::string positional;  // "IN.gguf"; empty: none are taken
  std::function<Result<>(std::string_view)> add_positional;
};

/// Sets the flags of an argument list, after those that the environment sets. "--flag value" and "--flag=value"; "--"
/// ends the flags. Errors: invalid_argument; an unknown flag names the nearest known one.
Result<> parse(const FlagTable& table, std::span<const std::string_view> args);

/// "TESSERA_CTX_SIZE" for "--ctx-size".
std::string environment_name(std::string_view flag);

/// The nearest of these names, or "" when none is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// Setters for common kinds of values. They and the bounds they check outlive the table.

std::function<Result<>(std::string_view)> set_switch(bool& target, bool value = true);
std::function<Result<>(std::string_view)> set_string(std::string& target);
std::function<Result<>(std::string_view)> set_integer(int64_t& target, int64_t min, int64_t max);
std::function<Result<>(std::string_view)> set_integer(int32_t& target, int32_t min, int32_t max);
/// A finite number; '.' is the decimal point in every locale.
std::function<Result<>(std::string_view)> set_real(float& target, float min, float max);

Result<int64_t> parse_integer(std::string_view text, int64_t min, int64_t max);
Result<float> parse_real(std::string_view text, float min, float max);
/// A number of bytes: "512M" and "1.5GiB" in powers of 1024, "16GB" in powers of 1000, "4096".
Result<uint64_t> parse_bytes(std::string_view text);
/// Token ids: "1,2,3", "1 2 3" or "[1, 2, 3]".
Result<std::vector<int32_t>> parse_ids(std::string_view text);

}  // namespace tessera::cli
