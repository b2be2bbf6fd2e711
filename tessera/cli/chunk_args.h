// What perplexity and imatrix share: a model run over a text in chunks, the flags for it, and its progress.
#pragma once

#include <chrono>

#include "tessera/cli/model_args.h"
#include "tessera/cli/text_args.h"
#include "tessera/eval/perplexity.h"

namespace tessera::cli {

/// A loaded model and the text it goes over.
struct ChunkWork {
  LoadedModel model;
  eval::Chunks chunks;
  eval::ChunkRun run;
};

struct ChunkArgs {
  ModelArgs model;
  ContextArgs context;
  TextArgs text;
  eval::ChunkOptions chunks;

  void add_to(FlagTable& table);
  /// All but whether there is a model. Errors: invalid_argument.
  Result<> check();
  /// Reads the text and loads the model, with memory for the logits of these positions of a chunk.
  Result<ChunkWork> open(Range outputs, Context& process);
};

/// How far the chunks are, with the time left and the running perplexity: one line that redraws itself where stderr is
/// a terminal, else a line for each call.
class ChunkProgress {
 public:
  /// n_before: chunks that were done in an earlier run.
  ChunkProgress(int64_t n_chunks, int64_t n_before, const Context& process);
  ~ChunkProgress();
  ChunkProgress(const ChunkProgress&) = delete;
  ChunkProgress& operator=(const ChunkProgress&) = delete;

  /// The estimate is shown when it has tokens.
  void update(int64_t n_done, const eval::PerplexityEstimate& estimate);

 private:
  using Clock = std::chrono::steady_clock;
  int64_t n_chunks_, n_before_;
  bool hidden_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace tessera::cli
