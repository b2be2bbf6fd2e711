// A library of matrix products, opened by name at run time. The build of tessera does not depend on it. backend.cpp
// calls it from all threads of a run at once; the library itself is set to use one thread per call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/result.h"

namespace tessera::blas {

/// A product out = x w^T in floats, with weights w [k, n_rows], x [k, n_tokens] and out [n_rows, n_tokens]. x and w are
/// contiguous. out_stride: number of values between the results of consecutive tokens. Extents and strides are below
/// 2^31.
struct Product {
  int64_t k, n_rows, n_tokens;
  const float* x;
  const float* w;
  float* out;
  int64_t out_stride;
};

class Library {
 public:
  /// Opens a library. file: its name or path, or "" for the first one found of OpenBLAS, MKL, BLIS, oneDNN, and the
  /// system's libcblas or libblas. Errors: not_found, with a list of the names tried.
  static Result<std::shared_ptr<const Library>> open(const std::string& file);

  /// The name under which it was opened ("libopenblas.so.0").
  const std::string& file() const { return file_; }
  /// The library's own description; "" if it has none.
  const std::string& version() const { return version_; }

  /// Each thread calls this once before its products.
  void enter_thread() const;
  /// Computes a product. Returns false if the library fails (oneDNN, out of memory).
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
  SetThreads set_omp_threads_ = nullptr;  // applies to the calling thread
};

}  // namespace tessera::blas
