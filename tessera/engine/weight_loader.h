// Fills the weights' buffers from the model's files, in pieces that several threads pack in parallel. Pages of the file
// are dropped as soon as they are copied, so the file and its packed form are never both resident.
#pragma once

#include <span>
#include <vector>

#include "tessera/engine/engine.h"

namespace tessera {

class WeightLoader {
 public:
  struct Options {
    LoadMode mode = LoadMode::mmap;
    bool check = false;
    ThreadPoolOptions threads{};
  };

  WeightLoader(const ModelFiles& files, Options options) : files_(files), options_(options) {}

  /// Copies the weights `copied` into their buffers. With threads of low priority, all of it runs on these, also the
  /// progress, and the calling thread only waits. With check, also reads the weights `only_checked`, which are used in
  /// the file. Errors: io; cancelled; format (a value that is not finite; the message names the tensor and the block).
  Result<> load(std::span<Weight* const> copied, std::span<const Weight* const> only_checked,
                const LoadProgress& progress) const;

 private:
  struct Piece {
    const Weight* weight;
    size_t offset;  // in the file's tensor
    size_t bytes;
    const Tensor* to;  // null: only checked
    size_t to_offset;
  };
  Result<> load_pieces(std::span<const Piece> pieces, const LoadProgress& progress) const;
  std::vector<Piece> cut(std::span<const Weight* const> weights, bool copy) const;
  Result<> copy_piece(const Piece& piece, std::span<const std::byte> bytes) const;
  Result<> load_piece(const Piece& piece, std::vector<std::byte>& staging) const;

  const ModelFiles& files_;
  Options options_;
};

}  // namespace tessera
