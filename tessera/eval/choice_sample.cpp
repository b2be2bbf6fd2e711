// Selects random tasks of a file, reproducibly: the C++ standard defines the outputs of std::mt19937.
#include <algorithm>
#include <random>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/eval/choice_tasks.h"

namespace tessera::eval {

namespace {

// Uniform in [0, n), 0 < n < 2^32, without bias: the high half of a product. It draws again for the 2^32 mod n low
// halves that would occur too often (Lemire 2019, "Fast Random Integer Generation in an Interval").
uint32_t draw_below(std::mt19937& random, uint32_t n) {
  const uint32_t n_excess = (0u - n) % n;
  for (;;) {
    const uint64_t product = uint64_t{static_cast<uint32_t>(random())} * n;
    if (static_cast<uint32_t>(product) >= n_excess) return static_cast<uint32_t>(product >> 32);
  }
}

// Uses f32 like the program whose scores are compared. The result is biased, and the share is 1 for the highest
// outputs.
size_t draw_scaled(std::mt19937& random, size_t n) {
  const float share = 0x1p-32f * static_cast<float>(static_cast<uint32_t>(random()));
  return std::min(static_cast<size_t>(share * static_cast<float>(n)), n - 1);
}

}  // namespace

std::vector<ChoiceTask> sample_choice_tasks(ChoiceForm form, std::vector<ChoiceTask> tasks, int64_t n_wanted) {
  const auto n = to_size(n_wanted);
  if (n_wanted <= 0 || n >= tasks.size()) return tasks;
  std::mt19937 random(1);
  std::vector<ChoiceTask> sample;
  std::vector<uint32_t> left(tasks.size());
  for (uint32_t i = 0; i < left.size(); ++i) left[i] = i;
  while (sample.size() < n) {
    if (form == ChoiceForm::hellaswag) {
      const uint32_t i = draw_below(random, static_cast<uint32_t>(left.size()));
      sample.push_back(std::move(tasks[left[i]]));
      left.erase(left.begin() + i);
    } else {
      const size_t i = draw_scaled(random, left.size());
      sample.push_back(std::move(tasks[left[i]]));
      left[i] = left.back();
      left.pop_back();
    }
  }
  return sample;
}

}  // namespace tessera::eval
