// An importance matrix: per weight, the sum over a text's tokens of the squared input of each column. Collected by
// `tessera imatrix`, used by `tessera quantize`. Files: GGUF ("general.type" = "imatrix") and the older .dat.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::convert {

/// Of one weight: the matrices (experts) one after another. counts has one element per matrix, or a single one for all
/// of them: the older form stores no more, and so do matrices that see the same tokens. Then n_columns() is that of
/// all.
struct ImatrixEntry {
  std::vector<double> sums;    // [n_columns * n_matrices], of squared activations
  std::vector<double> counts;  // [n_matrices], tokens that each matrix has seen

  size_t n_matrices() const { return counts.size(); }
  size_t n_columns() const { return counts.empty() ? 0 : sums.size() / counts.size(); }
};

struct Imatrix {
  std::map<std::string, ImatrixEntry, std::less<>> entries;  // by tensor name
  std::vector<std::string> datasets;
  uint32_t n_chunks = 0;
  uint32_t chunk_size = 512;  // tokens

  /// Reads either form, told apart by the magic. Errors start with the path: not_found, io, format (damaged, not an
  /// imatrix, a value that is not finite or below zero), limit.
  static Result<Imatrix> load(const std::string& path);
  /// The same of a file's bytes; errors start with the name.
  static Result<Imatrix> parse(std::span<const std::byte> bytes, const std::string& name);

  /// The GGUF form; appears only when complete. Errors: io; invalid_argument (an entry whose sizes do not fit, a name
  /// too long for GGUF); limit (a sum that is no finite f32).
  Result<> save(const std::string& path) const;
  /// The older form, which has one count for all matrices of a weight; weights that no token reached are left out.
  /// Errors: as save(); invalid_argument also when nothing is left.
  Result<> save_legacy(const std::string& path) const;

  /// Adds another's sums and counts, and its datasets; a single count stands for every matrix of the other's. n_chunks
  /// becomes the largest count in chunks. Error: mismatch (a weight's sizes differ), and then nothing is added.
  Result<> add(const Imatrix& other);
};

/// Mean squared activations [n_columns] of matrix i of an entry; 1 for every column of a matrix that no token reached.
std::vector<float> importance_of(const ImatrixEntry& entry, size_t i);
/// The same of matrix i of a weight of n_matrices, also where the entry has a single count for all; n_matrices divides
/// the number of sums.
std::vector<float> importance_of(const ImatrixEntry& entry, size_t i, size_t n_matrices);

}  // namespace tessera::convert
