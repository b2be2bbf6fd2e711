// Reads the members of a body in one pass: each name is looked up in the table made of fields.def. So the time is
// linear in the number of members, known or not.
#include "tessera/server/json/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tessera/server/json/special_fields.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {
namespace {

using sample::SamplerParams;
using SpecialReader = FieldResult<> (*)(const Json&, const FieldPath&, const GenerationLimits&, GenerationFields&);
enum class FieldUse : uint8_t { ignored, refused };

struct FieldRow {
  std::string_view name;
  std::string_view aliases;
  std::variant<float GenerationFields::*, int32_t GenerationFields::*, bool GenerationFields::*,
               std::string GenerationFields::*, float SamplerParams::*, int32_t SamplerParams::*,
               int64_t SamplerParams::*, SpecialReader, FieldUse>
      target;
  double min;
  double max;
  std::string_view wants;  // of a special field
  std::string_view dialects;
  std::string_view help;
};

constexpr FieldRow kFields[] = {
#define TESSERA_FIELD(shown, type, member, name, initial, min, max, aliases, dialects, help) \
  {name, aliases, &GenerationFields::member, min, max, "", dialects, help},
#define TESSERA_SAMPLING_FIELD(shown, member, name, min, max, aliases, dialects, help) \
  {name, aliases, &SamplerParams::member, min, max, "", dialects, help},
#define TESSERA_SPECIAL_FIELD(shown, member, name, wants, aliases, dialects, help) \
  {name, aliases, &read_##member, 0, 0, wants, dialects, help},
#define TESSERA_IGNORED_FIELD(name, help) {name, "", FieldUse::ignored, 0, 0, "", "n", help},
#define TESSERA_REFUSED_FIELD(name, help) {name, "", FieldUse::refused, 0, 0, "", "n", help},
#include "tessera/server/json/fields.def"
};
constexpr size_t kNFields = std::size(kFields);
constexpr std::string_view kIgnoredPrefix = "speculative.";

struct FieldName {
  size_t row;
  size_t rank;  // 0: the row's own name; aliases from 1 on
};

const std::unordered_map<std::string_view, FieldName>& field_names() {
  static const auto names = [] {
    std::unordered_map<std::string_view, FieldName> map;
    for (size_t row = 0; row < kNFields; ++row) {
      map.emplace(kFields[row].name, FieldName{row, 0});
      std::string_view rest = kFields[row].aliases;
      for (size_t rank = 1; !rest.empty(); ++rank) {
        const size_t end = std::min(rest.find(' '), rest.size());
        map.emplace(rest.substr(0, end), FieldName{row, rank});
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    return map;
  }();
  return names;
}

struct FieldRange {
  double min;
  double max;
};

/// The range of a row under the limits of the server.
FieldRange range_of(const FieldRow& row, const GenerationLimits& limits) {
  if (row.name == "id_slot") return {row.min, static_cast<double>(limits.n_slots - 1)};
  if (row.name == "n_cmpl") return {row.min, static_cast<double>(limits.max_choices)};
  if (row.name == "n_probs") return {row.min, static_cast<double>(limits.max_logprobs)};
  if (row.name == "priority") return {static_cast<double>(limits.best_priority), row.max};
  return {row.min, row.max};
}

/// Stores one value in its member.
class FieldStore {
 public:
  FieldStore(const FieldRow& row, const Json& value, const FieldPath& path, const GenerationLimits& limits,
             GenerationFields& fields)
      : row_(row), value_(value), path_(path), limits_(limits), range_(range_of(row, limits)), fields_(fields) {}

  FieldResult<> operator()(float GenerationFields::*member) { return number(fields_.*member); }
  FieldResult<> operator()(float SamplerParams::*member) { return number(fields_.sampling.*member); }
  FieldResult<> operator()(int32_t GenerationFields::*member) { return integer(fields_.*member); }
  FieldResult<> operator()(int32_t SamplerParams::*member) { return integer(fields_.sampling.*member); }
  FieldResult<> operator()(int64_t SamplerParams::*member) { return integer(fields_.sampling.*member); }
  FieldResult<> operator()(bool GenerationFields::*member) {
    const auto flag = read_boolean(value_, path_);
    if (!flag) return std::unexpected(flag.error());
    fields_.*member = *flag;
    return {};
  }
  FieldResult<> operator()(std::string GenerationFields::*member) {
    const auto text = read_text(value_, path_, static_cast<size_t>(range_.max));
    if (!text) return std::unexpected(text.error());
    fields_.*member = *text;
    return {};
  }
  FieldResult<> operator()(SpecialReader read) { return read(value_, path_, limits_, fields_); }
  FieldResult<> operator()(FieldUse use) {
    if (use == FieldUse::ignored) return {};
    return refuse_field(path_, fmt::format("not accepted from clients: {}", row_.help));
  }

 private:
  FieldResult<> number(float& member) {
    const auto number = read_number(value_, path_, range_.min, range_.max);
    if (!number) return std::unexpected(number.error());
    member = static_cast<float>(std::max(*number, -static_cast<double>(std::numeric_limits<float>::max())));
    return {};
  }
  template <class T>
  FieldResult<> integer(T& member) {
    const auto number = read_integer(value_, path_, static_cast<int64_t>(range_.min), static_cast<int64_t>(range_.max));
    if (!number) return std::unexpected(number.error());
    member = static_cast<T>(*number);
    return {};
  }

  const FieldRow& row_;
  const Json& value_;
  const FieldPath& path_;
  const GenerationLimits& limits_;
  FieldRange range_;
  GenerationFields& fields_;
};

/// The list of unknown names for a header: only bytes that a header may have, at most 512.
class IgnoredNames {
 public:
  void add(std::string_view name) {
    if (is_full_) return;
    std::string shown(name.substr(0, kMaxNameBytes));
    for (char& c : shown) {
      const bool is_safe = c > 0x20 && c < 0x7F && c != ',' && c != '"';
      if (!is_safe) c = '?';
    }
    if (name.size() > kMaxNameBytes) shown += kMore;
    is_full_ = text_.size() + 2 + shown.size() + 2 + kMore.size() > kMaxBytes;
    if (!text_.empty()) text_ += ", ";
    text_ += is_full_ ? std::string(kMore) : shown;
  }
  std::string take() { return std::move(text_); }

 private:
  static constexpr size_t kMaxBytes = 512, kMaxNameBytes = 64;
  static constexpr std::string_view kMore = "...";

  std::string text_;
  bool is_full_ = false;
};

/// The member of each row with the best rank, under its own name.
struct FoundField {
  const Json* value = nullptr;
  std::string_view name;
  size_t rank = 0;
};
using FoundFields = std::array<FoundField, kNFields>;

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

void find_fields(const Json& body, std::span<const std::string_view> dialect_names, FoundFields& found,
                 IgnoredNames& ignored) {
  const auto& names = field_names();
  for (const auto& [name, value] : body.get_ref<const Json::object_t&>()) {
    if (value.is_null() || is_one_of(name, dialect_names)) continue;
    const auto at = names.find(name);
    if (at == names.end()) {
      if (!name.starts_with(kIgnoredPrefix)) ignored.add(name);
      continue;
    }
    FoundField& field = found[at->second.row];
    if (field.value == nullptr || at->second.rank < field.rank) field = {&value, name, at->second.rank};
  }
}

/// Values that a request may have and a chain may not, and rules between fields.
FieldResult<> settle(GenerationFields& fields, const GenerationFields& defaults) {
  SamplerParams& sampling = fields.sampling;
  if (sampling.seed == UINT32_MAX) sampling.seed = -1;
  sampling.temp = std::max(sampling.temp, 0.0f);
  sampling.repeat_penalty = std::max(sampling.repeat_penalty, 0.001f);
  if (sampling.dry_base < 1) sampling.dry_base = SamplerParams().dry_base;
  sampling.dry_allowed_length = std::max(sampling.dry_allowed_length, 1);
  fields.adaptive_target = std::max(fields.adaptive_target, -1.0f);
  if (defaults.n_predict >= 0 && (fields.n_predict < 0 || fields.n_predict > defaults.n_predict))
    fields.n_predict = defaults.n_predict;
  if (!fields.grammar.empty() && !fields.json_schema.empty())
    return refuse_field({.name = "grammar"}, "beside json_schema, want only one of the two");
  if (const auto valid = sample::validate(sampling); !valid) return std::unexpected(field_error_of(valid.error(), ""));
  return {};
}

std::string wants_of(const FieldRow& row) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Words {
    const FieldRow& row;
    std::string operator()(float GenerationFields::*) const { return "a number, " + range_text(row.min, row.max); }
    std::string operator()(float SamplerParams::*) const { return "a number, " + range_text(row.min, row.max); }
    std::string operator()(int32_t GenerationFields::*) const { return integer(); }
    std::string operator()(int32_t SamplerParams::*) const { return integer(); }
    std::string operator()(int64_t SamplerParams::*) const { return integer(); }
    std::string operator()(bool GenerationFields::*) const { return "true or false"; }
    std::string operator()(std::string GenerationFields::*) const {
      return fmt::format("a text of at most {} bytes", static_cast<int64_t>(row.max));
    }
    std::string operator()(SpecialReader) const { return std::string(row.wants); }
    std::string operator()(FieldUse use) const { return use == FieldUse::ignored ? "ignored" : "refused"; }
    std::string integer() const {
      const bool has_bound = row.max != static_cast<double>(INT32_MAX);
      return "an integer, " + range_text(row.min, has_bound ? row.max : kInfinity);
    }
  };
  return std::visit(Words{row}, row.target);
}

std::string initial_of(const FieldRow& row) {
  std::string text;
  JsonWriter writer(text);
  const GenerationFields initial;
  const auto of_table = [&](auto GenerationFields::*member) { writer.value(initial.*member); };
  const auto of_chain = [&](auto SamplerParams::*member) { writer.value(initial.sampling.*member); };
  struct Writers : decltype(of_table), decltype(of_chain) {
    using decltype(of_table)::operator();
    using decltype(of_chain)::operator();
    void operator()(SpecialReader) const {}
    void operator()(FieldUse) const {}
  };
  std::visit(Writers{of_table, of_chain}, row.target);
  return text;
}

}  // namespace

FieldResult<ReadGenerationFields> read_generation_fields(const Json& body, const GenerationFields& defaults,
                                                         const GenerationLimits& limits,
                                                         std::span<const std::string_view> dialect_names,
                                                         std::string_view parent) {
  if (!body.is_object()) return wrong_value({.name = parent}, body, "an object");
  FoundFields found;
  IgnoredNames ignored;
  find_fields(body, dialect_names, found, ignored);

  ReadGenerationFields read{.fields = defaults};
  for (size_t row = 0; row < kNFields; ++row) {
    if (found[row].value == nullptr) continue;
    const FieldPath path{.parent = parent, .name = found[row].name};
    TESSERA_READ(
        std::visit(FieldStore(kFields[row], *found[row].value, path, limits, read.fields), kFields[row].target));
  }
  TESSERA_READ(settle(read.fields, defaults));
  read.ignored = ignored.take();
  return read;
}

std::vector<FieldDoc> generation_field_docs() {
  std::vector<FieldDoc> docs;
  docs.reserve(kNFields);
  for (const FieldRow& row : kFields)
    docs.push_back({row.name, row.aliases, wants_of(row), initial_of(row), row.dialects, row.help});
  return docs;
}

}  // namespace tessera::server
