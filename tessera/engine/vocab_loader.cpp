// The special ids are a table. Other scalars and arrays are optional unless every tokenizer needs them.
#include "tessera/engine/vocab_loader.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"

namespace tessera {
namespace {

using text::SpecialToken;

constexpr std::array<std::pair<SpecialToken, std::string_view>, text::kNSpecialTokens> kSpecialKeys{{
    {SpecialToken::bos, keys::kBosId},
    {SpecialToken::eos, keys::kEosId},
    {SpecialToken::unknown, keys::kUnknownId},
    {SpecialToken::separator, keys::kSeparatorId},
    {SpecialToken::padding, keys::kPaddingId},
    {SpecialToken::cls, keys::kClsId},
    {SpecialToken::mask, keys::kMaskId},
    {SpecialToken::eot, keys::kEotId},
    {SpecialToken::eom, keys::kEomId},
    {SpecialToken::fim_prefix, keys::kFimPrefixId},
    {SpecialToken::fim_suffix, keys::kFimSuffixId},
    {SpecialToken::fim_middle, keys::kFimMiddleId},
    {SpecialToken::fim_pad, keys::kFimPaddingId},
    {SpecialToken::fim_repo, keys::kFimRepositoryId},
    {SpecialToken::fim_separator, keys::kFimSeparatorId},
}};

template <GgufScalar T, class Target>
Result<> read_optional(const Metadata& metadata, std::string_view key, Target& target) {
  if (metadata.find(key) == nullptr) return {};
  TESSERA_ASSIGN(target, metadata.get<T>(key));
  return {};
}

template <GgufScalar T, class Target>
Result<> read_optional_array(const Metadata& metadata, std::string_view key, Target& target) {
  if (metadata.find(key) == nullptr) return {};
  TESSERA_ASSIGN(target, metadata.get_vector<T>(key));
  return {};
}

/// Reads bytes, which files store as u8 or as i8.
Result<> read_optional_bytes(const Metadata& metadata, std::string_view key, std::vector<uint8_t>& target) {
  std::vector<int64_t> values;
  TESSERA_TRY(read_optional_array<int64_t>(metadata, key, values));
  target.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < INT8_MIN || values[i] > UINT8_MAX)
      return fail(ErrorCode::limit, "key '{}': element {} is {}, want a byte", key, i, values[i]);
    target.push_back(static_cast<uint8_t>(values[i]));
  }
  return {};
}

}  // namespace

Result<text::VocabData> load_vocab_data(const Metadata& metadata) {
  text::VocabData data;
  TESSERA_ASSIGN(data.model, metadata.get<std::string_view>(keys::kTokenizerModel));
  TESSERA_TRY(read_optional<std::string_view>(metadata, keys::kTokenizerPre, data.pre));
  TESSERA_TRY(read_optional<std::string_view>(metadata, keys::kArchitecture, data.architecture));
  TESSERA_TRY(read_optional<std::string_view>(metadata, keys::kName, data.name));
  for (const auto& [which, key] : kSpecialKeys)
    TESSERA_TRY(read_optional<int64_t>(metadata, key, data.special_ids[to_size(which)]));
  TESSERA_TRY(read_optional<bool>(metadata, keys::kAddBos, data.add_bos));
  TESSERA_TRY(read_optional<bool>(metadata, keys::kAddEos, data.add_eos));
  TESSERA_TRY(read_optional<bool>(metadata, keys::kAddSep, data.add_sep));
  TESSERA_TRY(read_optional<bool>(metadata, keys::kAddSpacePrefix, data.add_space_prefix));
  TESSERA_TRY(read_optional<bool>(metadata, keys::kRemoveExtraWhitespaces, data.remove_extra_whitespaces));
  TESSERA_TRY(read_optional<bool>(metadata, keys::kLowercase, data.lowercase));
  TESSERA_TRY(read_optional<bool>(metadata, keys::kStripAccents, data.strip_accents));
  if (text::is_model_without_vocab(data.model)) {
    TESSERA_TRY(read_optional<uint64_t>(metadata, keys::arch_key(data.architecture, "vocab_size"), data.n_tokens));
    return data;
  }
  TESSERA_ASSIGN(data.tokens, metadata.get_vector<std::string_view>(keys::kTokens));
  TESSERA_TRY(read_optional_array<float>(metadata, keys::kScores, data.scores));
  TESSERA_TRY(read_optional_array<int32_t>(metadata, keys::kTokenTypes, data.types));
  TESSERA_TRY(read_optional_array<std::string_view>(metadata, keys::kMerges, data.merges));
  TESSERA_TRY(read_optional_bytes(metadata, keys::kPrecompiledCharsmap, data.charsmap));
  return data;
}

Result<std::unique_ptr<const text::Tokenizer>> load_tokenizer(const ModelFiles& files, std::optional<int64_t> n_vocab) {
  TESSERA_ASSIGN(text::VocabData data, load_vocab_data(files.metadata()));
  if (data.tokens.empty() && n_vocab) data.n_tokens = static_cast<uint64_t>(*n_vocab);
  auto vocab = text::Vocab::create(std::move(data));
  if (!vocab) return forward_error(vocab, files.name());
  auto tokenizer = text::Tokenizer::create(std::move(*vocab));
  if (!tokenizer) return forward_error(tokenizer, files.name());
  return tokenizer;
}

}  // namespace tessera
