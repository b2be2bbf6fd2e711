// A vocabulary: tokens, their scores and types, the ids of special tokens and the flags of the tokenizer. It is checked
// once in create() and immutable afterwards, so any number of threads may share it. engine/vocab_loader fills VocabData
// from a GGUF file. Invariant: every stored or returned id is in [0, n_tokens()).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/base/result.h"
#include "tessera/text/string_pool.h"

namespace tessera::text {

inline constexpr size_t kMaxTokens = (size_t{1} << 31) - 1;
inline constexpr size_t kMaxVocabBytes = size_t{1} << 30;

/// Values as stored in tokenizer.ggml.token_type; undefined is read as normal.
enum class TokenType : uint8_t { undefined, normal, unknown, control, user_defined, unused, byte };

/// True for tokens that ordinary text may become. Control, unknown and byte tokens never spell text.
constexpr bool is_textual(TokenType type) {
  return type != TokenType::unknown && type != TokenType::control && type != TokenType::byte;
}

enum class SpecialToken : uint8_t {
  bos,
  eos,
  unknown,
  separator,
  padding,
  cls,
  mask,
  eot,
  eom,
  fim_prefix,
  fim_suffix,
  fim_middle,
  fim_pad,
  fim_repo,
  fim_separator,
};
inline constexpr size_t kNSpecialTokens = 15;

/// True for tokenizer.ggml.model of a model that has token ids but no texts for them.
constexpr bool is_model_without_vocab(std::string_view model) { return model == "no_vocab" || model == "none"; }

/// Contents of a file, unchecked. An absent optional gets the default of the tokenizer model.
struct VocabData {
  std::string model;         // tokenizer.ggml.model: "llama", "gpt2", ..., "no_vocab"
  std::string pre;           // tokenizer.ggml.pre
  std::string architecture;  // general.architecture and general.name decide a few tokens' whitespace rules
  std::string name;
  uint64_t n_tokens = 0;                      // only for a model without vocabulary; otherwise tokens.size()
  std::vector<std::string_view> tokens;       // tokens and merges are borrowed until create() returns
  std::optional<std::vector<float>> scores;   // absent: all 0
  std::optional<std::vector<int32_t>> types;  // absent: all normal, except that <0xHH> is a byte token
  std::vector<std::string_view> merges;
  std::array<std::optional<int64_t>, kNSpecialTokens> special_ids;  // by SpecialToken; -1 and 2^32-1: absent
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces;
  bool lowercase = true;          // WPM: convert words to lower case
  bool strip_accents = true;      // WPM: remove accents
  std::vector<uint8_t> charsmap;  // tokenizer.ggml.precompiled_charsmap: see charsmap.h
};

class Vocab {
 public:
  /// Checks and packs `data`. Error messages name the GGUF key and the token.
  ///   limit     more than kMaxTokens tokens, or kMaxVocabBytes of tokens or of merges
  ///   mismatch  the number of scores or types differs from the number of tokens
  ///   format    no tokens; a type not in 0..6; a NaN score; a special id out of range; two normal, two
  ///             user-defined or two byte tokens with one text
  /// An out-of-range padding id is dropped instead: real files have one past the end, and no text produces it. Other
  /// duplicates are accepted, because real files contain them as padding or aliases. For these find() prefers a token
  /// that spells text, then the lowest id.
  static Result<std::shared_ptr<const Vocab>> create(VocabData data);

  /// False for a model without vocabulary, which has n_tokens ids but no texts.
  bool has_text() const { return has_text_; }
  size_t n_tokens() const { return n_tokens_; }
  bool contains(int64_t id) const { return id >= 0 && static_cast<uint64_t>(id) < n_tokens_; }

  const std::string& model() const { return model_; }
  const std::string& pre() const { return pre_; }
  const StringPool& merges() const { return merges_; }

  // Properties of one token; require contains(id) and has_text(). Texts are as stored (U+2581 for a space in SPM).
  std::string_view text(int32_t id) const { return tokens_[to_size(id)]; }
  float score(int32_t id) const { return scores_.empty() ? 0.0f : scores_[to_size(id)]; }
  TokenType type(int32_t id) const { return traits_[to_size(id)].type; }
  bool strips_left(int32_t id) const { return traits_[to_size(id)].strips_left; }
  bool strips_right(int32_t id) const { return traits_[to_size(id)].strips_right; }

  /// True for the tokens that end a generation: eos, eot, eom, the fill-in-the-middle ends, and special tokens with a
  /// well-known end text such as <|im_end|>. False for ids that are not tokens.
  bool is_eog(int64_t id) const;

  /// Returns the token with exactly this text, textual tokens first. Never returns a byte token. Returns nothing for
  /// "".
  std::optional<int32_t> find(std::string_view text) const;

  /// The token <0xHH> of a byte, if there is one.
  std::optional<int32_t> byte_token(uint8_t byte) const;

  /// The byte of a token of type byte.
  uint8_t byte_value(int32_t id) const { return traits_[to_size(id)].byte; }

  std::optional<int32_t> special(SpecialToken which) const { return special_ids_[to_size(which)]; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_sep() const { return add_sep_; }  // between the two texts of a pair
  bool add_space_prefix() const { return add_space_prefix_; }
  bool remove_extra_whitespaces() const { return remove_extra_whitespaces_; }
  bool lowercase() const { return lowercase_; }
  bool strip_accents() const { return strip_accents_; }
  std::span<const uint8_t> charsmap() const { return charsmap_; }

 private:
  struct Traits {
    TokenType type = TokenType::normal;
    uint8_t byte = 0;
    bool strips_left = false;
    bool strips_right = false;
  };

  Vocab() = default;
  Result<> set_tokens(VocabData& data);
  Result<> set_types(const std::optional<std::vector<int32_t>>& types);
  Result<> set_special_ids(const VocabData& data);
  Result<> build_index();
  Result<size_t> find_slot(std::string_view text) const;
  void set_eog();
  void set_strip_rules(const VocabData& data);

  std::string model_;
  std::string pre_;
  bool has_text_ = false;
  size_t n_tokens_ = 0;
  StringPool tokens_;
  StringPool merges_;
  std::vector<float> scores_;
  std::vector<Traits> traits_;
  std::vector<int32_t> index_;    // open addressing by hash of the text: ids, -1 for free; size is a power of two
  std::vector<int32_t> eog_ids_;  // sorted
  std::array<int32_t, 256> byte_tokens_{};
  std::array<std::optional<int32_t>, kNSpecialTokens> special_ids_;
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool add_sep_ = false;
  bool add_space_prefix_ = false;
  bool remove_extra_whitespaces_ = false;
  bool lowercase_ = true;
  bool strip_accents_ = true;
  std::vector<uint8_t> charsmap_;
};

}  // namespace tessera::text
