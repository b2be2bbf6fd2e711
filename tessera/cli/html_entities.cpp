#include "tessera/cli/html_entities.h"

#include <algorithm>
#include <charconv>

#include "tessera/text/unicode.h"

namespace tessera::cli {

namespace {

struct EntityName {
  std::string_view name;
  std::string_view character;
};

// Sorted by name.
constexpr EntityName kEntityNames[] = {
    {"Alpha", "Α"},     {"Aring", "Å"},     {"Auml", "Ä"},   {"Beta", "Β"},   {"Dagger", "‡"},      {"Delta", "Δ"},
    {"Gamma", "Γ"},     {"Lambda", "Λ"},    {"Omega", "Ω"},  {"Ouml", "Ö"},   {"Phi", "Φ"},         {"Pi", "Π"},
    {"Prime", "″"},     {"Psi", "Ψ"},       {"Sigma", "Σ"},  {"Theta", "Θ"},  {"Uuml", "Ü"},        {"aacute", "á"},
    {"agrave", "à"},    {"alpha", "α"},     {"amp", "&"},    {"apos", "'"},   {"asymp", "≈"},       {"auml", "ä"},
    {"beta", "β"},      {"bull", "•"},      {"cap", "∩"},    {"ccedil", "ç"}, {"cent", "¢"},        {"check", "✓"},
    {"chi", "χ"},       {"copy", "©"},      {"cup", "∪"},    {"dagger", "†"}, {"darr", "↓"},        {"deg", "°"},
    {"delta", "δ"},     {"divide", "÷"},    {"eacute", "é"}, {"egrave", "è"}, {"empty", "∅"},       {"emsp", "\u2003"},
    {"ensp", "\u2002"}, {"epsilon", "ε"},   {"equiv", "≡"},  {"eta", "η"},    {"euro", "€"},        {"exist", "∃"},
    {"forall", "∀"},    {"frac12", "½"},    {"frac14", "¼"}, {"frac34", "¾"}, {"gamma", "γ"},       {"ge", "≥"},
    {"gt", ">"},        {"hArr", "⇔"},      {"harr", "↔"},   {"hellip", "…"}, {"iexcl", "¡"},       {"infin", "∞"},
    {"int", "∫"},       {"iquest", "¿"},    {"isin", "∈"},   {"lArr", "⇐"},   {"lambda", "λ"},      {"laquo", "«"},
    {"larr", "←"},      {"lceil", "⌈"},     {"ldquo", "“"},  {"le", "≤"},     {"lfloor", "⌊"},      {"lsquo", "‘"},
    {"lt", "<"},        {"mdash", "—"},     {"micro", "µ"},  {"middot", "·"}, {"minus", "−"},       {"mu", "μ"},
    {"nabla", "∇"},     {"nbsp", "\u00A0"}, {"ndash", "–"},  {"ne", "≠"},     {"not", "¬"},         {"notin", "∉"},
    {"ntilde", "ñ"},    {"omega", "ω"},     {"or", "∨"},     {"ouml", "ö"},   {"para", "¶"},        {"part", "∂"},
    {"permil", "‰"},    {"phi", "φ"},       {"pi", "π"},     {"plusmn", "±"}, {"pound", "£"},       {"prime", "′"},
    {"prod", "∏"},      {"psi", "ψ"},       {"quot", "\""},  {"rArr", "⇒"},   {"raquo", "»"},       {"rarr", "→"},
    {"rceil", "⌉"},     {"rdquo", "”"},     {"reg", "®"},    {"rfloor", "⌋"}, {"rho", "ρ"},         {"rsquo", "’"},
    {"sect", "§"},      {"sigma", "σ"},     {"sub", "⊂"},    {"sum", "∑"},    {"sup", "⊃"},         {"sup2", "²"},
    {"sup3", "³"},      {"szlig", "ß"},     {"tau", "τ"},    {"theta", "θ"},  {"thinsp", "\u2009"}, {"times", "×"},
    {"trade", "™"},     {"uarr", "↑"},      {"uuml", "ü"},   {"xi", "ξ"},     {"yen", "¥"},         {"zeta", "ζ"},
};
static_assert(std::ranges::is_sorted(kEntityNames, {}, &EntityName::name));

// The character of "#123" or "#x7B", or "".
std::string numeric_entity(std::string_view name) {
  const bool is_hex = name.size() > 1 && (name[1] == 'x' || name[1] == 'X');
  const std::string_view digits = name.substr(is_hex ? 2 : 1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, is_hex ? 16 : 10);
  std::string out;
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return out;
  if (number == '\n' || number == '\r' || number > text::kMaxCodePoint) return out;
  const bool is_character = number != 0 && (number < 0xD800 || number > 0xDFFF);
  text::append_utf8(is_character ? number : text::kReplacementCodePoint, out);
  return out;
}

}  // namespace

HtmlEntity read_html_entity(std::string_view text) {
  constexpr size_t kMostBytes = 12;  // "&#1114111;" has 10
  const size_t end = text.substr(0, kMostBytes).find(';');
  if (end == std::string_view::npos || end < 2) return {};
  const std::string_view name = text.substr(1, end - 1);
  if (name[0] == '#') {
    std::string character = numeric_entity(name);
    return {character.empty() ? 0 : end + 1, std::move(character)};
  }
  const auto found = std::ranges::lower_bound(kEntityNames, name, {}, &EntityName::name);
  if (found == std::end(kEntityNames) || found->name != name) return {};
  return {end + 1, std::string(found->character)};
}

}  // namespace tessera::cli
