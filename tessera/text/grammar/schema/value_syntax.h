// Ways to write values that are not JSON but like it: literals of Python and of Gemma, and members between marks.
// Models write the arguments of tool calls so.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/grammar/rules.h"

namespace tessera::text::grammar {

inline const FindToken kNoControls{};

/// The texts around the members of an object.
struct MemberSyntax {
  std::string_view open = "{", close = "}";
  std::string_view quote = "\"";  // around a name
  std::string_view name_end = ":";
  std::string_view name_pattern{};  // regular expression of the names that can be written; empty: all
};

struct ValueSyntax {
  std::string_view null_word = "null", false_word = "false", true_word = "true";
  std::string_view quote = "\"";  // around a string; it may be a control token
  bool has_escapes = true;        // strings are written as in JSON; false: as they are, without a quote in them
  MemberSyntax members{};
  std::string excluded{};  // a text that no string and no name has; empty: none
};

inline const ValueSyntax kJsonSyntax{};

/// How a reader takes the text of a value between marks: as a string, unless it is JSON of these types.
struct TaggedTyping {
  bool may_be_string = true;
  bool null = false, boolean = false, number = false, array = false, object = false, string = false;

  bool may_be_json() const { return null || boolean || number || array || object || !may_be_string; }
};

/// Members between marks. Strings are written as they are, other values as JSON.
struct TaggedMembers {
  struct NameEnd {
    std::string mark;
    // An empty name stands for those that are not listed. Without a typing, a reader knows the mark but it is not used.
    std::function<TaggedTyping(std::string_view name)> typing{};
  };
  std::string name_begin;
  std::vector<NameEnd> name_ends;
  std::string value_begin;
  std::string value_end;               // {} stands for the name
  std::string reader_end;              // no string has this part of value_end in it
  std::string quote_begin, quote_end;  // may stand around the text of a string; empty: nothing may
  bool has_space = false;              // blanks may stand before name_begin
  bool has_value_space = false;        // blanks may stand before value_begin
};

}  // namespace tessera::text::grammar
