#include "tessera/text/grammar/byte_set.h"

#include "tessera/base/index.h"

namespace tessera::text::grammar {

void ByteClasses::divide(const ByteSet& set) {
  std::array<int, 256> n_inside{}, n_all{};
  for (size_t byte = 0; byte < 256; ++byte) {
    ++n_all[class_of_[byte]];
    n_inside[class_of_[byte]] += set.contains(static_cast<uint8_t>(byte)) ? 1 : 0;
  }
  std::array<int, 256> divided{};  // the new class of the bytes inside, 0 for none
  for (int i = 0, n = n_classes_; i < n; ++i)
    if (n_inside[to_size(i)] > 0 && n_inside[to_size(i)] < n_all[to_size(i)]) divided[to_size(i)] = n_classes_++;
  for (size_t byte = 0; byte < 256; ++byte) {
    const int other = divided[class_of_[byte]];
    if (other != 0 && set.contains(static_cast<uint8_t>(byte))) class_of_[byte] = static_cast<uint8_t>(other);
  }
}

}  // namespace tessera::text::grammar
