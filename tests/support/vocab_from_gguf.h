// The tokenizer of a GGUF file, for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tessera/engine/vocab_loader.h"
#include "tessera/gguf/reader.h"
#include "tessera/text/tokenizer.h"

namespace tessera::testing {

/// pre: replaces the file's tokenizer.ggml.pre unless it is empty.
inline Result<std::unique_ptr<const text::Tokenizer>> tokenizer_from_gguf(const std::string& path,
                                                                          const std::string& pre = {}) {
  TESSERA_ASSIGN(const auto file, GgufFile::open(path));
  TESSERA_ASSIGN(auto data, load_vocab_data(file->metadata()));
  if (!pre.empty()) data.pre = pre;
  TESSERA_ASSIGN(auto vocab, text::Vocab::create(std::move(data)));
  return text::Tokenizer::create(std::move(vocab));
}

}  // namespace tessera::testing
