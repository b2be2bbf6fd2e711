#include "tessera/text/grammar/schema/references.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "tessera/text/grammar/ascii.h"
#include "tessera/text/utf8.h"

namespace tessera::text::grammar {
namespace {

using Kind = Document::Kind;
using Place = Document::Place;

constexpr std::string_view kSchemaKeywords[] = {"not",
                                                "if",
                                                "then",
                                                "else",
                                                "additionalProperties",
                                                "propertyNames",
                                                "items",
                                                "additionalItems",
                                                "contains",
                                                "unevaluatedItems",
                                                "unevaluatedProperties",
                                                "contentSchema"};
constexpr std::string_view kListKeywords[] = {"allOf", "anyOf", "oneOf", "prefixItems", "items"};
constexpr std::string_view kMapKeywords[] = {"properties",   "patternProperties", "dependentSchemas",
                                             "dependencies", "definitions",       "$defs"};

struct DraftName {
  std::string_view part;  // of the URI of the meta-schema
  Draft draft;
};
constexpr DraftName kDrafts[] = {{"json-schema.org/draft-04/schema", Draft::draft4},
                                 {"json-schema.org/draft-06/schema", Draft::draft6},
                                 {"json-schema.org/draft-07/schema", Draft::draft7},
                                 {"json-schema.org/draft/2019-09/schema", Draft::draft2019},
                                 {"json-schema.org/draft/2020-12/schema", Draft::draft2020}};

struct Uri {
  std::string_view scheme, authority, path;  // with ":", with "//", without "?..." and "#..."
};

Uri split(std::string_view text) {
  text = text.substr(0, text.find('#'));
  Uri uri;
  const size_t colon = text.find_first_of(":/?");
  if (colon != std::string_view::npos && text[colon] == ':' && colon > 0 && is_letter(text[0])) {
    uri.scheme = text.substr(0, colon + 1);
    text.remove_prefix(colon + 1);
  }
  if (text.starts_with("//")) {
    uri.authority = text.substr(0, std::min(text.find_first_of("/?", 2), text.size()));
    text.remove_prefix(uri.authority.size());
  }
  uri.path = text;
  return uri;
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> segments;
  bool ends_open = false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    ends_open = segment == "." || segment == "..";
    if (segment == "..") {
      if (segments.size() > 1) segments.pop_back();
    } else if (segment != ".") {
      segments.push_back(segment);
    }
    begin = end + 1;
  }
  if (ends_open) segments.emplace_back();
  return fmt::format("{}", fmt::join(segments, "/"));
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i).substr(1, 2);
    if (text[i] != '%' || digits.size() < 2 || !std::ranges::all_of(digits, is_hex_digit)) {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    std::from_chars(digits.begin(), digits.end(), value, 16);
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

std::string_view fragment_of(std::string_view reference) {
  const size_t mark = reference.find('#');
  return mark == std::string_view::npos ? "" : reference.substr(mark + 1);
}

}  // namespace

std::string resolve_uri(std::string_view base_text, std::string_view reference) {
  const Uri base = split(base_text), given = split(reference);
  if (!given.scheme.empty()) return fmt::format("{}{}{}", given.scheme, given.authority, without_dots(given.path));
  if (!given.authority.empty()) return fmt::format("{}{}{}", base.scheme, given.authority, without_dots(given.path));
  if (given.path.empty()) return fmt::format("{}{}{}", base.scheme, base.authority, base.path);
  std::string path(given.path);
  if (!path.starts_with('/')) {
    const size_t slash = base.path.rfind('/');
    const std::string_view folder = slash == std::string_view::npos ? "" : base.path.substr(0, slash + 1);
    path = std::string(folder.empty() && !base.authority.empty() ? "/" : folder) + path;
  }
  return fmt::format("{}{}{}", base.scheme, base.authority, without_dots(path));
}

std::expected<References, std::string> References::create(const Document& document) {
  References references(document);
  references.bases_.emplace(0, "");
  references.resources_.emplace("", 0);
  if (document.is(0, Kind::object)) {
    const Place schema = document.member(0, "$schema");
    if (schema != Document::kNone && document.is(schema, Kind::string)) {
      const std::string& uri = document.text(schema);
      const auto known = std::ranges::find_if(
          kDrafts, [&](const DraftName& draft) { return uri.find(draft.part) != std::string::npos; });
      if (known == std::end(kDrafts)) return std::unexpected("unknown meta-schema " + quote_text(uri, 100));
      references.draft_ = known->draft;
    }
  }
  references.collect();
  return references;
}

void References::collect() {
  std::vector<Place> open = {0};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    if (document_->is(place, Kind::object)) collect_at(place, open);
  }
}

// Notes the identifiers of a schema, and the schemas in it.
void References::collect_at(Place place, std::vector<Place>& open) {
  const bool is_old = draft_ <= Draft::draft7;
  const bool is_reference = document_->member(place, "$ref") != Document::kNone;
  const auto text_of = [&](std::string_view name) -> const std::string* {
    const Place found = document_->member(place, name);
    return found != Document::kNone && document_->is(found, Kind::string) ? &document_->text(found) : nullptr;
  };
  if (const std::string* id = text_of(draft_ == Draft::draft4 ? "id" : "$id");
      id != nullptr && !(is_old && is_reference)) {
    const std::string_view anchor = fragment_of(*id);
    if (!id->starts_with('#')) {
      const std::string uri = resolve_uri(base_of(place), *id);
      bases_[place] = uri;
      resources_.emplace(uri, place);
    }
    if (is_old && !anchor.empty()) anchors_.emplace(fmt::format("{}#{}", base_of(place), anchor), place);
  }
  for (const std::string_view name : {"$anchor", "$dynamicAnchor"})
    if (const std::string* anchor = text_of(name); anchor != nullptr && !is_old)
      anchors_.emplace(fmt::format("{}#{}", base_of(place), *anchor), place);
  if (const std::string* anchor = text_of("$dynamicAnchor"); anchor != nullptr) ++n_dynamic_anchors_[*anchor];
  const Place recursive = document_->member(place, "$recursiveAnchor");
  if (recursive != Document::kNone && document_->is(recursive, Kind::boolean) && document_->boolean(recursive))
    ++n_dynamic_anchors_[""];
  for (const Document::Member& member : document_->members(place)) {
    has_unevaluated_ |= member.name.starts_with("unevaluated");
    const auto is_in = [&](const auto& names) { return std::ranges::find(names, member.name) != std::end(names); };
    if (is_in(kSchemaKeywords) && document_->is(member.value, Kind::object)) open.push_back(member.value);
    if (is_in(kListKeywords) && document_->is(member.value, Kind::array))
      for (const Place element : document_->elements(member.value)) open.push_back(element);
    if (is_in(kMapKeywords) && document_->is(member.value, Kind::object))
      for (const Document::Member& inner : document_->members(member.value)) open.push_back(inner.value);
  }
}

const std::string& References::base_of(Place place) const {
  while (true) {
    const auto found = bases_.find(place);
    if (found != bases_.end()) return found->second;
    place = document_->parent(place);
  }
}

std::expected<Place, std::string> References::resolve(Place at, std::string_view keyword,
                                                      std::string_view reference) const {
  if (keyword != "$ref") {
    const std::string_view name = fragment_of(reference);
    const auto anchors = n_dynamic_anchors_.find(name);
    if (anchors != n_dynamic_anchors_.end() && anchors->second > 1)
      return std::unexpected(fmt::format("reference {} has several dynamic anchors", quote_text(reference, 100)));
  }
  const std::string uri = resolve_uri(base_of(at), reference);
  const auto resource = resources_.find(uri);
  if (resource == resources_.end())
    return std::unexpected(fmt::format("reference {} leads outside of the schema", quote_text(reference, 100)));
  const std::string fragment = percent_decoded(fragment_of(reference));
  if (fragment.empty()) return resource->second;
  if (fragment[0] == '/') {
    const Place found = document_->find(resource->second, fragment);
    if (found != Document::kNone) return found;
  } else {
    const auto anchor = anchors_.find(fmt::format("{}#{}", uri, fragment));
    if (anchor != anchors_.end()) return anchor->second;
  }
  return std::unexpected(fmt::format("reference {} leads to nothing", quote_text(reference, 100)));
}

}  // namespace tessera::text::grammar
