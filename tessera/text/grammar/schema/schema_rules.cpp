#include "tessera/text/grammar/schema/schema_rules.h"

namespace tessera::text::grammar {

std::expected<SchemaSource, GrammarError> SchemaSource::parse(std::string_view schema) {
  const auto schema_error = [](std::string message) {
    return std::unexpected(GrammarError{.message = std::move(message), .is_of_schema = true});
  };
  auto parsed = Document::parse(schema);
  if (!parsed) return schema_error(std::string(parsed.error().message()));
  auto document = std::make_unique<const Document>(std::move(*parsed));
  auto references = References::create(*document);
  if (!references) return schema_error(references.error());
  return SchemaSource(std::move(document), std::move(*references));
}

}  // namespace tessera::text::grammar
