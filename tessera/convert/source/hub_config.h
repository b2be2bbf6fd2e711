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
#include <utility>
#include <vector>

#include "tessera/convert/source/checkpoint.h"
#include "tessera/json/json.h"

namespace tessera::convert {

class HubConfig {
 public:
  /// Names of one value, of which the first that the config has counts. A dot leads into a member:
  /// "rope_scaling.factor".
  class Names {
   public:
    Names(std::initializer_list<std::string_view> names) : names_(names) {}
    explicit Names(std::vector<std::string_view> names) : names_(std::move(names)) {}
    auto begin() const { return names_.begin(); }
    auto end() const { return names_.end(); }

   private:
    std::vector<std::string_view> names_;
  };

  /// Reads config.json of a checkpoint, or what it has in its place. Errors: not_found (none); format (no object);
  /// those of reading JSON.
  static Result<HubConfig> read(const Checkpoint& checkpoint);
  /// Reads config.json of a folder. Errors: the same.
  static Result<HubConfig> read(const std::string& folder);
  /// path: for errors. A model of several parts has the config of its language model in a member, such as text_config:
  /// the values of that member hide the outer ones.
  static Result<HubConfig> of(std::shared_ptr<const Json> config, std::string path);
  static Result<HubConfig> of(const Json& config, std::string path);  // keeps a copy
  /// The same for a member of a value that the config has found: it is kept with this config.
  Result<HubConfig> member(const Json& value, std::string path) const;

  /// architectures[0], of the language model if it has one; "" if there is none.
  const std::string& class_name() const { return class_name_; }
  const std::string& path() const { return path_; }

  /// The value of the first name that the config has; null if it has none. A value of null counts as none.
  const Json* find(const Names& names) const;

  // The same as a value of a type. Errors: format (another type; a number outside of [least, most], or not finite).
  Result<std::optional<int64_t>> integer(const Names& names, int64_t least, int64_t most) const;
  Result<std::optional<double>> number(const Names& names) const;
  Result<std::optional<bool>> flag(const Names& names) const;
  Result<std::optional<std::string>> text(const Names& names) const;
  Result<std::optional<std::vector<int64_t>>> integers(const Names& names, int64_t least, int64_t most) const;

  /// integer() where the model cannot do without. Error: not_found (names the first name).
  Result<int64_t> require_integer(const Names& names, int64_t least, int64_t most) const;

 private:
  HubConfig() = default;
  std::unexpected<Error> wrong(std::string_view name, const Json& value, std::string_view want) const;
  const Json* value_of(std::string_view name) const;
  std::optional<std::string_view> name_of(const Names& names) const;

  std::string path_, class_name_;
  std::shared_ptr<const Json> config_;
  const Json* language_model_ = nullptr;  // a member of the config, or null
};

}  // namespace tessera::convert
