// A vocabulary as a reader makes it of the file of a tokenizer. read_vocabulary() completes it from the other files of
// the folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/convert/vocabulary/token_table.h"
#include "tessera/convert/vocabulary/vocabulary.h"

namespace tessera::convert {

/// Tokens that a tokenizer adds to texts.
struct TextEnds {
  std::vector<std::string> first{}, last{};  // in front of a text and behind it
  bool has_separator = false;                // between two texts: more than the tokens above
};

struct VocabularyDraft {
  std::string file{};       // its path, for errors
  Vocabulary vocabulary{};  // without tokens, ids and templates
  TokenTable tokens{};
  bool has_scores = false;
  float padding_score = 0;                                        // of ids without token
  std::optional<TextEnds> ends{};                                 // nothing: the file does not say
  bool adds_bos = false, adds_eos = false;                        // where nothing says otherwise
  std::optional<int64_t> bos_id{}, eos_id{}, unk_id{}, pad_id{};  // where nothing else names them
};

}  // namespace tessera::convert
