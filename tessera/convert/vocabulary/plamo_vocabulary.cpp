// Facts about the file: tokenization_plamo.py of the checkpoints, and llama.cpp's converter. Lines may have more
// members than three, which both ignore.
#include "tessera/convert/vocabulary/plamo_vocabulary.h"

#include <fmt/format.h>

#include <bitset>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/vocabulary/added_tokens.h"
#include "tessera/convert/vocabulary/text_lines.h"
#include "tessera/json/reader.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kPlamoFile = "tokenizer.jsonl";
constexpr std::string_view kPlamoTurnEnd = "<|plamo:op|>";
constexpr JsonLimits kPlamoLineLimits{.max_depth = 8, .max_values = 256, .tree_bytes = size_t{64} << 10};

// Settings that cut texts before the vocabulary is used.
constexpr std::string_view kUnsaid[] = {"break_around_consecutive_spaces_threshold",
                                        "break_around_repeated_chars_threshold"};

/// The byte of <0xHH>.
std::optional<uint8_t> byte_of_name(std::string_view text) {
  uint8_t byte = 0;
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  const char* const end = text.data() + 5;
  const auto [stop, code] = std::from_chars(text.data() + 3, end, byte, 16);
  return code == std::errc{} && stop == end ? std::optional(byte) : std::nullopt;
}

/// Some control tokens are marked as normal ones.
text::TokenType type_of_plamo_row(std::string_view name, std::string_view text) {
  if (name == "UNKNOWN") return text::TokenType::unknown;
  if (name == "BYTE") return text::TokenType::byte;
  const bool is_control = name == "CONTROL" || (text.starts_with("<|plamo:") && text.ends_with("|>"));
  return is_control ? text::TokenType::control : text::TokenType::normal;
}

Result<VocabularyToken> parse_plamo_row(std::string_view line) {
  TESSERA_ASSIGN(const JsonTree row, read_json_tree(line, kPlamoLineLimits));
  const bool is_row = row->is_array() && row->size() >= 2 && (*row)[0].is_string() && (*row)[1].is_number() &&
                      (row->size() == 2 || (*row)[2].is_string());
  if (!is_row) return fail(ErrorCode::format, "{}: want a list of a text, a score and a type", text::quote_text(line));
  std::string text = (*row)[0].get<std::string>();
  const auto score = (*row)[1].get<double>();
  if (std::abs(score) > double{std::numeric_limits<float>::max()})
    return fail(ErrorCode::format, "token {}: a score of {}", text::quote_text(text), score);
  const text::TokenType type = type_of_plamo_row(row->size() == 2 ? "" : (*row)[2].get_ref<const std::string&>(), text);
  return VocabularyToken{std::move(text), static_cast<float>(score), type};
}

Result<> add_plamo_rows(std::string_view text, const std::string& path, TokenTable& tokens) {
  std::bitset<256> bytes;
  TESSERA_TRY(for_each_line(text, path, [&](std::string_view line) -> Result<> {
    if (line.find_first_not_of(" \t") == std::string_view::npos) return {};
    TESSERA_ASSIGN(VocabularyToken token, parse_plamo_row(line));
    if (token.type == text::TokenType::byte) {
      const auto byte = byte_of_name(token.text);
      if (!byte)
        return fail(ErrorCode::format, "token {}: its type is BYTE, want <0x00> to <0xFF>",
                    text::quote_text(token.text));
      bytes.set(*byte);
    }
    return tokens.add(static_cast<int64_t>(tokens.n_ids()), std::move(token));
  }));
  for (size_t byte = 0; byte < bytes.size(); ++byte)
    if (!bytes[byte]) return fail(ErrorCode::format, "{}: no token <0x{:02X}> of type BYTE", path, byte);
  return {};
}

/// Ids of the names that the tokenizer's code has for them.
void find_named_ids(VocabularyDraft& draft) {
  for (size_t i = 0; i < draft.tokens.n_ids(); ++i) {
    const auto id = static_cast<int64_t>(i);
    const std::string& text = draft.tokens.all()[i].text;
    if (text == "<|plamo:unk|>") draft.unk_id = id;
    if (text == "<|plamo:bos|>") draft.bos_id = id;
    if (text == "<|plamo:eos|>") draft.eos_id = id;
    if (text == "<|plamo:pad|>") draft.pad_id = id;
    if (text == kPlamoTurnEnd)
      draft.vocabulary.special_ids[to_size(text::SpecialToken::eot)] = static_cast<uint32_t>(id);
  }
}

/// Tokens that tokenizer_config.json has beyond those of the vocabulary. It repeats the special ones of the vocabulary.
Result<> add_later_tokens(const TokenizerFolder& folder, TokenTable& tokens) {
  TESSERA_ASSIGN(const std::vector<AddedToken> added, added_tokens_of_settings(folder));
  for (const AddedToken& token : added)
    if (tokens.find(token.id) == nullptr) TESSERA_TRY(tokens.add(token.id, to_vocabulary_token(token, kAddedScore)));
  return {};
}

void warn_of_unsaid(const TokenizerFolder& folder) {
  for (const std::string_view name : kUnsaid)
    if (folder.setting(name) != nullptr)
      folder.warn(fmt::format("{}: GGUF has no key for {}: long runs of a character may get other tokens",
                              folder.path_of("tokenizer_config.json"), name));
}

}  // namespace

Result<std::optional<VocabularyDraft>> read_plamo(const TokenizerFolder& folder) {
  if (!folder.first_of({kPlamoFile})) return std::nullopt;
  TESSERA_ASSIGN(const std::string text, folder.read_text(kPlamoFile));
  VocabularyDraft draft;
  draft.file = folder.path_of(kPlamoFile);
  draft.has_scores = true;
  draft.padding_score = kPaddingScore;
  draft.vocabulary.model = "plamo2";
  draft.vocabulary.pre = "default";
  draft.vocabulary.add_space_prefix = false;
  TESSERA_TRY(add_plamo_rows(text, draft.file, draft.tokens));
  find_named_ids(draft);
  TESSERA_TRY(add_later_tokens(folder, draft.tokens));
  warn_of_unsaid(folder);
  return draft;
}

}  // namespace tessera::convert
