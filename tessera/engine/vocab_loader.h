// Reads the data of a vocabulary from the metadata of a GGUF file. Used when an engine loads a model, and by tools that
// need only a tokenizer. Checks the types of the keys; Vocab::create() checks their values.
#pragma once

#include <memory>
#include <optional>

#include "tessera/base/result.h"
#include "tessera/gguf/split.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

/// Reads the tokenizer.* keys of a file. The texts point into the file, which must stay open until Vocab::create() has
/// copied them. For a model without vocabulary ("no_vocab", "none") only the number of tokens is read, from
/// ARCHITECTURE.vocab_size. If that key is absent too, the number is 0, and the weights determine it. Errors name the
/// file and key: not_found (no tokenizer.ggml.model, or no tokens); mismatch (a value or array of another type); limit
/// (a number out of range).
Result<text::VocabData> load_vocab_data(const Metadata& metadata);

/// Creates the tokenizer of a model. It does not refer to the files afterwards. The files need no weights, and their
/// architecture may be unknown. n_vocab: the number of ids of a model without vocabulary, if only the weights determine
/// it. Errors: those of load_vocab_data(), Vocab::create() and Tokenizer::create(), with the file's name.
Result<std::unique_ptr<const text::Tokenizer>> load_tokenizer(const ModelFiles& files,
                                                              std::optional<int64_t> n_vocab = std::nullopt);

}  // namespace tessera
