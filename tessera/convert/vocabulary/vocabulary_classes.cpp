#include "tessera/convert/vocabulary/vocabulary_classes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tessera::convert {

namespace {

using ClassName = std::pair<std::string_view, std::string_view>;

#define TESSERA_CLASS_PRE(class_name, pre) ClassName{class_name, pre},
constexpr ClassName kClassPres[] = {
#include "tessera/convert/vocabulary/vocabulary_classes.def"
};

#define TESSERA_RANKED_PRE(class_name, pre) ClassName{class_name, pre},
constexpr ClassName kRankedPres[] = {
#include "tessera/convert/vocabulary/vocabulary_classes.def"
};

#define TESSERA_CLASS_TOKEN(class_name, n_tokens, which, content, id) \
  ClassToken{class_name, n_tokens, text::SpecialToken::which, content, id},
constexpr ClassToken kClassTokens[] = {
#include "tessera/convert/vocabulary/vocabulary_classes.def"
};

#define TESSERA_CLASS_PADDING(class_name, multiple) std::pair<std::string_view, size_t>{class_name, multiple},
constexpr std::pair<std::string_view, size_t> kClassPaddings[] = {
#include "tessera/convert/vocabulary/vocabulary_classes.def"
};

#define TESSERA_CLASS_NO_SPACE_PREFIX(class_name) std::string_view{class_name},
constexpr std::string_view kNoSpacePrefix[] = {
#include "tessera/convert/vocabulary/vocabulary_classes.def"
};

#define TESSERA_CLASS_MARKED_SPECIALS(class_name) std::string_view{class_name},
constexpr std::string_view kMarkedSpecials[] = {
#include "tessera/convert/vocabulary/vocabulary_classes.def"
};

template <class Rows>
auto row_of(const Rows& rows, std::string_view class_name) {
  return std::ranges::find(rows, class_name, [](const auto& row) { return row.first; });
}

}  // namespace

std::vector<ClassToken> class_tokens(std::string_view class_name, size_t n_tokens) {
  std::vector<ClassToken> tokens;
  for (const ClassToken& row : kClassTokens)
    if (row.class_name == class_name && (row.n_tokens == 0 || row.n_tokens == n_tokens)) tokens.push_back(row);
  return tokens;
}

std::string_view class_pre(std::string_view class_name) {
  const auto* row = row_of(kClassPres, class_name);
  return row == std::end(kClassPres) ? std::string_view{} : row->second;
}

std::string_view ranked_class_pre(std::string_view class_name) {
  const auto* row = row_of(kRankedPres, class_name);
  return row == std::end(kRankedPres) ? std::string_view{} : row->second;
}

size_t class_padding(std::string_view class_name) {
  const auto* row = row_of(kClassPaddings, class_name);
  return row == std::end(kClassPaddings) ? 1 : row->second;
}

bool class_has_space_prefix(std::string_view class_name) {
  return std::ranges::find(kNoSpacePrefix, class_name) == std::end(kNoSpacePrefix);
}

bool class_looks_for_specials(std::string_view class_name) {
  return std::ranges::find(kMarkedSpecials, class_name) == std::end(kMarkedSpecials);
}

bool is_gemma4(std::string_view class_name) { return class_name.starts_with("Gemma4"); }

bool is_xlm_roberta(std::string_view class_name) { return class_name.starts_with("XLMRoberta"); }

bool is_laguna(std::string_view class_name) { return class_name.starts_with("Laguna"); }

}  // namespace tessera::convert
