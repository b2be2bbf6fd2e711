// Typed values of JSON requests: integers, texts, lists, ... Every refusal gives the path of the field, its value and
// the range: Field 'messages[3].content': value 5, want a text. Used by the table of generation fields and by the code
// of each dialect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/json/json.h"
#include "tessera/server/json/field_error.h"

namespace tessera::server {

/// Place of a value, written out only for an error: parent.name[index]. All texts are borrowed.
struct FieldPath {
  std::string_view parent{};  // may be empty
  std::string_view name{};    // may be empty
  std::optional<size_t> index{};

  std::string text() const;
  FieldPath at(size_t i) const { return {parent, name, i}; }
};

/// Field 'PATH': value VALUE, want WANT. A long value is cut.
std::unexpected<FieldError> wrong_value(const FieldPath& path, const Json& value, std::string_view want);
/// Field 'PATH': REASON
std::unexpected<FieldError> refuse_field(const FieldPath& path, std::string_view reason);

/// A range in words: "0 to 1", "at most 100", "at least 0". Bounds of +-infinity are left out.
std::string range_text(double min, double max);

// Errors of the functions below: 400 for a value of another type or outside of the range.

/// A number that is whole may have a fraction of zeros: 1.0 is 1, as clients in languages without integers write it.
FieldResult<int64_t> read_integer(const Json& value, const FieldPath& path, int64_t min, int64_t max);
FieldResult<double> read_number(const Json& value, const FieldPath& path, double min, double max);
FieldResult<bool> read_boolean(const Json& value, const FieldPath& path);
/// The text belongs to the value. max_bytes: of UTF-8.
FieldResult<std::string_view> read_text(const Json& value, const FieldPath& path, size_t max_bytes = SIZE_MAX);
FieldResult<std::vector<std::string>> read_texts(const Json& value, const FieldPath& path, size_t max_count,
                                                 size_t max_bytes);

/// Reads members of one object. null counts as absent everywhere.
class FieldReader {
 public:
  /// Reads a text that is a JSON object, and keeps the object. Errors: those of read_json_field(); 400 for another
  /// value.
  static FieldResult<FieldReader> parse(std::string_view text);
  /// `object` is an object and outlives this. path: that of the object, empty for a whole body.
  explicit FieldReader(const Json& object, std::string path = {});
  /// Errors: 400 for a value that is no object.
  static FieldResult<FieldReader> create(const Json& value, std::string path = {});

  const Json& json() const { return *object_; }
  const std::string& path() const { return path_; }
  FieldPath path_of(std::string_view name) const { return {path_, name}; }
  /// The member, or nullptr where it is absent or null.
  const Json* find(std::string_view name) const;

  FieldResult<std::optional<int64_t>> integer(std::string_view name, int64_t min, int64_t max) const;
  FieldResult<std::optional<double>> number(std::string_view name, double min, double max) const;
  FieldResult<std::optional<bool>> boolean(std::string_view name) const;
  FieldResult<std::optional<std::string_view>> text(std::string_view name, size_t max_bytes = SIZE_MAX) const;
  FieldResult<std::optional<std::vector<std::string>>> texts(std::string_view name, size_t max_count,
                                                             size_t max_bytes) const;
  /// One of these texts, as its index.
  FieldResult<std::optional<size_t>> choice(std::string_view name, std::span<const std::string_view> choices) const;
  /// A list or an object; nullptr where it is absent.
  FieldResult<const Json*> list(std::string_view name, size_t max_count = SIZE_MAX) const;
  FieldResult<std::optional<FieldReader>> object(std::string_view name) const;

  /// The same for a member that must be there.
  FieldResult<std::string_view> required_text(std::string_view name, size_t max_bytes = SIZE_MAX) const;
  FieldResult<const Json*> required_list(std::string_view name, size_t max_count = SIZE_MAX) const;

 private:
  std::shared_ptr<const Json> owned_;  // of parse()
  const Json* object_;
  std::string path_;
  std::vector<std::pair<std::string_view, const Json*>> index_;  // sorted by name; only of an object with many members
};

}  // namespace tessera::server
