#include "tessera/convert/vocabulary_keys.h"

namespace tessera::convert {

namespace {

// The vocabulary of a file without config.json: SentencePiece, with the ids that all llamas of such files have.
Vocabulary vocabulary_of(const BareModel& model) {
  Vocabulary vocabulary{
      .model = "llama", .pre = "default", .tokens = model.tokens, .scores = model.scores, .types = model.types};
  const auto set = [&](text::SpecialToken token, uint32_t id) {
    vocabulary.special_ids[static_cast<size_t>(token)] = id;
  };
  set(text::SpecialToken::unknown, 0);
  set(text::SpecialToken::bos, 1);
  set(text::SpecialToken::eos, 2);
  vocabulary.add_bos = true;
  vocabulary.add_eos = false;
  return vocabulary;
}

}  // namespace

Result<> add_vocabulary(const Checkpoint& checkpoint, const HubConfig& config, const VocabularySource& source,
                        GgufBuilder& builder, std::vector<std::string>& warnings) {
  const bool is_beside = source.folder.empty();
  if (const BareModel* model = checkpoint.bare_model(); is_beside && model != nullptr && !model->tokens.empty()) {
    const Vocabulary own = vocabulary_of(*model);
    TESSERA_TRY(check_vocabulary(own));
    return add_vocabulary(own, builder);
  }
  const std::string& folder = is_beside ? checkpoint.folder() : source.folder;
  auto vocabulary = read_vocabulary(folder, config, source.options, warnings);
  // Files without a tokenizer beside them make a model that takes token ids.
  if (!vocabulary && is_beside && vocabulary.error().code() == ErrorCode::not_found) {
    warnings.push_back(vocabulary.error().message() + ": the model has no vocabulary");
    return {};
  }
  if (!vocabulary) return forward_error(vocabulary);
  return add_vocabulary(*vocabulary, builder);
}

}  // namespace tessera::convert
