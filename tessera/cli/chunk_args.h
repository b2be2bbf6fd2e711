// Shared by perplexity and imatrix: running a model over a text in chunks, and the flags for it.
#pragma once

#include "tessera/cli/model_args.h"
#include "tessera/cli/text_args.h"
#include "tessera/eval/base_file.h"
#include "tessera/eval/perplexity.h"

namespace tessera::cli {

/// A loaded model, the chunks of a text, and threads that process the logits.
struct ChunkWork {
  LoadedModel model;
  eval::Chunks chunks;
  eval::ChunkRun run;
  std::unique_ptr<ThreadPool> threads;
};

struct ChunkArgs {
  ModelArgs model;
  ContextArgs context;
  TextArgs text;
  eval::ChunkOptions chunks;
  bool is_size_given = false;  // --ctx-size, the size of the chunks, was given

  void add_to(FlagTable& table);
  /// Checks all flags except that a model was given. Errors: invalid_argument.
  Result<> check();
  /// Reads the text and loads the model, with memory for the logits of the positions `outputs` of a chunk.
  Result<ChunkWork> open(Range outputs, Context& process);
  /// The same for the text of a base file, with memory for the logits of scored positions. Errors: also mismatch (flags
  /// or a given text that contradict the base file).
  Result<ChunkWork> open(const eval::BaseFile& base, Context& process);

 private:
  Result<> load(ChunkWork& work, Range outputs, Context& process);
  Result<> require_same(const eval::BaseFile& base, const eval::Chunks& of_base, const text::Tokenizer& tokenizer,
                        const Context& process) const;
};

/// Returns "PPL = 5.1234 +/- 0.0567", or "" before the first token.
std::string running_ppl(const eval::PerplexityEstimate& estimate);

}  // namespace tessera::cli
