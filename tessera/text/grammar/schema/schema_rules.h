// A schema that is read once and written as rules in one or more spellings.
#pragma once

#include <expected>
#include <memory>
#include <string_view>

#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/schema/emit.h"

namespace tessera::text::grammar {

class SchemaSource {
 public:
  /// Errors: the text is no JSON within the limits, or its references cannot be read.
  static std::expected<SchemaSource, GrammarError> parse(std::string_view schema);

  const Document& document() const { return *document_; }
  const References& references() const { return references_; }
  Terms& terms() { return *terms_; }
  Term root() { return terms_->schema(0); }

 private:
  SchemaSource(std::unique_ptr<const Document> document, References references)
      : document_(std::move(document)), references_(std::move(references)), terms_(std::make_unique<Terms>()) {}

  std::unique_ptr<const Document> document_;
  References references_;
  std::unique_ptr<Terms> terms_;
};

/// The rules of a schema in one spelling.
struct SchemaRules {
  SchemaRules(SchemaSource& source, const GrammarParts& parts, const JsonSpelling& spelling,
              const SchemaOptions& options = {}, const ValueSyntax& syntax = kJsonSyntax,
              const FindToken& find_control = kNoControls)
      : algebra(parts.expressions, parts.lexemes, source.terms(), spelling),
        forms(source.document(), source.references(), algebra, options),
        emitter(forms, algebra, parts.rules, syntax, find_control) {}

  ShapeAlgebra algebra;
  NormalForms forms;
  SchemaEmitter emitter;
};

}  // namespace tessera::text::grammar
