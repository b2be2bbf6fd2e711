// The front matter of a model card: the lines of README.md between two lines "---", in a part of YAML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::convert {

/// The most bytes of a card that is read.
inline constexpr uint64_t kMaxCardBytes = uint64_t{16} << 20;

/// A member of the outermost level, with its text, or the texts of its list. Others are left out.
struct CardField {
  std::string name{};
  std::vector<std::string> values{};

  bool operator==(const CardField&) const = default;
};

/// Texts may be quoted. Lists are lines "- TEXT", or "[TEXT, TEXT]". Empty if the card has no front matter. What it
/// cannot read, such as members of members, it leaves out: cards are written by hand, and no model depends on them.
std::vector<CardField> read_model_card(std::string_view card);

}  // namespace tessera::convert
