#include "tessera/cli/edit_keys.h"

#include <algorithm>
#include <string>

namespace tessera::cli {

namespace {

constexpr EditKeyRow kEditKeyRows[] = {
#define TESSERA_EDIT_KEY(keys, action, description) {keys, EditAction::action, description},
#include "tessera/cli/edit_keys.def"
#undef TESSERA_EDIT_KEY
};

bool names_key(std::string_view keys, std::string_view name) {
  while (!keys.empty()) {
    const size_t end = std::min(keys.find(", "), keys.size());
    if (keys.substr(0, end) == name) return true;
    keys.remove_prefix(std::min(end + 2, keys.size()));
  }
  return false;
}

}  // namespace

std::span<const EditKeyRow> edit_key_rows() { return kEditKeyRows; }

std::optional<EditAction> find_edit_action(const Key& key) {
  const bool is_text = key.code == KeyCode::character && !key.has_alt && !key.has_ctrl;
  if (is_text || key.code == KeyCode::paste) return std::nullopt;
  const std::string name = key_name(key);
  for (const EditKeyRow& row : kEditKeyRows)
    if (names_key(row.keys, name)) return row.action;
  return std::nullopt;
}

}  // namespace tessera::cli
