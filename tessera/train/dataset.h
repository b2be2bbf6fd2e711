// A text as the trainer eats it: tokens in memory, cut into windows of n_ctx inputs and the n_ctx tokens that follow
// them, some windows set apart for evaluation, the others in an order of each epoch's own. What is visited when is a
// function of the seed and the number of windows seen before, so a run that resumes knows its place from its step.
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
  packed,  // all documents end to end, cut every n_ctx tokens; what is left at the end of the text is not used
  padded,  // a document begins a window, and its last window is filled up with tokens that are no targets
};

enum class EvalChoice {
  tail,       // the last windows of the text
  scattered,  // one of every k in a row, chosen by the seed
};

struct DatasetOptions {
  int64_t n_ctx = 256;  // at least 1, at most 2^31 - 2
  WindowLayout layout = WindowLayout::packed;
  EvalChoice eval_choice = EvalChoice::tail;
  double eval_share = 0;  // of the windows, 0 to 0.5; if it is not 0, at least one
  uint64_t seed = 0;
  bool end_documents = true;     // EOS after each document, even where the vocabulary does not ask for it
  bool parse_special = false;    // control tokens spelled out in the text become those tokens
  bool mask_boundaries = false;  // the first token of a document is no target of the last of the one before
};

/// A target of this value counts for nothing.
inline constexpr int32_t kNoTarget = -1;

class Dataset {
 public:
  /// Tokenizes the documents of a source: BOS in front where the vocabulary adds it, EOS after. Memory: 4 bytes a token
  /// (as a growing vector, at times three times that), 8 a document, 16 a padded window.
  /// Errors: those of the source and of the tokenizer; invalid_argument (the options); format (no text); limit (fewer
  /// windows than one, or two with an evaluation share); cancelled. Bytes that are not UTF-8 are no error.
  static Result<Dataset> create(TextSource next, const text::Tokenizer& tokenizer, const DatasetOptions& options,
                                const CancelToken* cancel = nullptr);

  /// The same of files; separator as in TextReader.
  static Result<Dataset> read(std::vector<std::string> paths, std::string separator, const text::Tokenizer& tokenizer,
                              const DatasetOptions& options, const CancelToken* cancel = nullptr);

  int64_t n_ctx() const { return options_.n_ctx; }
  size_t n_tokens() const { return tokens_.size(); }
  size_t n_documents() const { return document_begins_.size(); }
  size_t n_windows() const { return n_windows_; }
  size_t n_eval_windows() const { return n_eval_; }
  size_t n_train_windows() const { return n_windows_ - n_eval_; }  // at least 1

  /// The window that training visits after n_seen others: every training window once in each epoch of
  /// n_train_windows().
  size_t train_window(uint64_t n_seen) const;
  /// Evaluation window i < n_eval_windows(), in the order of the text.
  size_t eval_window(size_t i) const;

  /// Window i < n_windows(): its tokens and for each the one that follows it, or kNoTarget. tokens, targets [n_ctx].
  /// No token of the text is a target in two windows.
  void fill(size_t i, std::span<int32_t> tokens, std::span<int32_t> targets) const;

  /// A hash of all that decides what fill() and train_window() give: it tells a run that resumes on another text.
  uint64_t fingerprint() const;

 private:
  struct Window {
    size_t begin;
    size_t n_inputs;  // a target each
  };

  explicit Dataset(const DatasetOptions& options) : options_(options) {}
  Result<> add(const TextPiece& piece, const text::Tokenizer& tokenizer);
  Result<> cut_windows();
  Result<> choose_eval();
  Window window(size_t i) const;

  DatasetOptions options_;
  std::vector<int32_t> tokens_;
  std::vector<size_t> document_begins_;
  std::vector<Window> padded_windows_;  // WindowLayout::padded
  size_t n_windows_ = 0;
  size_t n_eval_ = 0;
  size_t eval_step_ = 0;    // EvalChoice::scattered: one of so many windows in a row,
  size_t eval_offset_ = 0;  // the one of this number
  int32_t padding_ = 0;
};

}  // namespace tessera::train
