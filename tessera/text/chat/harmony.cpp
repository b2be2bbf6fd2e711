#include "tessera/text/chat/harmony.h"

namespace tessera::text {
namespace {

// Returns the word after `mark`, up to a blank or the next mark.
std::string_view word_after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == text.npos) return {};
  text.remove_prefix(at + mark.size());
  return text.substr(0, text.find_first_of(" \t\r\n<"));
}

}  // namespace

std::string_view HarmonyHeader::tool() const {
  constexpr std::string_view kPrefix = "functions.";
  return recipient.starts_with(kPrefix) ? recipient.substr(kPrefix.size()) : recipient;
}

HarmonyHeader parse_harmony_header(std::string_view text) {
  return {word_after(text, "<|channel|>"), word_after(text, "to=")};
}

}  // namespace tessera::text
