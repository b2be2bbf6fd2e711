#include "tessera/text/chat/reply_family.h"

#include <algorithm>
#include <array>

namespace tessera::text {
namespace {

constexpr std::string_view kSuffixPlace = "{}";
constexpr std::string_view kDefaultSuffix = ":opensource";  // of hy3, when there is no template

struct FamilyHint {
  std::string_view hint;  // another name, or a mark in a template's source
  std::string_view family;
};

constexpr FamilyHint kOtherNames[] = {
#define TESSERA_REPLY_FAMILY(...)
#define TESSERA_REPLY_ALIAS(name, family) {name, family},
#define TESSERA_REPLY_SOURCE(mark, family)
#include "tessera/text/chat/families.def"
#undef TESSERA_REPLY_FAMILY
#undef TESSERA_REPLY_ALIAS
#undef TESSERA_REPLY_SOURCE
};

constexpr FamilyHint kOtherSourceMarks[] = {
#define TESSERA_REPLY_FAMILY(...)
#define TESSERA_REPLY_ALIAS(name, family)
#define TESSERA_REPLY_SOURCE(mark, family) {mark, family},
#include "tessera/text/chat/families.def"
#undef TESSERA_REPLY_FAMILY
#undef TESSERA_REPLY_ALIAS
#undef TESSERA_REPLY_SOURCE
};

std::vector<ReplyFamily> make_reply_families() {
  return {
#define TESSERA_REPLY_FAMILY(...) ReplyFamily{__VA_ARGS__},
#define TESSERA_REPLY_ALIAS(name, family)
#define TESSERA_REPLY_SOURCE(mark, family)
#include "tessera/text/chat/families.def"
#undef TESSERA_REPLY_FAMILY
#undef TESSERA_REPLY_ALIAS
#undef TESSERA_REPLY_SOURCE
  };
}

const ReplyFamily* find_row(std::string_view name) {
  const auto families = reply_families();
  const auto found = std::ranges::find(families, name, &ReplyFamily::name);
  return found == families.end() ? nullptr : &*found;
}

bool has_all(std::string_view source, const Marks& marks) {
  return !marks.empty() && std::ranges::all_of(marks, [&](const std::string& mark) { return source.contains(mark); });
}

const ReplyFamily& row_of_source(std::string_view source) {
  for (const ReplyFamily& family : reply_families())
    if (has_all(source, family.source_marks)) return family;
  for (const FamilyHint& other : kOtherSourceMarks)
    if (source.contains(other.hint)) return *find_row(other.family);
  return *find_row(kGenericFamily);
}

void put_suffix(std::string& mark, std::string_view suffix) {
  if (const size_t at = mark.find(kSuffixPlace); at != mark.npos) mark.replace(at, kSuffixPlace.size(), suffix);
}

ReplyFamily with_suffix(ReplyFamily family, std::string_view suffix) {
  if (family.suffix_mark.empty()) return family;
  for (std::string* mark : {&family.reasoning_begin, &family.reasoning_end, &family.call_begin, &family.call_end,
                            &family.name_end, &family.argument_begin, &family.value_begin, &family.argument_end})
    put_suffix(*mark, suffix);
  for (Marks* marks : {&family.section_begin, &family.section_end})
    for (std::string& mark : *marks) put_suffix(mark, suffix);
  for (ArgumentNameEnd& end : family.argument_name_ends) put_suffix(end.mark, suffix);
  return family;
}

// Returns the text after suffix_mark up to the next quote.
std::string_view suffix_in(std::string_view source, std::string_view suffix_mark) {
  const size_t at = source.find(suffix_mark);
  if (at == source.npos) return kDefaultSuffix;
  source.remove_prefix(at + suffix_mark.size());
  return source.substr(0, source.find_first_of("'\""));
}

}  // namespace

std::span<const ReplyFamily> reply_families() {
  static const std::vector<ReplyFamily> families = make_reply_families();
  return families;
}

Result<ReplyFamily> find_reply_family(std::string_view name) {
  const auto other = std::ranges::find(kOtherNames, name, &FamilyHint::hint);
  const ReplyFamily* found = find_row(other == std::end(kOtherNames) ? name : other->family);
  if (found == nullptr) return fail(ErrorCode::not_found, "reply family '{}': not known", name);
  return with_suffix(*found, kDefaultSuffix);
}

ReplyFamily reply_family_of_source(std::string_view source) {
  ReplyFamily family = row_of_source(source);
  const auto has = [&](const std::string& mark) { return !mark.empty() && source.contains(mark); };
  if (family.shape != ReplyShape::harmony && !has(family.reasoning_begin) && !has(family.reasoning_end)) {
    family.reasoning_begin.clear();
    family.reasoning_end.clear();
  }
  const std::string_view suffix = suffix_in(source, family.suffix_mark);
  return with_suffix(std::move(family), suffix);
}

}  // namespace tessera::text
