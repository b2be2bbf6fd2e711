#include "tessera/convert/vocabulary/special_tokens.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::array<NamedSpecialToken, 7> kNamedSpecialTokens{{{"bos", text::SpecialToken::bos},
                                                                {"eos", text::SpecialToken::eos},
                                                                {"unk", text::SpecialToken::unknown},
                                                                {"sep", text::SpecialToken::separator},
                                                                {"pad", text::SpecialToken::padding},
                                                                {"cls", text::SpecialToken::cls},
                                                                {"mask", text::SpecialToken::mask}}};

/// The id of a text. Of several the first that is not normal counts.
std::optional<int64_t> find_token_id(const TokenTable& tokens, std::string_view text) {
  std::optional<int64_t> normal;
  for (size_t id = 0; id < tokens.n_ids(); ++id) {
    const VocabularyToken& token = tokens.all()[id];
    if (token.text != text || token.type == text::TokenType::undefined) continue;
    if (token.type != text::TokenType::normal) return static_cast<int64_t>(id);
    if (!normal) normal = static_cast<int64_t>(id);
  }
  return normal;
}

/// NAME_token_id of config.json: a number, or a list of which the first counts.
Result<std::optional<int64_t>> id_of_config(const HubConfig& config, const std::string& name) {
  const Json* value = config.find({name});
  if (value == nullptr || !value->is_array()) return config.integer({name}, INT64_MIN, INT64_MAX);
  TESSERA_ASSIGN(const auto ids, config.integers({name}, INT64_MIN, INT64_MAX));
  if (!ids || ids->empty()) return std::nullopt;
  return ids->front();
}

class SpecialIds {
 public:
  SpecialIds(const TokenizerFolder& folder, VocabularyDraft& draft) : folder_(folder), draft_(draft) {}

  std::optional<uint32_t>& of(text::SpecialToken which) { return draft_.vocabulary.special_ids[to_size(which)]; }

  /// Sets an id that is not known yet. A negative one stands for none in configs.
  void offer(text::SpecialToken which, std::optional<int64_t> id, std::string_view name) {
    if (!id || *id < 0 || of(which)) return;
    if (draft_.tokens.find(*id) == nullptr)
      folder_.warn(fmt::format("{} is {}, but there are {} tokens", name, *id, draft_.tokens.n_ids()));
    else
      of(which) = static_cast<uint32_t>(*id);
  }

  void offer_text(text::SpecialToken which, const std::optional<std::string>& text, std::string_view name) {
    if (!text || text->empty() || of(which)) return;
    if (const auto id = find_token_id(draft_.tokens, *text))
      offer(which, id, name);
    else
      folder_.warn(fmt::format("{} is {}, which is no token", name, text::quote_text(*text)));
  }

  void offer_rules() {
    for (const ClassToken& rule : class_tokens(folder_.config().class_name(), draft_.tokens.n_ids())) {
      const auto id = rule.text.empty() ? std::optional(rule.id) : find_token_id(draft_.tokens, rule.text);
      if (id && draft_.tokens.find(*id) != nullptr) offer(rule.which, id, rule.text);
    }
  }

 private:
  const TokenizerFolder& folder_;
  VocabularyDraft& draft_;
};

/// Of the ids in eos_token_id, a further one that does not begin texts ends a turn. A tag that ends a turn is a control
/// token, also where the tokenizer says that it is a usual one.
Result<> add_turn_end(const TokenizerFolder& folder, SpecialIds& ids, TokenTable& tokens) {
  using enum text::SpecialToken;
  const Json* const listed = folder.config().find({"eos_token_id"});
  if (listed != nullptr && listed->is_array()) {
    TESSERA_ASSIGN(const auto ends, folder.config().integers({"eos_token_id"}, 0, INT32_MAX));
    for (const int64_t id : ends.value_or(std::vector<int64_t>{}))
      if (id != ids.of(eos) && id != ids.of(bos)) ids.offer(eot, id, folder.config().path() + ": eos_token_id");
  }
  for (VocabularyToken& token : tokens.all())
    if (token.text == "</assistant>") token.type = text::TokenType::control;
  return {};
}

/// Whether a token is added at an end of texts, if its id is known.
bool adds_token(const TokenizerFolder& folder, VocabularyDraft& draft, text::SpecialToken which,
                std::string_view setting, const std::vector<std::string>* added, bool otherwise) {
  const std::optional<bool> said = folder.flag_setting(setting);
  if (!said.value_or(added != nullptr ? !added->empty() : otherwise)) return false;
  std::optional<uint32_t>& id = draft.vocabulary.special_ids[to_size(which)];
  if (added != nullptr && !added->empty()) {
    const std::string& text = which == text::SpecialToken::bos ? added->front() : added->back();
    const auto added_id = find_token_id(draft.tokens, text);
    if (!id && added_id) id = static_cast<uint32_t>(*added_id);
    if (!said && id && added_id != std::optional<int64_t>(*id)) {
      folder.warn(fmt::format("{}: {} is added to texts, which GGUF cannot say beside {}", draft.file,
                              text::quote_text(text), text::quote_text(draft.tokens.all()[*id].text)));
      return false;
    }
    if (added->size() > 1)
      folder.warn(fmt::format("{}: {} tokens are added at an end of texts, of which GGUF can say {} alone", draft.file,
                              added->size(), text::quote_text(text)));
  }
  if (!id) folder.warn(fmt::format("{}: {} is true, but no such token is known", draft.file, setting));
  return id.has_value();
}

}  // namespace

std::span<const NamedSpecialToken> named_special_tokens() { return kNamedSpecialTokens; }

Result<> set_special_ids(const TokenizerFolder& folder, VocabularyDraft& draft) {
  using enum text::SpecialToken;
  SpecialIds ids(folder, draft);
  ids.offer_rules();
  for (const auto& [name, which] : kNamedSpecialTokens) {
    const std::string token = std::string(name) + "_token";
    ids.offer_text(which, folder.token_setting(token), folder.path_of("tokenizer_config.json") + ": " + token);
    const std::string id_name = token + "_id";
    TESSERA_ASSIGN(const auto id, id_of_config(folder.config(), id_name));
    ids.offer(which, id, folder.config().path() + ": " + id_name);
  }
  ids.offer(bos, draft.bos_id, draft.file + ": bos_id");
  ids.offer(eos, draft.eos_id, draft.file + ": eos_id");
  ids.offer(unknown, draft.unk_id, draft.file + ": unk_id");
  ids.offer(padding, draft.pad_id, draft.file + ": pad_id");
  if (!ids.of(bos)) ids.of(bos) = ids.of(cls);
  if (!ids.of(eos)) ids.of(eos) = ids.of(separator);
  if (is_laguna(folder.config().class_name())) return add_turn_end(folder, ids, draft.tokens);
  return {};
}

void set_added_ends(const TokenizerFolder& folder, VocabularyDraft& draft) {
  Vocabulary& vocabulary = draft.vocabulary;
  const TextEnds* ends = draft.ends ? &*draft.ends : nullptr;
  const text::PreRow* pre = text::find_pre(vocabulary.pre);
  const bool is_pair_model = pre != nullptr && (pre->flags & text::kAddSep) != 0;
  vocabulary.add_bos = adds_token(folder, draft, text::SpecialToken::bos, "add_bos_token",
                                  ends != nullptr ? &ends->first : nullptr, draft.adds_bos || is_pair_model);
  vocabulary.add_eos = adds_token(folder, draft, text::SpecialToken::eos, "add_eos_token",
                                  ends != nullptr ? &ends->last : nullptr, draft.adds_eos || is_pair_model);
  vocabulary.add_sep = ends != nullptr ? ends->has_separator : is_pair_model;
}

}  // namespace tessera::convert
