// Reads and writes the file of a base model's log-probabilities, with which other models are compared. The format is
// compatible with llama.cpp's --kl-divergence-base in both directions. It has one row of 16-bit codes
// (log_prob_codes.h) per scored position.
//
// Little-endian: "_logits_", u32 n_ctx, i32 n_vocab, i32 n_chunks, i32 tokens[n_chunks][n_ctx], rows [n_chunks][scored
// positions]. Files of tessera end with "tessera\0", a u64 hash of the vocabulary and f32 -log p of each scored token,
// because the codes of a row are cut at 16 nats. Other readers ignore this trailer.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/eval/chunks.h"

namespace tessera::eval {

/// Returns a hash of the tokens' texts, in order.
uint64_t vocab_hash(const text::Vocab& vocab);

class BaseFileWriter {
 public:
  /// Begins a file for these chunks, whose rows are added in order. The file appears at `path` in finish(). Errors: io;
  /// invalid_argument (the chunks overlap).
  static Result<BaseFileWriter> create(const std::string& path, const Chunks& chunks, const text::Vocab& vocab);

  /// The size of the complete file in bytes.
  uint64_t bytes() const { return bytes_; }

  /// Encodes and writes rows of scored positions, in order from the first. Errors: format (a logit is not finite), io.
  Result<> add(const Chunks& chunks, std::span<const ChunkRow> rows, ThreadPool& threads);
  /// Errors: io.
  Result<> finish();

 private:
  explicit BaseFileWriter(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
  uint64_t bytes_ = 0, vocab_hash_ = 0;
  std::vector<float> nll_;
  std::vector<uint16_t> words_;  // reused
};

class BaseFile {
 public:
  /// Reads everything but the rows. Errors: io; format (not such a file, or its parts do not match its size).
  static Result<BaseFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  int64_t n_ctx() const { return n_ctx_; }
  int64_t n_vocab() const { return n_vocab_; }
  int64_t n_chunks() const { return static_cast<int64_t>(tokens_.size()) / n_ctx_; }

  /// Returns the chunks of the text, at most n_max (-1: all), for the model to compare. Errors: mismatch (another
  /// vocabulary).
  Result<Chunks> chunks(const text::Vocab& vocab, int64_t n_max) const;

  /// Reads rows of consecutive scored positions, starting at a position of a chunk, with log_prob_row_words(n_vocab)
  /// words each. Errors: io.
  Result<> read_rows(int64_t chunk, int64_t position, std::span<uint16_t> words) const;
  /// Returns -log p of the token after a scored position, if the file has a trailer with the exact value.
  std::optional<float> exact_nll(int64_t chunk, int64_t position) const;

 private:
  explicit BaseFile(File file) : file_(std::move(file)) {}
  Result<> read_header();
  Result<> read_trailer(uint64_t offset);
  int64_t row_number(int64_t chunk, int64_t position) const;

  File file_;
  int64_t n_ctx_ = 0, n_vocab_ = 0;
  std::vector<int32_t> tokens_;
  uint64_t first_row_ = 0;  // byte offset
  std::optional<uint64_t> vocab_hash_;
  std::vector<float> nll_;  // per row; empty for files of other programs
};

}  // namespace tessera::eval
