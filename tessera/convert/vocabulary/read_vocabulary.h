// The vocabulary of a published model, from the files of its tokenizer.
#pragma once

#include <string>
#include <vector>

#include "tessera/convert/source/hub_config.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"
#include "tessera/convert/vocabulary/vocabulary.h"

namespace tessera::convert {

/// Reads the vocabulary in a folder, which may be another one than that of the tensors. The first of these counts:
///   tokenizer.model, spiece.model, sentencepiece.bpe.model    SentencePiece
///   tokenizer.json
///   vocab.json and merges.txt
///   vocab.txt
///   rwkv_vocab_*.txt
///   tokenizer.jsonl                                           PLaMo 2 and 3
///   tekken.json
///   tiktoken.model, *.tiktoken, tokenizer.model               lines of tokens and ranks
/// Appends to `warnings` what differs from the original but can be loaded, one line each.
/// Errors, with the path of the file: not_found (none of these); unsupported (a tokenizer or pre-tokenizer that no GGUF
/// file can say); format, limit (files that contradict themselves or the config; those of the readers); io.
Result<Vocabulary> read_vocabulary(const std::string& folder, const HubConfig& config, const VocabularyOptions& options,
                                   std::vector<std::string>& warnings);

}  // namespace tessera::convert
