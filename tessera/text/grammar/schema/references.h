// Drafts, identifiers and references of a JSON Schema document. References lead inside the document only.
#pragma once

#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/grammar/schema/document.h"

namespace tessera::text::grammar {

enum class Draft : uint8_t { draft4, draft6, draft7, draft2019, draft2020 };

class References {
 public:
  using Place = Document::Place;

  /// The document must outlive this. Errors: the words of why the document cannot be used.
  static std::expected<References, std::string> create(const Document& document);

  Draft draft() const { return draft_; }

  /// Whether a schema of the document asks what other keywords have looked at.
  bool has_unevaluated() const { return has_unevaluated_; }

  /// The schema that the value of a keyword ($ref, $dynamicRef, $recursiveRef) at a place leads to. Errors: words, also
  /// for a dynamic reference whose target depends on the way to it.
  std::expected<Place, std::string> resolve(Place at, std::string_view keyword, std::string_view reference) const;

 private:
  explicit References(const Document& document) : document_(&document) {}

  void collect();
  void collect_at(Place place, std::vector<Place>& open);
  const std::string& base_of(Place place) const;

  const Document* document_;
  Draft draft_ = Draft::draft2020;
  std::map<Place, std::string> bases_;                            // of schemas with an identifier, and of the document
  std::map<std::string, Place, std::less<>> resources_;           // by identifier
  std::map<std::string, Place, std::less<>> anchors_;             // by identifier, # and name
  std::map<std::string, size_t, std::less<>> n_dynamic_anchors_;  // by name; of $recursiveAnchor the name is empty
  bool has_unevaluated_ = false;
};

/// A reference from a base, as RFC 3986 resolves it, without its fragment.
std::string resolve_uri(std::string_view base, std::string_view reference);

}  // namespace tessera::text::grammar
