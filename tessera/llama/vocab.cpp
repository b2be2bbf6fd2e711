// llama.h: vocabularies and tokens.
#include <algorithm>
#include <utility>

#include "tessera/gguf/keys.h"
#include "tessera/llama/objects.h"
#include "tessera/llama/special_tokens.h"

using namespace tessera;
using namespace tessera::llama;
using text::SpecialToken;
using text::TokenType;

namespace {

constexpr int32_t kNoToken = -1;

// Bits of llama_token_attr.
constexpr int32_t kAttrUnknown = 1, kAttrUnused = 2, kAttrNormal = 4, kAttrControl = 8, kAttrUserDefined = 16,
                  kAttrByte = 32, kAttrStripsLeft = 128, kAttrStripsRight = 256;

// Whether the file says that a token is of the program. It may be a control token beside that, if it ends a text.
bool is_stated_as_user_defined(const llama_vocab& of, int32_t token) {
  const GgufValue* types = of.model->metadata().find(keys::kTokenTypes);
  if (types == nullptr || !types->is_array() || std::cmp_greater_equal(token, types->size())) return false;
  constexpr auto kUserDefined = static_cast<int64_t>(TokenType::user_defined);
  return (*types)[static_cast<size_t>(token)].as<int64_t>().value_or(0) == kUserDefined;
}

int32_t attribute_of(const llama_vocab& of, int32_t token) {
  constexpr int32_t kByType[] = {kAttrNormal,      kAttrNormal, kAttrUnknown, kAttrControl,
                                 kAttrUserDefined, kAttrUnused, kAttrByte};
  const text::Vocab& vocab = of.vocab();
  return kByType[static_cast<size_t>(vocab.type(token))] |
         (is_stated_as_user_defined(of, token) ? kAttrUserDefined : 0) |
         (vocab.strips_left(token) ? kAttrStripsLeft : 0) | (vocab.strips_right(token) ? kAttrStripsRight : 0);
}

// Calls a function for a vocabulary of llama.h.
template <class T, class Function>
T of_vocab(const char* function, const llama_vocab* vocab, T failed, Function&& body) {
  return guarded<T>(function, failed, [&]() -> Result<T> {
    TESSERA_TRY(require(vocab, "vocab"));
    return body(*vocab);
  });
}

// The same for one of its tokens.
template <class T, class Function>
T of_token(const char* function, const llama_vocab* vocab, int32_t token, T failed, Function&& body) {
  return of_vocab<T>(function, vocab, failed, [&](const llama_vocab& of) -> Result<T> {
    if (!of.has(token)) return fail(ErrorCode::invalid_argument, "token {}, there are {}", token, of.n_tokens);
    return body(of);
  });
}

int32_t special_token(const char* function, const llama_vocab* vocab, SpecialToken which) {
  return of_vocab<int32_t>(function, vocab, kNoToken,
                           [&](const llama_vocab& of) { return find_special(of.vocab(), which).value_or(kNoToken); });
}

// The token of a line's end: a byte in vocabularies that have bytes as tokens.
int32_t newline_token(const text::Vocab& vocab) {
  if (!vocab.has_text()) return kNoToken;
  if (const auto byte = vocab.byte_token('\n')) return *byte;
  for (const std::string_view text : {"\n", "\u010a"})
    if (const auto found = vocab.find(text)) return *found;
  return vocab.special(SpecialToken::padding).value_or(kNoToken);
}

bool is_shown(const text::Vocab& vocab, int32_t token, bool special) {
  const TokenType type = vocab.type(token);
  return special || (type != TokenType::control && type != TokenType::unknown);
}

// Copies a result to a buffer of a program: its size, or minus its size if there is no room. Error: limit.
template <class T>
Result<int32_t> write_result(std::span<const T> items, T* to, int32_t room) {
  if (items.size() > INT32_MAX) return fail(ErrorCode::limit, "a result of {} items", items.size());
  const auto n = static_cast<int32_t>(items.size());
  if (n > std::max(room, 0) || (to == nullptr && n > 0)) return -n;
  std::ranges::copy(items, to);
  return n;
}

// The spaces that a tokenizer adds in front of a text are removed from its first token only.
std::string detokenized(const llama_vocab& of, std::span<const int32_t> tokens, bool remove_special,
                        bool unparse_special) {
  const text::Vocab& vocab = of.vocab();
  bool strips_space = vocab.add_space_prefix();
  if (remove_special && vocab.add_bos() && !tokens.empty() && tokens.front() == vocab.special(SpecialToken::bos)) {
    tokens = tokens.subspan(1);
    strips_space = false;
  }
  if (remove_special && vocab.add_eos() && !tokens.empty() && tokens.back() == vocab.special(SpecialToken::eos))
    tokens = tokens.first(tokens.size() - 1);
  std::string text;
  for (const int32_t token : tokens) {
    const size_t begin = text.size();
    if (of.has(token) && is_shown(vocab, token, unparse_special)) of.tokenizer->append_piece(token, text);
    if (strips_space && begin < text.size() && text[begin] == ' ') text.erase(begin, 1);
    strips_space = false;
  }
  return text;
}

}  // namespace

const char* llama_vocab::text(int32_t token) const {
  const std::lock_guard lock(mutex_);
  if (text_begins_.empty()) {
    for (size_t id = 0; id < vocab().n_tokens(); ++id) {
      text_begins_.push_back(texts_.size());
      texts_.append(vocab().text(static_cast<int32_t>(id))).push_back('\0');
    }
  }
  return texts_.data() + text_begins_[static_cast<size_t>(token)];
}

std::shared_ptr<const text::grammar::MaskVocab> llama_vocab::mask() const {
  const std::lock_guard lock(mutex_);
  if (!mask_) mask_ = text::grammar::MaskVocab::create(*tokenizer, static_cast<size_t>(n_tokens));
  return mask_;
}

int32_t tessera_llama_vocab_type(const llama_vocab* vocab) {
  return of_vocab<int32_t>("llama_vocab_type", vocab, 0, [](const llama_vocab& of) {
    constexpr std::pair<std::string_view, int32_t> kTypes[] = {{"llama", 1}, {"gpt2", 2}, {"bert", 3},
                                                               {"t5", 4},    {"rwkv", 5}, {"plamo2", 6}};
    for (const auto& [model, type] : kTypes)
      if (of.vocab().model() == model) return type;
    return of.vocab().has_text() ? 2 : 0;
  });
}

int32_t tessera_llama_vocab_n_tokens(const llama_vocab* vocab) {
  return of_vocab<int32_t>("llama_vocab_n_tokens", vocab, 0,
                           [](const llama_vocab& of) { return static_cast<int32_t>(of.n_tokens); });
}

const char* tessera_llama_vocab_get_text(const llama_vocab* vocab, llama_token token) {
  return of_token<const char*>("llama_vocab_get_text", vocab, token, nullptr,
                               [&](const llama_vocab& of) { return of.text(token); });
}

float tessera_llama_vocab_get_score(const llama_vocab* vocab, llama_token token) {
  return of_token("llama_vocab_get_score", vocab, token, 0.0f,
                  [&](const llama_vocab& of) { return of.vocab().score(token); });
}

int32_t tessera_llama_vocab_get_attr(const llama_vocab* vocab, llama_token token) {
  return of_token<int32_t>("llama_vocab_get_attr", vocab, token, 0,
                           [&](const llama_vocab& of) { return attribute_of(of, token); });
}

// A program may ask about -1, the token that it has not got.
bool tessera_llama_vocab_is_eog(const llama_vocab* vocab, llama_token token) {
  return of_vocab("llama_vocab_is_eog", vocab, false,
                  [&](const llama_vocab& of) { return ends_generation(of.vocab(), token); });
}

bool tessera_llama_vocab_is_control(const llama_vocab* vocab, llama_token token) {
  return of_token("llama_vocab_is_control", vocab, token, false,
                  [&](const llama_vocab& of) { return of.vocab().type(token) == TokenType::control; });
}

int32_t tessera_llama_vocab_bos(const llama_vocab* vocab) {
  return special_token("llama_vocab_bos", vocab, SpecialToken::bos);
}
int32_t tessera_llama_vocab_eos(const llama_vocab* vocab) {
  return special_token("llama_vocab_eos", vocab, SpecialToken::eos);
}
int32_t tessera_llama_vocab_eot(const llama_vocab* vocab) {
  return special_token("llama_vocab_eot", vocab, SpecialToken::eot);
}
int32_t tessera_llama_vocab_sep(const llama_vocab* vocab) {
  return special_token("llama_vocab_sep", vocab, SpecialToken::separator);
}
int32_t tessera_llama_vocab_pad(const llama_vocab* vocab) {
  return special_token("llama_vocab_pad", vocab, SpecialToken::padding);
}
int32_t tessera_llama_vocab_mask(const llama_vocab* vocab) {
  return special_token("llama_vocab_mask", vocab, SpecialToken::mask);
}
int32_t tessera_llama_vocab_fim_pre(const llama_vocab* vocab) {
  return special_token("llama_vocab_fim_pre", vocab, SpecialToken::fim_prefix);
}
int32_t tessera_llama_vocab_fim_suf(const llama_vocab* vocab) {
  return special_token("llama_vocab_fim_suf", vocab, SpecialToken::fim_suffix);
}
int32_t tessera_llama_vocab_fim_mid(const llama_vocab* vocab) {
  return special_token("llama_vocab_fim_mid", vocab, SpecialToken::fim_middle);
}
int32_t tessera_llama_vocab_fim_pad(const llama_vocab* vocab) {
  return special_token("llama_vocab_fim_pad", vocab, SpecialToken::fim_pad);
}
int32_t tessera_llama_vocab_fim_rep(const llama_vocab* vocab) {
  return special_token("llama_vocab_fim_rep", vocab, SpecialToken::fim_repo);
}
int32_t tessera_llama_vocab_fim_sep(const llama_vocab* vocab) {
  return special_token("llama_vocab_fim_sep", vocab, SpecialToken::fim_separator);
}

int32_t tessera_llama_vocab_nl(const llama_vocab* vocab) {
  return of_vocab<int32_t>("llama_vocab_nl", vocab, kNoToken,
                           [](const llama_vocab& of) { return newline_token(of.vocab()); });
}

bool tessera_llama_vocab_get_add_bos(const llama_vocab* vocab) {
  return of_vocab("llama_vocab_get_add_bos", vocab, false, [](const llama_vocab& of) { return of.vocab().add_bos(); });
}
bool tessera_llama_vocab_get_add_eos(const llama_vocab* vocab) {
  return of_vocab("llama_vocab_get_add_eos", vocab, false, [](const llama_vocab& of) { return of.vocab().add_eos(); });
}
bool tessera_llama_vocab_get_add_sep(const llama_vocab* vocab) {
  return of_vocab("llama_vocab_get_add_sep", vocab, false, [](const llama_vocab& of) {
    // BERT's vocabularies do so unless their files say otherwise.
    const bool is_stated = of.model->metadata().find(keys::kAddSep) != nullptr;
    return of.vocab().add_sep() || (!is_stated && of.vocab().model() == "bert");
  });
}

// No file lists tokens to suppress in a form that the engine reads.
const llama_token* tessera_llama_vocab_get_suppress_tokens(const llama_vocab* vocab, int32_t* n_suppress_tokens) {
  if (n_suppress_tokens != nullptr) *n_suppress_tokens = 0;
  guarded("llama_vocab_get_suppress_tokens", [&] { return require(vocab, "vocab"); });
  return nullptr;
}

int32_t tessera_llama_tokenize(const llama_vocab* vocab, const char* text, int32_t text_len, llama_token* tokens,
                               int32_t n_tokens_max, bool add_special, bool parse_special) {
  return of_vocab<int32_t>("llama_tokenize", vocab, INT32_MIN, [&](const llama_vocab& of) -> Result<int32_t> {
    if (text_len < 0) return fail(ErrorCode::invalid_argument, "text_len: {}, want 0 or more", text_len);
    TESSERA_ASSIGN(const auto bytes, read_items(text, static_cast<uint64_t>(text_len), "text"));
    TESSERA_ASSIGN(const std::vector<int32_t> ids,
                   of.tokenizer->tokenize({bytes.data(), bytes.size()},
                                          {.add_special = add_special, .parse_special = parse_special}));
    return write_result(std::span(ids), tokens, n_tokens_max);
  });
}

int32_t tessera_llama_token_to_piece(const llama_vocab* vocab, llama_token token, char* buf, int32_t length,
                                     int32_t lstrip, bool special) {
  return of_token<int32_t>("llama_token_to_piece", vocab, token, 0, [&](const llama_vocab& of) {
    std::string piece;
    if (is_shown(of.vocab(), token, special)) of.tokenizer->append_piece(token, piece);
    const size_t n_spaces = std::min(piece.find_first_not_of(' '), piece.size());
    piece.erase(0, std::min(n_spaces, static_cast<size_t>(std::max(lstrip, 0))));
    return write_result(std::span<const char>(piece), buf, length);
  });
}

int32_t tessera_llama_detokenize(const llama_vocab* vocab, const llama_token* tokens, int32_t n_tokens, char* text,
                                 int32_t text_len_max, bool remove_special, bool unparse_special) {
  return of_vocab<int32_t>("llama_detokenize", vocab, 0, [&](const llama_vocab& of) -> Result<int32_t> {
    if (n_tokens < 0) return fail(ErrorCode::invalid_argument, "n_tokens: {}, want 0 or more", n_tokens);
    TESSERA_ASSIGN(const auto ids, read_items(tokens, static_cast<uint64_t>(n_tokens), "tokens"));
    const std::string result = detokenized(of, ids, remove_special, unparse_special);
    return write_result(std::span<const char>(result), text, text_len_max);
  });
}
