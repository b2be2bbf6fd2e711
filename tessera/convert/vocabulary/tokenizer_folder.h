// A folder with the files of a tokenizer, and the configs that its readers need.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/json/json.h"

namespace tessera::convert {

/// The largest file that is read whole.
inline constexpr uint64_t kMaxTokenizerBytes = 100'000'000;

struct VocabularyOptions {
  std::string pre{};  // the name of the pre-tokenizer; empty: found by its steps
};

class TokenizerFolder {
 public:
  /// Reads tokenizer_config.json, if the folder has one. Errors: format (no object); those of reading JSON.
  static Result<TokenizerFolder> open(std::string folder, const HubConfig& config, VocabularyOptions options,
                                      std::vector<std::string>& warnings);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const { return path_ + "/" + std::string(name); }
  const HubConfig& config() const { return config_; }
  const VocabularyOptions& options() const { return options_; }

  /// A value of tokenizer_config.json; null if there is none. A value of null counts as none.
  const Json* setting(std::string_view name) const;
  /// The same where it is true or false; nothing for other types.
  std::optional<bool> flag_setting(std::string_view name) const;
  /// The text of a token of tokenizer_config.json, such as bos_token: a string, or the content of an object.
  std::optional<std::string> token_setting(std::string_view name) const;
  /// The texts of all tokens that tokenizer_config.json names: NAME_token, additional_special_tokens and
  /// extra_special_tokens. Sorted.
  std::vector<std::string> named_tokens() const;

  /// The first of these files that the folder has.
  std::optional<std::string> first_of(std::initializer_list<std::string_view> names) const;
  /// The names of the files in the folder, or in a folder in it, that begin and end like this, sorted. None if there is
  /// no such folder. Error: limit.
  Result<std::vector<std::string>> names_like(std::string_view subfolder, std::string_view begin,
                                              std::string_view end) const;
  /// Errors: those of read_file().
  Result<std::string> read_text(std::string_view name) const;
  /// Null if the folder has no such file. Errors: those of read_json_tree(), with the path.
  Result<JsonTree> read_json_file(std::string_view name) const;

  void warn(std::string line) const { warnings_->push_back(std::move(line)); }

 private:
  TokenizerFolder(std::string path, const HubConfig& config, VocabularyOptions options,
                  std::vector<std::string>& warnings)
      : path_(std::move(path)), config_(config), options_(std::move(options)), warnings_(&warnings) {}

  std::string path_;
  HubConfig config_;
  VocabularyOptions options_;
  std::vector<std::string>* warnings_;
  std::shared_ptr<const Json> settings_;  // tokenizer_config.json; an empty object if there is none
};

}  // namespace tessera::convert
