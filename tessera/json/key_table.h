// Finds equal keys of an object in linear time. Strangers choose the keys, so the hash has a secret: without it, keys
// of equal hashes can be computed in advance, and n of them cost n^2 steps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera {

/// Polynomial in a secret point over the field of 2^61 - 1 (Carter and Wegman 1979). Two texts of n bytes are equal in
/// it with a probability of at most n / 2^61.
uint64_t secret_hash(std::string_view text);

/// A set of keys, each named by its index. The keys themselves are the caller's.
class KeyTable {
 public:
  /// For at most this many keys. Memory: 4 to 8 bytes times 2 each.
  explicit KeyTable(size_t n_keys);

  /// Adds the key of an index. Returns false, and adds nothing, if key_at(i) equals it for an index i of the table.
  template <class KeyAt>
  bool insert(std::string_view key, uint32_t index, const KeyAt& key_at) {
    size_t place = static_cast<size_t>(secret_hash(key)) & mask_;
    for (; places_[place] != kFree; place = (place + 1) & mask_) {
      if (key_at(places_[place]) == key) return false;
    }
    places_[place] = index;
    return true;
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;

  size_t mask_;
  std::vector<uint32_t> places_;  // open addressing; at most half are used
};

}  // namespace tessera
