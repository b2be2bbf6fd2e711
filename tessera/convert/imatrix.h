// An importance matrix: for each weight, the sum over a text's tokens of the squared input of each column. `tessera
// imatrix` collects it, and `tessera quantize` uses it. File formats: GGUF ("general.type" = "imatrix") and the older
// .dat.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::convert {

/// The sums of one weight, with its matrices (experts) one after another. counts has one element per matrix, or a
/// single one for all of them. The older format stores only one, and so do matrices that process the same tokens.
/// n_columns() then covers all matrices.
struct ImatrixEntry {
  std::vector<double> sums;    // [n_columns * n_matrices], sums of squared activations
  std::vector<double> counts;  // [n_matrices], tokens that each matrix has processed

  size_t n_matrices() const { return counts.size(); }
  size_t n_columns() const { return counts.empty() ? 0 : sums.size() / counts.size(); }
};

struct Imatrix {
  std::map<std::string, ImatrixEntry, std::less<>> entries;  // by tensor name
  std::vector<std::string> datasets;
  uint32_t n_chunks = 0;
  uint32_t chunk_size = 512;  // tokens

  /// Reads either format, detected by the magic. Errors start with the path: not_found, io, format (damaged, not an
  /// imatrix, a value that is not finite or negative), limit.
  static Result<Imatrix> load(const std::string& path);
  /// Parses the bytes of a file. Errors start with the name.
  static Result<Imatrix> parse(std::span<const std::byte> bytes, const std::string& name);

  /// Writes the GGUF format. The file appears only when complete. Errors: io; invalid_argument (an entry with
  /// inconsistent sizes, a name too long for GGUF); limit (a sum that is not a finite f32).
  Result<> save(const std::string& path) const;
  /// Writes the older format, which has one count for all matrices of a weight. Weights without tokens are left out.
  /// Errors: as save(); also invalid_argument if nothing is left.
  Result<> save_legacy(const std::string& path) const;

  /// Adds the sums, counts and datasets of another matrix. A single count of the other applies to each of its matrices.
  /// n_chunks becomes the largest count in chunks. Error: mismatch (the sizes of a weight differ); then nothing is
  /// added.
  Result<> add(const Imatrix& other);
};

/// Mean squared activations [n_columns] of matrix i of an entry. 1 for every column of a matrix without tokens.
std::vector<float> importance_of(const ImatrixEntry& entry, size_t i);
/// The same for matrix i of a weight with n_matrices, even if the entry has a single count for all. n_matrices must
/// divide the number of sums.
std::vector<float> importance_of(const ImatrixEntry& entry, size_t i, size_t n_matrices);

}  // namespace tessera::convert
