// Shared by the fuzzers of grammars: a grammar with operations on its matcher, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>

#include "tessera/text/grammar/grammar.h"
#include "tessera/text/utf8.h"

namespace tessera::fuzz {

/// Prints the line and aborts on a violation. libFuzzer then reports the input.
inline void require(bool holds, const std::source_location& place = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: a condition is violated\n", place.file_name(), place.line());
  std::abort();
}

/// An input has four parts: a byte for the notation, a byte for the way to write JSON, the source of the grammar with
/// the byte ff after it (which UTF-8 does not have), and the operations.
struct GrammarInput {
  enum class Notation : uint8_t { gbnf, regex, schema };
  static constexpr char kEndOfSource = '\xff';
  static constexpr size_t kHeaderBytes = 2;

  Notation notation = Notation::gbnf;
  uint8_t flags = 0;
  std::string_view source{}, operations{};

  static std::optional<GrammarInput> parse(std::string_view bytes) {
    if (bytes.size() < kHeaderBytes) return std::nullopt;
    GrammarInput input{.notation = static_cast<Notation>(static_cast<uint8_t>(bytes[0]) % 3),
                       .flags = static_cast<uint8_t>(bytes[1])};
    bytes.remove_prefix(kHeaderBytes);
    const size_t end = bytes.find(kEndOfSource);
    input.source = bytes.substr(0, end);
    if (end != std::string_view::npos) input.operations = bytes.substr(end + 1);
    return input;
  }

  std::string bytes() const {
    std::string all = {static_cast<char>(notation), static_cast<char>(flags)};
    return all.append(source).append(1, kEndOfSource).append(operations);
  }

  text::grammar::JsonOutput output() const {
    return {.order = static_cast<text::grammar::JsonOrder>(flags & 1),
            .space = static_cast<text::grammar::JsonSpace>((flags >> 1) & 3),
            .writing = static_cast<text::grammar::JsonWriting>((flags >> 3) & 1)};
  }

  text::grammar::GrammarResult compile() const {
    using text::grammar::Grammar;
    const text::grammar::FindToken find_token = [](std::string_view name) -> std::optional<int32_t> {
      if (name == "<end>") return 0;
      return name == "<control>" ? std::optional<int32_t>(1) : std::nullopt;
    };
    switch (notation) {
      case Notation::gbnf:
        return Grammar::from_gbnf(source, find_token);
      case Notation::regex:
        return Grammar::from_regex(source);
      case Notation::schema:
        return Grammar::from_json_schema(source, output(), (flags & 16) == 0);
    }
    std::abort();
  }
};

/// Checks that an error has a message, and a place inside the source.
inline void require_error(const text::grammar::GrammarError& error, const GrammarInput& input) {
  require(!error.message.empty() && text::is_valid_utf8(error.text()));
  require(error.is_of_schema == (input.notation == GrammarInput::Notation::schema));
  require(error.line >= 1 && error.line <= input.source.size() + 1);
  require(error.column >= 1 && error.column <= input.source.size() + 1);
}

}  // namespace tessera::fuzz
