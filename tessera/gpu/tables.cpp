#include "tessera/gpu/tables.h"

#include <cstring>

#include "tessera/quant/codebooks.h"

namespace tessera::gpu {

namespace {

template <class T, size_t kCount>
void append(const T (&table)[kCount], std::vector<uint32_t>& words) {
  static_assert(sizeof(table) % sizeof(uint32_t) == 0);
  const size_t at = words.size();
  words.resize(at + kCount * sizeof(T) / sizeof(uint32_t));
  std::memcpy(words.data() + at, table, sizeof(table));
}

}  // namespace

std::vector<uint32_t> codebook_words() {
  namespace books = quant::codebooks;
  std::vector<uint32_t> words;
  append(books::kIq2xxs, words);
  append(books::kIq2xs, words);
  append(books::kIq2s, words);
  append(books::kIq3xxs, words);
  append(books::kIq3s, words);
  append(books::kIq1s, words);
  append(books::kIq4nl, words);
  append(books::kE2m1Doubled, words);
  return words;
}

}  // namespace tessera::gpu
