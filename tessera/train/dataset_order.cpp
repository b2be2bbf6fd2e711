#include "tessera/train/dataset_order.h"

#include "tessera/base/rng.h"

namespace tessera::train {
namespace {

/// The finalizer of MurmurHash3: every bit of the result depends on every bit of x.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

}  // namespace

Permutation::Permutation(uint64_t n, uint64_t key) : n_(n) {
  while ((uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
  Rng rng(key);
  for (uint64_t& round : keys_) {
    const uint64_t high = rng.next_u32();
    round = high << 32 | rng.next_u32();
  }
}

uint64_t Permutation::operator()(uint64_t i) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mix(right ^ key) & mask);
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= n_);
  return i;
}

}  // namespace tessera::train
