// The ways to write JSON that a grammar allows: white space, strings, order of members.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/text/code_point_set.h"
#include "tessera/text/grammar/expression.h"

namespace tessera::text::grammar {

enum class JsonOrder : uint8_t {
  schema,  // members in the order of the schema, then others
  any,
};

enum class JsonSpace : uint8_t {
  none,
  one,    // a blank after , and :
  model,  // at each place nothing, a blank, or a line break with at most 40 blanks or tabs
  any,
};

enum class JsonWriting : uint8_t {
  plain,  // each string in one way, integers without fraction and exponent
  any,    // every text of JSON
};

struct JsonOutput {
  JsonOrder order = JsonOrder::schema;
  JsonSpace space = JsonSpace::model;
  JsonWriting writing = JsonWriting::plain;
};

/// The places of white space.
enum class SpacePlace : uint8_t {
  inside,     // after an opening bracket, before a closing one, and before , and :
  separator,  // after , and :
};

/// How the characters of a string are written.
enum class StringForm : uint8_t {
  json,  // with the escapes of JSON
  raw,   // as they are
};

class JsonSpelling {
 public:
  JsonSpelling(ExpressionArena& arena, const JsonOutput& output, StringForm form = StringForm::json);

  Expression space(SpacePlace place) const { return place == SpacePlace::inside ? space_inside_ : space_after_; }

  /// The texts inside a JSON string of the code points of a set.
  Expression code_points(const CodePointSet& set) const;
  /// The same for all code points.
  Expression any_code_point() const { return any_code_point_; }

  Expression code_point(uint32_t code_point);
  /// The characters of a UTF-8 text.
  std::vector<Expression> characters(std::string_view text);
  /// All of them.
  Expression text(std::string_view text) { return arena_->concat(characters(text)); }
  /// One of these texts: that of the plain writing.
  std::string plain_text(std::string_view text) const;

  /// A string in quotes, from the texts inside.
  Expression quoted(Expression inside) const;

  const JsonOutput& output() const { return output_; }

 private:
  Expression make_space(SpacePlace place) const;
  Expression raw(const CodePointSet& set) const;
  Expression hex_escapes(const CodePointSet& set) const;
  Expression hex_range(uint32_t first, uint32_t last) const;

  ExpressionArena* arena_;
  JsonOutput output_;
  StringForm form_;
  CodePointSet raw_;  // code points that stand in a string as they are
  Expression space_inside_, space_after_, any_code_point_;
  std::unordered_map<uint32_t, Expression> known_;  // of code points
};

}  // namespace tessera::text::grammar
