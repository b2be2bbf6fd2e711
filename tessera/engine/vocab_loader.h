// Fills a vocabulary's data from a GGUF file's metadata. Called when an engine loads a model and by the tools
// that need only a tokenizer. Checks the types of the keys; Vocab::create() checks what they say.
#pragma once

#include <memory>
#include <optional>

#include "tessera/base/result.h"
#include "tessera/gguf/split.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

/// The tokenizer.* keys of a file. The texts are borrowed from the file: it must stay open until
/// Vocab::create() has copied them. For a model without vocabulary ("no_vocab", "none") only the number of
/// tokens is read, from ARCHITECTURE.vocab_size (0 when that is absent too: the weights then decide).
/// Errors name the file and key: not_found without tokenizer.ggml.model or its tokens; mismatch for a value
/// or array of another type; limit for a number out of range.
Result<text::VocabData> load_vocab_data(const Metadata& metadata);

/// The tokenizer of a model, which keeps nothing of the files: they may be without weights and of any architecture.
/// n_vocab: how many ids a model without vocabulary has, where the weights decide that. Errors: those of
/// load_vocab_data(), Vocab::create() and Tokenizer::create(), with the file's name.
Result<std::unique_ptr<const text::Tokenizer>> load_tokenizer(const ModelFiles& files,
                                                              std::optional<int64_t> n_vocab = std::nullopt);

}  // namespace tessera
