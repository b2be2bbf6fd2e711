// The training text as tokens in memory, cut into windows. A window has n_ctx inputs and, as targets, the n_ctx tokens
// that follow each of them. Some windows are reserved for evaluation. The order of the others differs in each epoch.
// The order is a function of the seed and of the number of windows used before, so a run resumes from its step number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/base/result.h"
#include "tessera/text/tokenizer.h"
#include "tessera/train/text_reader.h"

namespace tessera::train {

enum class WindowLayout {
  packed,  // documents are concatenated and cut every n_ctx tokens; an incomplete last window is dropped
  padded,  // each document starts a window; its last window is filled with padding tokens, which are not targets
  whole,   // as padded, but a window holds all following documents that fit into it with their last token
};

enum class EvalChoice {
  tail,       // the last windows of the text
  scattered,  // one of every k consecutive windows, chosen by the seed
};

struct DatasetOptions {
  int64_t n_ctx = 256;  // at least 1, at most 2^31 - 2
  WindowLayout layout = WindowLayout::packed;
  EvalChoice eval_choice = EvalChoice::tail;
  double eval_share = 0;  // of the windows, 0 to 0.5; at least one window unless 0
  uint64_t seed = 0;
  bool end_documents = true;     // EOS after each document, even if the vocabulary does not request it
  bool parse_special = false;    // recognize control tokens that are spelled out in the text
  bool mask_boundaries = false;  // the first token of a document is not a target of the previous document's last token
};

/// A target with this value is ignored by the loss.
inline constexpr int32_t kNoTarget = -1;

class Dataset {
 public:
  /// Tokenizes the documents of a source. BOS precedes each document if the vocabulary adds it, and EOS follows.
  /// Memory: 4 bytes per token (up to 12 while the vector grows), 8 per document, 16 per window that is padded. Errors:
  /// the errors of the source and of the tokenizer; invalid_argument (the options); format (no text); limit (less than
  /// one window, or less than two with an evaluation share); cancelled. Invalid UTF-8 is accepted.
  static Result<Dataset> create(TextSource next, const text::Tokenizer& tokenizer, const DatasetOptions& options,
                                const CancelToken* cancel = nullptr);

  /// The same for files; separator as in TextReader.
  static Result<Dataset> read(std::vector<std::string> paths, std::string separator, const text::Tokenizer& tokenizer,
                              const DatasetOptions& options, const CancelToken* cancel = nullptr);

  int64_t n_ctx() const { return options_.n_ctx; }
  size_t n_tokens() const { return tokens_.size(); }
  size_t n_documents() const { return document_begins_.size(); }
  size_t n_windows() const { return n_windows_; }
  size_t n_eval_windows() const { return n_eval_; }
  size_t n_train_windows() const { return n_windows_ - n_eval_; }  // at least 1

  /// Returns the training window that follows n_seen others. Each epoch of n_train_windows() visits every training
  /// window once.
  size_t train_window(uint64_t n_seen) const;
  /// Evaluation window i < n_eval_windows(), in the order of the text.
  size_t eval_window(size_t i) const;

  /// Copies window i < n_windows(): its tokens, and for each token the next one or kNoTarget. tokens, targets [n_ctx].
  /// No token of the text is a target in two windows.
  void fill(size_t i, std::span<int32_t> tokens, std::span<int32_t> targets) const;

  /// A hash of everything that fill() and train_window() depend on. It detects resuming a run on a different text.
  uint64_t fingerprint() const;

 private:
  struct Window {
    size_t begin;
    size_t n_inputs;  // each with a target
  };

  explicit Dataset(const DatasetOptions& options) : options_(options) {}
  Result<> add(const TextPiece& piece, const text::Tokenizer& tokenizer);
  Result<> cut_windows();
  void pad_windows();
  size_t document_end(size_t i) const;
  Result<> choose_eval();
  Window window(size_t i) const;

  DatasetOptions options_;
  std::vector<int32_t> tokens_;
  std::vector<size_t> document_begins_;
  std::vector<Window> padded_windows_;  // WindowLayout::padded and whole
  size_t n_windows_ = 0;
  size_t n_eval_ = 0;
  size_t eval_step_ = 0;    // EvalChoice::scattered: one of every eval_step_ windows is for evaluation,
  size_t eval_offset_ = 0;  // at this index among them
  int32_t padding_ = 0;
};

}  // namespace tessera::train
