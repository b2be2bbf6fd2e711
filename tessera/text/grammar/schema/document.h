// A JSON text as nodes with numbers in their own digits. Schemas are read from it.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::text::grammar {

class Document {
 public:
  using Place = uint32_t;  // of a value; 0 is the whole document
  static constexpr Place kNone = UINT32_MAX;
  static constexpr size_t kMaxBytes = size_t{1} << 20;
  static constexpr size_t kMaxDepth = 256;
  static constexpr size_t kMaxValues = 400'000;

  enum class Kind : uint8_t { null, boolean, number, string, array, object };
  struct Member {
    std::string name;
    Place value;
  };

  /// Errors: format; limit.
  static Result<Document> parse(std::string_view text);

  Kind kind(Place place) const { return values_[place].kind; }
  bool is(Place place, Kind kind) const { return values_[place].kind == kind; }
  bool boolean(Place place) const { return values_[place].text == "true"; }
  /// The text of a string, decoded, or the digits of a number as they were written.
  const std::string& text(Place place) const { return values_[place].text; }
  std::span<const Place> elements(Place place) const { return values_[place].elements; }
  /// The members of an object in their order. Of members with one name, the last counts.
  std::span<const Member> members(Place place) const { return values_[place].members; }
  /// A member of an object by its name, or kNone.
  Place member(Place place, std::string_view name) const;

  Place parent(Place place) const { return values_[place].parent; }
  size_t size() const { return values_.size(); }

  /// The JSON pointer of a value: "/properties/a".
  std::string pointer(Place place) const;
  /// The value of a JSON pointer from another value, or kNone.
  Place find(Place from, std::string_view pointer) const;

 private:
  friend class DocumentReader;

  struct Value {
    Kind kind;
    std::string text{};
    std::vector<Place> elements{};
    std::vector<Member> members{};
    std::vector<uint32_t> by_name{};  // places in members, in the order of the names
    Place parent = kNone;
  };
  std::vector<Value> values_;
};

}  // namespace tessera::text::grammar
