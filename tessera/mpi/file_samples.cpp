#include "tessera/mpi/file_samples.h"

#include <algorithm>
#include <vector>

#include "tessera/base/hash.h"
#include "tessera/base/index.h"

namespace tessera::mpi {

Result<uint64_t> hash_of_samples(uint64_t n_bytes,
                                 const std::function<Result<>(uint64_t, std::span<std::byte>)>& read) {
  constexpr uint64_t kHead = uint64_t{1} << 20, kSample = 64, kSamples = 256;
  Hash64 hash;
  hash.add(n_bytes);
  std::vector<std::byte> bytes(std::min(n_bytes, kHead));
  TESSERA_TRY(read(0, bytes));
  hash.add(bytes);
  if (n_bytes < kHead + kSample * kSamples) return hash.value();
  bytes.resize(kSample);
  const uint64_t last = n_bytes - kSample, distance = (last - kHead) / (kSamples - 1);
  for (uint64_t i = 0; i < kSamples; ++i) {
    TESSERA_TRY(read(i + 1 == kSamples ? last : kHead + i * distance, bytes));
    hash.add(bytes);
  }
  return hash.value();
}

}  // namespace tessera::mpi
