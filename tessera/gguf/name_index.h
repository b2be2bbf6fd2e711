// Finds a key or tensor by name. The index is a sorted list, so no choice of names makes it slow. Used by the metadata,
// the tensors of a file and the tensors of a split model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class NameIndex {
 public:
  struct Entry {
    std::string_view name;  // borrowed
    uint32_t position;
    auto operator<=>(const Entry&) const = default;
  };

  NameIndex() = default;
  explicit NameIndex(std::vector<Entry> entries) : entries_(std::move(entries)) { std::ranges::sort(entries_); }

  std::optional<uint32_t> find(std::string_view name) const {
    const auto at = std::ranges::lower_bound(entries_, name, std::less<>{}, &Entry::name);
    if (at == entries_.end() || at->name != name) return std::nullopt;
    return at->position;
  }

  /// Returns two positions with the same name, the lower first, if there are any.
  std::optional<std::pair<uint32_t, uint32_t>> duplicate() const {
    const auto at = std::ranges::adjacent_find(entries_, std::ranges::equal_to{}, &Entry::name);
    if (at == entries_.end()) return std::nullopt;
    return std::pair(at->position, std::next(at)->position);
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace tessera
