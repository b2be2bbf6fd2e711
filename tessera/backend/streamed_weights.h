// Weights that stay in a model's file: matrices of experts that a device reads when a product needs them, into a cache
// of a fixed size. Each weight has a number of slots, and a slot holds one of its matrices in the form that the device
// multiplies. Results have the same bits for any number of slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tessera/backend/buffer.h"
#include "tessera/base/direct_file.h"

namespace tessera {

/// A weight [k, n_rows, n] whose n matrices stay in a file.
struct StreamedWeight {
  const Tensor* tensor;
  int64_t n_slots;  // matrices that the cache holds at a time, 1 to n
};

/// Reads bytes of streamed weights. Called by several threads at a time.
class StreamSource {
 public:
  /// Staging memory begins at a multiple of kAlignment and has kSlack bytes beside those that are read.
  static constexpr size_t kAlignment = DirectFile::kAlignment, kSlack = DirectFile::kSlack;

  virtual ~StreamSource() = default;

  /// Returns bytes [offset, offset + n) of weight `index`, in file layout. They may lie in `staging`. Errors: io.
  virtual Result<std::span<const std::byte>> read(size_t index, size_t offset, size_t n,
                                                  std::span<std::byte> staging) = 0;
};

/// How often products found their experts in the cache, since it was created.
struct StreamCounts {
  uint64_t n_hits = 0;        // matrices that were in memory when a product announced them
  uint64_t n_misses = 0;      // matrices that were not, or not completely
  uint64_t n_forecast = 0;    // matrices of forecasts, whose next announcement has come
  uint64_t n_right = 0;       // of these, the announced ones
  uint64_t n_read_bytes = 0;  // from the file
  uint64_t n_wait_us = 0;     // time that threads waited for reads, summed over threads

  /// The share of n_hits in all uses; 1 without any.
  double hit_share() const {
    const uint64_t n = n_hits + n_misses;
    return n == 0 ? 1.0 : static_cast<double>(n_hits) / static_cast<double>(n);
  }
  /// The counts since `earlier`.
  StreamCounts since(const StreamCounts& earlier) const {
    return {n_hits - earlier.n_hits,   n_misses - earlier.n_misses,         n_forecast - earlier.n_forecast,
            n_right - earlier.n_right, n_read_bytes - earlier.n_read_bytes, n_wait_us - earlier.n_wait_us};
  }
  StreamCounts plus(const StreamCounts& more) const {
    return {n_hits + more.n_hits,   n_misses + more.n_misses,         n_forecast + more.n_forecast,
            n_right + more.n_right, n_read_bytes + more.n_read_bytes, n_wait_us + more.n_wait_us};
  }
};

/// The cache of a set of streamed weights. The offset of a tensor in it is the position of the weight in the set.
class StreamedBuffer : public Buffer {
 public:
  using Buffer::Buffer;
  virtual StreamCounts counts() const = 0;
};

/// The type of memory of streamed weights. Only products of experts read it.
class StreamedBufferType : public BufferType {
 public:
  /// Returns the bytes of one slot. Errors: unsupported (the device cannot stream such a weight).
  virtual Result<size_t> slot_bytes(DType dtype, const Shape& shape) const = 0;
  /// Returns the bytes that create() takes for these weights, memory for reads included.
  virtual Result<size_t> cache_bytes(std::span<const StreamedWeight> weights) const = 0;
  /// Creates a cache without contents. The tensors and the source must outlive it. Errors: out_of_memory; those of
  /// slot_bytes().
  virtual Result<std::unique_ptr<StreamedBuffer>> create(std::span<const StreamedWeight> weights,
                                                         std::unique_ptr<StreamSource> source) const = 0;
};

}  // namespace tessera
