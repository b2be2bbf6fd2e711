#include "tessera/text/grammar/seen_values.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/text/grammar/number_language.h"

namespace tessera::text::grammar {

Expression SeenValues::texts_of(std::string_view lexeme, bool is_name) {
  // A comma and space may stand before a value, a colon after a name.
  lexeme.remove_prefix(std::min(lexeme.find_first_not_of(" \t\r\n,"), lexeme.size()));
  if (lexeme.starts_with('"')) {
    const size_t end = lexeme.rfind('"');
    const Expression inside = texts_of_string(lexeme.substr(1, std::max<size_t>(end, 1) - 1));
    return is_name ? inside : spelling_.quoted(inside);
  }
  const auto number = Decimal::parse(lexeme);
  if (!number) return arena_->literal(lexeme);
  return NumberLanguage(*arena_, spelling_.output().writing).equal(*number);
}

Expression SeenValues::texts_of_string(std::string_view inside) {
  if (spelling_.output().writing == JsonWriting::plain) return arena_->literal(inside);
  const auto value = nlohmann::json::parse("\"" + std::string(inside) + "\"", nullptr, false);
  return value.is_string() ? spelling_.text(value.get_ref<const std::string&>()) : ExpressionArena::kNothing;
}

}  // namespace tessera::text::grammar
