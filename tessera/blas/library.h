// A library of matrix products that this machine may have, opened by name at run time: nothing depends on it when
// tessera is built. Called by backend.cpp from all threads of a run at once: the library itself is kept to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/result.h"

namespace tessera::blas {

/// A product out = x w^T in floats: out [n_rows, n_tokens] of weights w [k, n_rows] and x [k, n_tokens], x and w
/// without gaps; out_stride values from one token's results to the next one's. Extents and strides are below 2^31.
struct Product {
  int64_t k, n_rows, n_tokens;
  const float* x;
  const float* w;
  float* out;
  int64_t out_stride;
};

class Library {
 public:
  /// file: the library's name or path, or "" for the first of those known: OpenBLAS, MKL, BLIS, oneDNN, and whatever is
  /// the system's libblas. Errors: not_found, saying what was looked for.
  static Result<std::shared_ptr<const Library>> open(const std::string& file);

  /// As it was opened ("libopenblas.so.0").
  const std::string& file() const { return file_; }
  /// What it says of itself; "" where it says nothing.
  const std::string& version() const { return version_; }

  /// Once by each thread before its products.
  void enter_thread() const;
  /// False where the library failed (oneDNN, without memory).
  bool multiply(const Product& product) const;

 private:
  explicit Library(std::string file) : file_(std::move(file)) {}
  Result<> bind(void* handle);

  using CblasSgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                              int lda, const float* b, int ldb, float beta, float* c, int ldc);
  using DnnlSgemm = int (*)(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                            int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
  using SetThreads = void (*)(int n);

  std::string file_;
  std::string version_;
  CblasSgemm cblas_ = nullptr;
  DnnlSgemm dnnl_ = nullptr;
  SetThreads set_omp_threads_ = nullptr;  // of the calling thread
};

}  // namespace tessera::blas
