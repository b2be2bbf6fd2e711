// Checks of a model file for `tessera verify`: values and tokenizer. The structure of the file was checked when it was
// opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/base/thread_pool.h"
#include "tessera/gguf/split.h"
#include "tessera/text/tokenizer.h"

namespace tessera::convert {

/// Called on the caller's thread with the share of the checked bytes, 0 to 1; with 1 at the end. Returns false to stop.
using VerifyProgress = std::function<bool(float)>;

/// Checks every block of every tensor, on all threads. Errors: format, with file, tensor and block of the first fault,
/// independent of the number of threads; cancelled.
Result<> check_values(const ModelFiles& model, ThreadPool& threads, const VerifyProgress& progress = {});

/// Number of blocks of all tensors. In types without blocks each element counts as one.
uint64_t count_blocks(const ModelFiles& model);

/// Converts texts to tokens and back: sentences in several scripts, control characters, and the text of each normal
/// token of the vocabulary. Returns the number of texts. Returns 0 if the tokenizer does not guarantee a round trip (it
/// normalises texts, or has no token for some bytes). Error: format, with the text that changed.
Result<size_t> check_round_trips(const text::Tokenizer& tokenizer);

}  // namespace tessera::convert
