// Shared by attention.comp and attention_merge.comp: merging the partial results of a query head over the splits of its
// sequence, in the order of the splits and with the same operations in both shaders.

const uint kBlockTokens = 64, kMaxDim = 1024;
const uint kSplitBlocks = 8;  // blocks per split, as in ops/attention.cpp

/// Factors of the values so far (keep) and of the new part (take), and the state after merging both.
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

/// The factor applied to all values at the end. A sink, if present, adds to the sum (Xiao et al. 2024). 0 if the query
/// attends to nothing.
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
