// The config.json of a model as the hubs store it. Names differ between classes of models, so each value is looked up
// by a list of names, of which the first one counts.
#pragma once

#include <cstdint>
#include <expected>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/source/checkpoint.h"
#include "tessera/json/json.h"

namespace tessera::convert {

class HubConfig {
 public:
  using Names = std::initializer_list<std::string_view>;

  /// Reads config.json of a checkpoint, or what it has in its place. Errors: not_found (none); format (no object);
  /// those of reading JSON.
  static Result<HubConfig> read(const Checkpoint& checkpoint);
  /// path: for errors. A model of several parts has the config of its language model in a member, such as text_config:
  /// the values of that member hide the outer ones.
  static Result<HubConfig> of(const Json& config, std::string path);

  /// architectures[0], of the language model if it has one; "" if there is none.
  const std::string& class_name() const { return class_name_; }
  const std::string& path() const { return path_; }

  /// The value of the first name that the config has; null if it has none. A value of null counts as none.
  const Json* find(Names names) const;

  // The same as a value of a type. Errors: format (another type; a number outside of [least, most], or not finite).
  Result<std::optional<int64_t>> integer(Names names, int64_t least, int64_t most) const;
  Result<std::optional<double>> number(Names names) const;
  Result<std::optional<bool>> flag(Names names) const;
  Result<std::optional<std::string>> text(Names names) const;
  Result<std::optional<std::vector<int64_t>>> integers(Names names, int64_t least, int64_t most) const;

  /// integer() where the model cannot do without. Error: not_found (names the first name).
  Result<int64_t> require_integer(Names names, int64_t least, int64_t most) const;

 private:
  HubConfig() = default;
  std::unexpected<Error> wrong(std::string_view name, const Json& value, std::string_view want) const;
  std::optional<std::string_view> name_of(Names names) const;

  std::string path_, class_name_;
  std::shared_ptr<const Json> config_;
};

}  // namespace tessera::convert
