// Checks a file's vocabulary and builds its lookups. The index is one open-addressing table of ids, at most half full.
// A run of kMaxProbes entries indicates texts constructed to collide and is refused, so lookup time is bounded.
#include "tessera/text/vocab.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

constexpr size_t kMaxProbes = 4096;
constexpr int64_t kAbsentId = 0xFFFFFFFF;  // -1 as a u32, which some converters write for "none"

struct SpecialDefault {
  SpecialToken which;
  int32_t id;
};

// Defaults of a tokenizer model for keys that the file lacks. The last row applies to models not listed.
struct ModelDefaults {
  std::string_view model;
  bool add_bos, add_eos, add_space_prefix;
  std::vector<SpecialDefault> ids;
};

const ModelDefaults& defaults_of(std::string_view model) {
  using enum SpecialToken;
  static const std::array<ModelDefaults, 7> kModels{{
      {"llama", true, false, true, {{bos, 1}, {eos, 2}, {unknown, 0}}},
      {"gpt2", false, false, false, {{bos, 11}, {eos, 11}}},
      {"gemma4", true, false, false, {}},
      {"bert", true, false, false, {{bos, 101}, {unknown, 100}, {separator, 102}, {padding, 0}, {mask, 103}}},
      {"t5", false, true, true, {{eos, 1}, {unknown, 2}, {padding, 0}}},
      {"plamo2", false, false, false, {{bos, 1}, {eos, 2}, {unknown, 0}, {padding, 3}}},
      {"", false, false, false, {}},
  }};
  const auto row = std::find_if(kModels.begin(), kModels.end(), [&](const auto& m) { return m.model == model; });
  return row == kModels.end() ? kModels.back() : *row;
}

constexpr std::array<std::string_view, kNSpecialTokens> kSpecialNames{
    "bos", "eos",     "unknown", "seperator", "padding", "cls",     "mask",   "eot",
    "eom", "fim_pre", "fim_suf", "fim_mid",   "fim_pad", "fim_rep", "fim_sep"};

// Texts of special tokens that end a turn or a document.
// clang-format off
constexpr std::array<std::string_view, 22> kEndTexts{
    "</s>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_turn|>", "<|im_end|>", "<|end|>", "<|eot_id|>", "<|eot|>",
    "<|eom_id|>", "<|return|>", "<|call|>", "<|flush|>", "<end_of_turn>", "<end_of_utterance>", "<EOT>", "_<EOT>",
    "[EOT]", "[EOS]", "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"};
// clang-format on

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// The byte of a text of exactly the form "<0xHH>".
std::optional<uint8_t> parse_byte_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

Result<> pack(const std::vector<std::string_view>& strings, std::string_view key, StringPool& pool) {
  size_t n_bytes = 0;
  for (const std::string_view text : strings) {
    if (text.size() > kMaxVocabBytes - n_bytes)
      return fail(ErrorCode::limit, "{}: more than {} bytes of text", key, kMaxVocabBytes);
    n_bytes += text.size();
  }
  pool.reserve(strings.size(), n_bytes);
  for (const std::string_view text : strings) pool.add(text);
  return {};
}

}  // namespace

Result<std::shared_ptr<const Vocab>> Vocab::create(VocabData data) {
  std::shared_ptr<Vocab> vocab(new Vocab);
  const ModelDefaults& defaults = defaults_of(data.model);
  if (data.model == "gemma4") {  // the model needs BOS and has only one pre-tokenizer, even if the file differs
    data.pre = data.model;
    data.add_bos = true;
  }
  const PreRow* pre = data.model == "gpt2" ? find_pre(data.pre) : nullptr;
  const auto pre_says = [&](PreFlag flag) { return pre != nullptr && (pre->flags & flag) != 0; };
  vocab->add_bos_ = data.add_bos.value_or(defaults.add_bos || pre_says(kAddBos));
  vocab->add_eos_ = data.add_eos.value_or(defaults.add_eos);
  vocab->add_sep_ = data.add_sep.value_or(pre_says(kAddSep));
  vocab->add_space_prefix_ = data.add_space_prefix.value_or(defaults.add_space_prefix);
  vocab->remove_extra_whitespaces_ = data.remove_extra_whitespaces.value_or(false);
  vocab->lowercase_ = data.lowercase;
  vocab->strip_accents_ = data.strip_accents;
  vocab->charsmap_ = std::move(data.charsmap);
  vocab->model_ = data.model;
  vocab->pre_ = data.pre;
  vocab->has_text_ = !is_model_without_vocab(data.model);
  vocab->byte_tokens_.fill(-1);
  vocab->n_tokens_ = vocab->has_text_ ? data.tokens.size() : data.n_tokens;
  if (vocab->n_tokens_ > kMaxTokens)
    return fail(ErrorCode::limit, "vocabulary: {} tokens, limit {}", vocab->n_tokens_, kMaxTokens);
  if (auto& bos = data.special_ids[to_size(SpecialToken::bos)]; pre_says(kNoDefaultBos) && !bos) bos = -1;
  TESSERA_TRY(vocab->set_special_ids(data));
  if (vocab->has_text_) {
    TESSERA_TRY(vocab->set_tokens(data));
    TESSERA_TRY(vocab->set_types(data.types));
    TESSERA_TRY(vocab->build_index());
    vocab->set_strip_rules(data);
  }
  vocab->set_eog();
  return vocab;
}

Result<> Vocab::set_tokens(VocabData& data) {
  if (n_tokens_ == 0)
    return fail(ErrorCode::format, "tokenizer.ggml.tokens: no tokens for tokenizer model \"{}\"", model_);
  if (data.scores && data.scores->size() != n_tokens_)
    return fail(ErrorCode::mismatch, "tokenizer.ggml.scores: {} values for {} tokens", data.scores->size(), n_tokens_);
  if (data.types && data.types->size() != n_tokens_)
    return fail(ErrorCode::mismatch, "tokenizer.ggml.token_type: {} values for {} tokens", data.types->size(),
                n_tokens_);
  scores_ = std::move(data.scores).value_or(std::vector<float>{});
  const auto nan = std::find_if(scores_.begin(), scores_.end(), [](float s) { return std::isnan(s); });
  if (nan != scores_.end()) return fail(ErrorCode::format, "tokenizer.ggml.scores[{}]: NaN", nan - scores_.begin());
  TESSERA_TRY(pack(data.tokens, "tokenizer.ggml.tokens", tokens_));
  return pack(data.merges, "tokenizer.ggml.merges", merges_);
}

// A token with type byte whose text is not <0xHH> spells its text like a normal token.
Result<> Vocab::set_types(const std::optional<std::vector<int32_t>>& types) {
  constexpr auto kLast = static_cast<int32_t>(TokenType::byte);
  traits_.resize(n_tokens_);
  for (size_t i = 0; i < n_tokens_; ++i) {
    Traits& traits = traits_[i];
    if (types) {
      const int32_t type = (*types)[i];
      if (type < 0 || type > kLast)
        return fail(ErrorCode::format, "tokenizer.ggml.token_type[{}]: {}, want 0 to {}", i, type, kLast);
      if (type != 0) traits.type = static_cast<TokenType>(type);
      if (traits.type != TokenType::byte) continue;
    }
    const auto byte = parse_byte_text(tokens_[i]);
    traits.type = byte ? TokenType::byte : TokenType::normal;
    if (!byte) continue;
    if (byte_tokens_[*byte] >= 0)
      return fail(ErrorCode::format, "tokenizer.ggml.tokens: {} and {} are both the byte {}", byte_tokens_[*byte], i,
                  quote_text(tokens_[i]));
    traits.byte = *byte;
    byte_tokens_[*byte] = static_cast<int32_t>(i);
  }
  return {};
}

Result<> Vocab::set_special_ids(const VocabData& data) {
  for (const auto& [which, id] : defaults_of(model_).ids)
    if (has_text_ && contains(id)) special_ids_[to_size(which)] = id;
  for (size_t i = 0; i < kNSpecialTokens; ++i) {
    if (!data.special_ids[i]) continue;
    const int64_t id = *data.special_ids[i];
    special_ids_[i].reset();
    if (contains(id)) {
      special_ids_[i] = static_cast<int32_t>(id);
    } else if (id != -1 && id != kAbsentId && i != to_size(SpecialToken::padding)) {
      return fail(ErrorCode::format, "tokenizer.ggml.{}_token_id: {}, limit {} (tokens)", kSpecialNames[i], id,
                  n_tokens_);
    }
  }
  return {};
}

/// The slot of `text`, or the free slot in which to insert it.
Result<size_t> Vocab::find_slot(std::string_view text) const {
  const size_t mask = index_.size() - 1;
  const size_t first = std::hash<std::string_view>{}(text);
  for (size_t n = 0; n < kMaxProbes; ++n) {
    const size_t slot = (first + n) & mask;
    if (index_[slot] < 0 || this->text(index_[slot]) == text) return slot;
  }
  return fail(ErrorCode::limit, "tokenizer.ggml.tokens: {} and {} others share a hash, limit {}", quote_text(text),
              kMaxProbes, kMaxProbes);
}

Result<> Vocab::build_index() {
  index_.assign(std::bit_ceil(2 * n_tokens_), -1);
  for (size_t i = 0; i < n_tokens_; ++i) {
    const auto id = static_cast<int32_t>(i);
    const TokenType kind = type(id);
    if (text(id).empty() || kind == TokenType::byte) continue;
    TESSERA_ASSIGN(const size_t slot, find_slot(text(id)));
    const int32_t other = index_[slot];
    const bool spells_text = kind == TokenType::normal || kind == TokenType::user_defined;
    if (other >= 0 && spells_text && type(other) == kind)
      return fail(ErrorCode::format, "tokenizer.ggml.tokens: {} and {} are both {}", other, id, quote_text(text(id)));
    if (other < 0 || (spells_text && !is_textual(type(other)))) index_[slot] = id;
  }
  return {};
}

std::optional<int32_t> Vocab::find(std::string_view text) const {
  if (text.empty() || index_.empty()) return std::nullopt;
  const auto slot = find_slot(text);
  if (!slot || index_[*slot] < 0) return std::nullopt;
  return index_[*slot];
}

std::optional<int32_t> Vocab::byte_token(uint8_t byte) const {
  if (byte_tokens_[byte] < 0) return std::nullopt;
  return byte_tokens_[byte];
}

bool Vocab::is_eog(int64_t id) const {
  return contains(id) && std::binary_search(eog_ids_.begin(), eog_ids_.end(), static_cast<int32_t>(id));
}

// A user-defined token with an end text becomes a control token, because user text must not spell the end of a turn.
void Vocab::set_eog() {
  using enum SpecialToken;
  for (const SpecialToken which : {eos, eot, eom, fim_pad, fim_repo, fim_separator})
    if (const auto id = special(which)) eog_ids_.push_back(*id);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    TokenType& type = traits_[i].type;
    if (type != TokenType::control && type != TokenType::user_defined) continue;
    if (std::find(kEndTexts.begin(), kEndTexts.end(), tokens_[i]) == kEndTexts.end()) continue;
    type = TokenType::control;
    eog_ids_.push_back(static_cast<int32_t>(i));
  }
  // gpt-oss ends a message with <|end|> and continues with the next message. <|return|> and <|call|> end its turn.
  const auto end = find("<|end|>");
  if (end && find("<|return|>") && find("<|call|>")) std::erase(eog_ids_, *end);
  std::sort(eog_ids_.begin(), eog_ids_.end());
  eog_ids_.erase(std::unique(eog_ids_.begin(), eog_ids_.end()), eog_ids_.end());
}

// Files do not record which special tokens absorb adjacent white space; it depends on the model family. Special tokens
// of Phi-3 (all but three) absorb it to their right, and the <mask> of some embedding models to its left.
void Vocab::set_strip_rules(const VocabData& data) {
  std::string name = data.name;
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const bool is_phi3 = name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
  for (size_t i = 0; is_phi3 && i < n_tokens_; ++i) {
    const bool is_special = !is_textual(traits_[i].type) || traits_[i].type == TokenType::user_defined;
    const std::string_view text = tokens_[i];
    const bool is_exempt = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
    traits_[i].strips_right = is_special && traits_[i].type != TokenType::byte && !is_exempt;
  }
  constexpr std::array<std::string_view, 3> kPres{"jina-v2-de", "jina-v2-es", "jina-v2-code"};
  constexpr std::array<std::string_view, 2> kArchitectures{"nomic-bert-moe", "jina-bert-v3"};
  const bool strips_mask =
      std::find(kPres.begin(), kPres.end(), data.pre) != kPres.end() ||
      std::find(kArchitectures.begin(), kArchitectures.end(), data.architecture) != kArchitectures.end();
  if (const auto mask = find("<mask>"); strips_mask && mask) traits_[to_size(*mask)].strips_left = true;
}

}  // namespace tessera::text
