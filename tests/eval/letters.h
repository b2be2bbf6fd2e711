// A vocabulary of letters for tests, in which the token ids of a text are easy to read.
#pragma once

#include <memory>
#include <utility>

#include "tests/support/small_vocab.h"

namespace tessera::testing {

enum class Bos { add, none };

/// 1 is BOS; a to d are 3 to 6; cd is 7.
inline std::unique_ptr<const text::Tokenizer> letters(Bos bos) {
  text::VocabData data = small_vocab({{"a"}, {"b"}, {"c"}, {"d"}, {"cd", 1}});
  data.add_bos = bos == Bos::add;
  return make_tokenizer(std::move(data));
}

}  // namespace tessera::testing
