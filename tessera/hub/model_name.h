// Names of models on a hub, as users type them: user/repo[:TAG][@REVISION]. The tag selects a file by its quantization.
#pragma once

#include <string>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera::hub {

struct ModelName {
  std::string repository;  // "user/repo"
  std::string tag;         // "Q4_K_M"; "": none
  std::string revision;    // branch, tag or commit; "": the branch main
};

/// Parses a name. Both parts of a repository have letters, digits, '.', '-' and '_', at most 96, as the hub allows.
/// Errors: invalid_argument.
Result<ModelName> parse_model_name(std::string_view text);

/// Returns the name as users type it.
std::string to_string(const ModelName& name);

/// The revision's name, "main" if there is none.
std::string revision_or_main(const ModelName& name);

/// Whether a revision is the full hash of a commit, 40 hexadecimal digits.
bool is_commit(std::string_view revision);

/// Whether a text consists of n lowercase hexadecimal digits.
bool is_hex(std::string_view text, size_t n);

}  // namespace tessera::hub
