// Finds a text among many, each named by its number.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/json/key_table.h"

namespace tessera::convert {

/// Texts are borrowed. The hash has a secret, so no file can make it slow.
class TextIndex {
 public:
  /// For at most this many texts.
  explicit TextIndex(size_t n_texts) : slots_(std::bit_ceil(2 * n_texts + 2)) {}

  /// False if the text is known: it keeps its number.
  bool add(std::string_view text, uint32_t number) {
    Slot& slot = slots_[slot_of(text)];
    if (slot.is_used) return false;
    slot = {text, number, true};
    return true;
  }

  std::optional<uint32_t> find(std::string_view text) const {
    const Slot& slot = slots_[slot_of(text)];
    if (!slot.is_used) return std::nullopt;
    return slot.number;
  }

 private:
  struct Slot {
    std::string_view text{};
    uint32_t number = 0;
    bool is_used = false;
  };

  size_t slot_of(std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(secret_hash(text)) & mask;
    while (slots_[at].is_used && slots_[at].text != text) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace tessera::convert
