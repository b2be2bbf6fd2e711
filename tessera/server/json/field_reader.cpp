// Checks of types and ranges. Hostile values appear in messages only quoted and cut.
#include "tessera/server/json/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/server/json/json_field.h"
#include "tessera/server/json/writer.h"
#include "tessera/text/utf8.h"

namespace tessera::server {
namespace {

constexpr size_t kManyMembers = 32;  // beyond these, names are found by bisection

std::string shown_value(const Json& value) {
  if (value.is_string()) return text::quote_text(value.get_ref<const std::string&>());
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  std::string out;
  JsonWriter(out).tree(value);
  return out;
}

std::string number_text(double value) {
  if (std::floor(value) == value && std::fabs(value) < 1e15) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

/// The number where it is an integer of int64_t.
std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2^53: all integers up to here are doubles
  const double number = value.get<double>();
  if (std::floor(number) != number || std::fabs(number) > kExact) return std::nullopt;
  return static_cast<int64_t>(number);
}

/// f(member) where the member is there, else an empty optional.
template <class F>
auto if_present(const Json* member, F f) -> FieldResult<std::optional<typename decltype(f(*member))::value_type>> {
  using Value = typename decltype(f(*member))::value_type;
  if (member == nullptr) return std::optional<Value>();
  auto result = f(*member);
  if (!result) return forward_error(result);
  return std::optional<Value>(*std::move(result));
}

}  // namespace

std::string FieldPath::text() const {
  std::string out(parent);
  if (!out.empty() && !name.empty()) out += '.';
  out += name;
  if (index) out += fmt::format("[{}]", *index);
  return out;
}

std::unexpected<FieldError> wrong_value(const FieldPath& path, const Json& value, std::string_view want) {
  return refuse_field(path, fmt::format("value {}, want {}", shown_value(value), want));
}

std::unexpected<FieldError> refuse_field(const FieldPath& path, std::string_view reason) {
  FieldError error;
  error.param = path.text();
  error.message =
      error.param.empty() ? fmt::format("The body: {}", reason) : fmt::format("Field '{}': {}", error.param, reason);
  return std::unexpected(std::move(error));
}

std::string range_text(double min, double max) {
  if (std::isinf(min)) return fmt::format("at most {}", number_text(max));
  if (std::isinf(max)) return fmt::format("at least {}", number_text(min));
  return fmt::format("{} to {}", number_text(min), number_text(max));
}

FieldResult<int64_t> read_integer(const Json& value, const FieldPath& path, int64_t min, int64_t max) {
  const std::optional<int64_t> number = whole_number(value);
  if (number && *number >= min && *number <= max) return *number;
  return wrong_value(path, value, fmt::format("{}{} to {}", number ? "" : "an integer, ", min, max));
}

FieldResult<double> read_number(const Json& value, const FieldPath& path, double min, double max) {
  if (!value.is_number()) return wrong_value(path, value, "a number, " + range_text(min, max));
  const auto number = value.get<double>();
  if (number >= min && number <= max) return number;
  return wrong_value(path, value, range_text(min, max));
}

FieldResult<bool> read_boolean(const Json& value, const FieldPath& path) {
  if (!value.is_boolean()) return wrong_value(path, value, "true or false");
  return value.get<bool>();
}

FieldResult<std::string_view> read_text(const Json& value, const FieldPath& path, size_t max_bytes) {
  if (!value.is_string()) return wrong_value(path, value, "a text");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > max_bytes)
    return refuse_field(path, fmt::format("a text of {} bytes, want at most {}", text.size(), max_bytes));
  return text;
}

FieldResult<std::vector<std::string>> read_texts(const Json& value, const FieldPath& path, size_t max_count,
                                                 size_t max_bytes) {
  if (!value.is_array()) return wrong_value(path, value, "a list of texts");
  if (value.size() > max_count)
    return refuse_field(path, fmt::format("a list of {}, want at most {}", value.size(), max_count));
  std::vector<std::string> texts;
  texts.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const auto text = read_text(value[i], path.at(i), max_bytes);
    if (!text) return std::unexpected(text.error());
    texts.emplace_back(*text);
  }
  return texts;
}

FieldReader::FieldReader(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (object.size() <= kManyMembers) return;
  index_.reserve(object.size());
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) index_.emplace_back(name, &value);
  std::ranges::sort(index_, {}, &std::pair<std::string_view, const Json*>::first);
}

FieldResult<FieldReader> FieldReader::parse(std::string_view text) {
  auto json = read_json_field(text);
  if (!json) return forward_error(json);
  auto owned = std::make_shared<const Json>(std::move(*json));
  auto reader = create(*owned);
  if (reader) reader->owned_ = std::move(owned);
  return reader;
}

FieldResult<FieldReader> FieldReader::create(const Json& value, std::string path) {
  if (!value.is_object()) return wrong_value({path}, value, "an object");
  return FieldReader(value, std::move(path));
}

const Json* FieldReader::find(std::string_view name) const {
  const Json* found = nullptr;
  if (!index_.empty()) {
    const auto at = std::ranges::lower_bound(index_, name, {}, &std::pair<std::string_view, const Json*>::first);
    if (at != index_.end() && at->first == name) found = at->second;
  } else {
    for (const auto& [key, value] : object_->get_ref<const Json::object_t&>()) {
      if (key == name) found = &value;
    }
  }
  return found == nullptr || found->is_null() ? nullptr : found;
}

FieldResult<std::optional<int64_t>> FieldReader::integer(std::string_view name, int64_t min, int64_t max) const {
  return if_present(find(name), [&](const Json& value) { return read_integer(value, path_of(name), min, max); });
}

FieldResult<std::optional<double>> FieldReader::number(std::string_view name, double min, double max) const {
  return if_present(find(name), [&](const Json& value) { return read_number(value, path_of(name), min, max); });
}

FieldResult<std::optional<bool>> FieldReader::boolean(std::string_view name) const {
  return if_present(find(name), [&](const Json& value) { return read_boolean(value, path_of(name)); });
}

FieldResult<std::optional<std::string_view>> FieldReader::text(std::string_view name, size_t max_bytes) const {
  return if_present(find(name), [&](const Json& value) { return read_text(value, path_of(name), max_bytes); });
}

FieldResult<std::optional<std::vector<std::string>>> FieldReader::texts(std::string_view name, size_t max_count,
                                                                        size_t max_bytes) const {
  return if_present(find(name),
                    [&](const Json& value) { return read_texts(value, path_of(name), max_count, max_bytes); });
}

FieldResult<std::optional<size_t>> FieldReader::choice(std::string_view name,
                                                       std::span<const std::string_view> choices) const {
  return if_present(find(name), [&](const Json& value) -> FieldResult<size_t> {
    const auto* text = value.get_ptr<const std::string*>();
    const auto at = text != nullptr ? std::ranges::find(choices, *text) : choices.end();
    if (at != choices.end()) return static_cast<size_t>(at - choices.begin());
    return wrong_value(path_of(name), value, fmt::format("one of {}", fmt::join(choices, ", ")));
  });
}

FieldResult<const Json*> FieldReader::list(std::string_view name, size_t max_count) const {
  const Json* member = find(name);
  if (member == nullptr) return nullptr;
  if (!member->is_array()) return wrong_value(path_of(name), *member, "a list");
  if (member->size() > max_count)
    return refuse_field(path_of(name), fmt::format("a list of {}, want at most {}", member->size(), max_count));
  return member;
}

FieldResult<std::optional<FieldReader>> FieldReader::object(std::string_view name) const {
  return if_present(find(name), [&](const Json& value) { return create(value, path_of(name).text()); });
}

FieldResult<std::string_view> FieldReader::required_text(std::string_view name, size_t max_bytes) const {
  const Json* member = find(name);
  if (member == nullptr) return refuse_field(path_of(name), "absent, want a text");
  return read_text(*member, path_of(name), max_bytes);
}

FieldResult<const Json*> FieldReader::required_list(std::string_view name, size_t max_count) const {
  if (find(name) == nullptr) return refuse_field(path_of(name), "absent, want a list");
  return list(name, max_count);
}

}  // namespace tessera::server
