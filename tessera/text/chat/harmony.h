// Headers of harmony messages (gpt-oss): "<|channel|>commentary to=functions.f <|constrain|>json<|message|>".
#pragma once

#include <string_view>

namespace tessera::text {

struct HarmonyHeader {
  std::string_view channel;    // "analysis", "commentary", "final" or ""
  std::string_view recipient;  // "functions.f", "assistant" or ""

  bool is_for_tool() const { return !recipient.empty() && recipient != "assistant"; }
  /// Returns the name of the tool, without "functions.".
  std::string_view tool() const;
};

/// Reads the text of a header up to its <|message|>.
HarmonyHeader parse_harmony_header(std::string_view text);

}  // namespace tessera::text
