// Rules for the vocabularies of classes of models: the rows of vocabulary_classes.def.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/text/vocab.h"

namespace tessera::convert {

struct ClassToken {
  std::string_view class_name;
  size_t n_tokens;  // the rule is for vocabularies of this size; 0: any
  text::SpecialToken which;
  std::string_view text;  // empty: the id counts
  int64_t id;
};

/// The rules for special tokens of a class.
std::vector<ClassToken> class_tokens(std::string_view class_name, size_t n_tokens);

/// The preferred name of a pre-tokenizer; "" if the class has none.
std::string_view class_pre(std::string_view class_name);
/// The pre-tokenizer of a vocabulary of ranks, whose files do not say it; "" if the class is not known.
std::string_view ranked_class_pre(std::string_view class_name);

/// The number of tokens is a multiple of this.
size_t class_padding(std::string_view class_name);

bool class_has_space_prefix(std::string_view class_name);

/// Whether added tokens that look special are, though their file does not mark them.
bool class_looks_for_specials(std::string_view class_name);

/// Classes with tokenizer.ggml.model gemma4.
bool is_gemma4(std::string_view class_name);
/// Classes of XLM-RoBERTa, whose ids are not those of its SentencePiece model.
bool is_xlm_roberta(std::string_view class_name);
/// Classes whose eos_token_id lists the end of a turn too, and whose chat_template.jinja is newer than the template in
/// tokenizer_config.json.
bool is_laguna(std::string_view class_name);

}  // namespace tessera::convert
