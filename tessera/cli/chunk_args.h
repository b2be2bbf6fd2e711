// What perplexity and imatrix share: a model run over a text in chunks, and the flags for it.
#pragma once

#include "tessera/cli/model_args.h"
#include "tessera/cli/text_args.h"
#include "tessera/eval/base_file.h"
#include "tessera/eval/perplexity.h"

namespace tessera::cli {

/// A loaded model, the text it goes over, and threads for what is done with the logits.
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
  bool is_size_given = false;  // of the chunks

  void add_to(FlagTable& table);
  /// All but whether there is a model. Errors: invalid_argument.
  Result<> check();
  /// Reads the text and loads the model, with memory for the logits of these positions of a chunk.
  Result<ChunkWork> open(Range outputs, Context& process);
  /// The same for the text of a base file, with memory for the logits of scored positions. Errors: also mismatch (the
  /// flags or the given text say otherwise).
  Result<ChunkWork> open(const eval::BaseFile& base, Context& process);

 private:
  Result<> load(ChunkWork& work, Range outputs, Context& process);
  Result<> want_same(const eval::BaseFile& base, const eval::Chunks& of_base, const text::Tokenizer& tokenizer,
                     const Context& process) const;
};

/// "PPL = 5.1234 +/- 0.0567"; nothing while there is no token.
std::string running_ppl(const eval::PerplexityEstimate& estimate);

}  // namespace tessera::cli
