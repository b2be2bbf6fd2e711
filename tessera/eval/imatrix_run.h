// Collects an importance matrix over the chunks of a text and writes it, also while the run goes on. Used by `tessera
// imatrix`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/eval/chunks.h"
#include "tessera/eval/imatrix_collector.h"
#include "tessera/eval/perplexity.h"

namespace tessera::eval {

enum class ImatrixForm : uint8_t { gguf, dat };

/// The form that the suffix of a file names.
inline ImatrixForm imatrix_form_of(std::string_view path) {
  return path.ends_with(".dat") ? ImatrixForm::dat : ImatrixForm::gguf;
}

/// The files that a run writes.
struct ImatrixOutput {
  std::string path{};
  ImatrixForm form = ImatrixForm::gguf;
  int64_t save_every = 10;     // chunks between two saves
  int64_t snapshot_every = 0;  // chunks between two files PATH.at_N; 0: none
};

class ImatrixRun {
 public:
  ImatrixRun(ImatrixOutput output, ImatrixCollector::Output which)
      : output_(std::move(output)), collector_(collected_, which) {}
  ImatrixRun(const ImatrixRun&) = delete;
  ImatrixRun& operator=(const ImatrixRun&) = delete;

  /// Adds the matrix of a file to what save() writes. Errors: those of Imatrix::load() and Imatrix::add().
  Result<> merge(const std::string& path);

  /// Begins a text. dataset: its name. resumes: continue from the output file if there is one. Errors: mismatch (the
  /// file is of another text or size of chunks); invalid_argument (the form dat does not record the progress); those of
  /// Imatrix::load().
  Result<> begin(std::string dataset, int64_t n_ctx, bool resumes);

  /// SessionOptions::observer of the session that collect() uses.
  ProductObserver observer();

  /// Decodes the chunks that are left. threads: they score the text; null: no perplexity. `progress` gets the number of
  /// chunks that are done, and returns false to stop. Errors: invalid_argument (the output is the model); those of
  /// decode_chunks(), ImatrixCollector::status() and save(); cancelled.
  Result<> collect(Session& session, const Chunks& chunks, const ChunkRun& run, ThreadPool* threads,
                   FunctionRef<bool(int64_t)> progress, const CancelToken* cancel);

  /// Of the chunks that collect() has decoded.
  PerplexityEstimate perplexity() const { return perplexity_.estimate(); }
  const convert::Imatrix& collected() const { return collected_; }
  /// The collected sums and those of merged files. Errors: mismatch.
  Result<convert::Imatrix> total() const;
  /// Writes total() to the output. Errors: those of Imatrix::save().
  Result<> save() const { return save(output_.path); }

 private:
  int64_t end_of_group(int64_t begin, const Chunks& chunks, const ChunkRun& run) const;
  Result<> save(const std::string& path) const;

  ImatrixOutput output_;
  std::optional<convert::Imatrix> merged_;
  convert::Imatrix collected_;
  ImatrixCollector collector_;
  Perplexity perplexity_;
};

}  // namespace tessera::eval
