// The settings of a chat that can change between two replies: by flags, by /set and /think, and by a saved chat. All
// three use one flag table, so a setting has one name and one check.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/sampling_args.h"
#include "tessera/engine/chat_session.h"

namespace tessera::cli {

/// Whether the model reasons before it answers, and whether that is shown.
enum class Thinking : uint8_t {
  automatic,  // as the template does by itself
  on,
  off,
  hide,  // on, but not shown
};

/// A setting as /set lists it.
struct ShownSetting {
  std::string name;   // "temp", the flag without dashes
  std::string value;  // as text
  std::string help;
};

struct ChatSettings {
  SamplingArgs sampling;
  int64_t n_predict = -1;       // of a reply
  bool drops_turns = true;      // see ChatOptions
  bool has_free_calls = false;  // calls of tools need not fit the schemas
  bool is_verbose = false;      // print counts and times after each reply
  Thinking thinking = Thinking::automatic;
  std::string reasoning_effort;

  /// Adds the flags of the settings. The targets are members of this object.
  void add_to(FlagTable& table);
  /// Checks all settings together. Errors: invalid_argument.
  Result<> check();

  /// Sets one setting. Names are those of flags, with or without dashes. After an error nothing has changed. Errors:
  /// not_found (with the nearest name); invalid_argument.
  Result<> set(std::string_view name, std::string_view value);
  /// Errors: not_found (with the nearest name).
  Result<ShownSetting> get(std::string_view name) const;
  /// All settings, in the order of the flags.
  std::vector<ShownSetting> all() const;
  /// The settings that differ from the program's defaults, as names and values for set().
  std::vector<ShownSetting> changed() const;

  /// Fills in the options of a reply. A negative seed is replaced by a random one.
  void apply_to(ChatOptions& options) const;

 private:
  std::map<std::string, std::string> texts_;  // values set by set()
};

}  // namespace tessera::cli
