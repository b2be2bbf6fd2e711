// The table of the line editor's keys (edit_keys.def), for the editor and for the chat's help.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/cli/key_decoder.h"

namespace tessera::cli {

enum class EditAction : uint8_t {
#define TESSERA_EDIT_KEY(keys, action, description) action,
#include "tessera/cli/edit_keys.def"
#undef TESSERA_EDIT_KEY
};

struct EditKeyRow {
  std::string_view keys;  // names, separated by ", "
  EditAction action;
  std::string_view description;
};

/// The rows of the table, in its order.
std::span<const EditKeyRow> edit_key_rows();

/// The action of a key. Nothing for characters and unknown keys.
std::optional<EditAction> find_edit_action(const Key& key);

}  // namespace tessera::cli
