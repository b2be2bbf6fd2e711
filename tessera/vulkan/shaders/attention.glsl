// What attention.comp and attention_merge.comp share: a partial result of one query head over one split of its
// sequence, and how partial results become one, in the order of the splits and by the same operations in both shaders.

const uint kBlockTokens = 64, kMaxDim = 1024;
const uint kSplitBlocks = 8;  // of a split, as in ops/attention.cpp

/// Weights of the values summed so far and of those to come, and the state after both.
struct Merge {
  float keep, take, highest, sum;
};

bool is_empty(float highest, float sum) { return highest == -kInfinity && sum == 0.0; }

Merge merged(float highest, float sum, float part_highest, float part_sum) {
  Merge m;
  m.highest = max(highest, part_highest);
  m.keep = highest == -kInfinity ? 0.0 : exp(highest - m.highest);
  m.take = part_highest == -kInfinity ? 0.0 : exp(part_highest - m.highest);
  precise const float kept = sum * m.keep;
  m.sum = fma(part_sum, m.take, kept);
  return m;
}
float merged_value(Merge m, float value, float part_value) {
  precise const float kept = value * m.keep;
  return fma(part_value, m.take, kept);
}

/// What all values are multiplied by in the end; a sink, where there is one, takes a share of its own (Xiao et al.
/// 2024). Nothing seen: 0.
float final_factor(float highest, float sum, uint head) {
  float factor = 1.0;
  if (step.x[7].data != 0ul) {
    const float sink = Floats(step.x[7].data).at[head], top = max(highest, sink);
    factor = highest == -kInfinity ? 0.0 : exp(highest - top);
    precise const float kept = sum * factor;
    sum = kept + exp(sink - top);
  }
  return sum == 0.0 ? 0.0 : factor / sum;
}
