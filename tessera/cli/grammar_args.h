// Flags of a grammar that a text must follow: GBNF, JSON Schema or a regular expression.
#pragma once

#include <memory>
#include <string>

#include "tessera/cli/command.h"
#include "tessera/text/grammar/grammar.h"
#include "tessera/text/vocab.h"

namespace tessera::cli {

inline constexpr uint64_t kMaxGrammarBytes = uint64_t{1} << 20;

/// Reads "order=any,space=none,spelling=plain", of which each part may be absent. Errors: invalid_argument.
Result<text::grammar::JsonOutput> json_output_from(std::string_view text);

struct GrammarArgs {
  std::string gbnf, gbnf_file;
  std::string schema, schema_file;
  std::string regex;
  text::grammar::JsonOutput output{};
  bool enforces_formats = true;

  void add_to(FlagTable& table);
  void add_json_flags_to(FlagTable& table);
  bool is_given() const;
  /// Errors: invalid_argument (more than one grammar).
  Result<> check() const;
  /// The grammar, or null if none is given. vocab: for tokens by text; null: they are errors. Errors: those of
  /// read_file(); format.
  Result<std::shared_ptr<const text::grammar::Grammar>> compile(const text::Vocab* vocab) const;
};

}  // namespace tessera::cli
