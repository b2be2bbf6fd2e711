// Products of many tokens on the matrix units of compute capability 9.0, which read both operands from shared memory
// (matmul.cuh). A block of two warpgroups computes a tile of 128 tokens and kRows rows. Both operands are halves, in
// the order of steps: the 16 columns of a step are adjacent, so that the sums are those of the other kernels. The
// kernels that convert write them so; f16 weights of the file are put in this order while they are copied.
//
// Shared memory is a ring of stages of 64 columns, each with the rows of both operands (device.cuh has the layout).
#include "tessera/cuda/kernels/matmul.cuh"

namespace tessera::cuda {

constexpr uint32_t kWideThreads = 256;

#ifdef TESSERA_HAS_WIDE

constexpr uint32_t kStageColumns = 64, kStagesPerSegment = kSegment / kStageColumns, kStageRow = kStageColumns * 2;
constexpr uint32_t kWideTokens = 128, kGroupTokens = 64, kStepColumns = 16;
constexpr uint32_t kPieces = kStageColumns / kPiece, kRowsAtOnce = kWideThreads / kPieces;

/// The place of piece p of a row in a stage.
__device__ inline uint32_t place_of(uint32_t row, uint32_t p) { return row * kStageRow + (p ^ row % 8) * 16; }

template <uint32_t kRows, uint32_t kStages, bool kIsFile>
__device__ inline void matmul_wide(const Params& step) {
  constexpr uint32_t kTokenBytes = kWideTokens * kStageRow, kStageBytes = kTokenBytes + kRows * kStageRow;
  constexpr uint32_t kAhead = kStages - 2;  // stages requested before they are multiplied
  constexpr uint32_t kTokenCopies = kWideTokens / kRowsAtOnce, kWeightCopies = kRows / kRowsAtOnce;

  const SharedAddress base = shared_address(dynamic_shared()), ring = base + (1024 - base % 1024) % 1024;
  const uint32_t k = step.x[0].ne[0], n_stages = (k + kStageColumns - 1) / kStageColumns, n_segments = n_segments_of(k);
  const Part p = part_of_group(step, group_of(step), kRows);
  const uint32_t first = p.share * kWideTokens, n_tokens = min_of(kWideTokens, p.end - first);

  // This thread copies piece `piece` of every kRowsAtOnce-th row.
  const uint32_t piece = lane() % kPieces, row = lane() / kPieces, row_bytes = step.u[10];
  const uint64_t tokens = step.scratch + uint64_t{first + row} * row_bytes + piece * 16;
  const uint64_t weights = kIsFile ? p.w + uint64_t{row} * step.x[0].nb[1] + piece * 16
                                   : halves_of_weights(step) + uint64_t{p.row + row} * row_bytes + piece * 16;
  const uint64_t weight_step = uint64_t{kRowsAtOnce} * (kIsFile ? step.x[0].nb[1] : row_bytes);
  const auto copy_stage = [&](uint32_t stage) {
    if (stage < n_stages) {
      const SharedAddress slot = ring + stage % kStages * kStageBytes, to = slot + place_of(row, piece);
      const uint64_t offset = uint64_t{stage} * kStageRow;
#pragma unroll
      for (uint32_t j = 0; j < kTokenCopies; ++j) {
        const bool is_there = row + j * kRowsAtOnce < n_tokens;
        const uint64_t from = tokens + (is_there ? uint64_t{j * kRowsAtOnce} * row_bytes : 0) + offset;
        copy_async16(to + j * kRowsAtOnce * kStageRow, at<const void>(is_there ? from : step.scratch), is_there);
      }
#pragma unroll
      for (uint32_t j = 0; j < kWeightCopies; ++j) {
        const bool has_row = row + j * kRowsAtOnce < p.n_rows;
        const bool is_there = has_row && (!kIsFile || stage * kStageColumns + piece * kPiece < k);
        const void* from = at<const void>(is_there ? weights + j * weight_step + offset : step.scratch);
        const SharedAddress rows = slot + kTokenBytes + j * kRowsAtOnce * kStageRow;
        if constexpr (kIsFile) {
          // Columns 0 to 3 of the piece are of the block's first step, 4 to 7 of its second.
          const uint32_t block = piece / 4 * 4, half = piece % 2 * 8;
          const void* second = static_cast<const unsigned char*>(from) + (is_there ? 8 : 0);
          copy_async8(rows + place_of(row, block + piece % 4 / 2) + half, from, is_there);
          copy_async8(rows + place_of(row, block + 2 + piece % 4 / 2) + half, second, is_there);
        } else {
          copy_async16(rows + place_of(row, piece), from, is_there);
        }
      }
    }
    commit_copies();
  };

  wait_for_previous();
  allow_next();
  for (uint32_t stage = 0; stage < kAhead; ++stage) copy_stage(stage);

  const uint32_t warpgroup = lane() / (4 * kWarp), in_warp = lane() % kWarp, t = in_warp % 4;
  const uint32_t token = warpgroup * kGroupTokens + lane() / kWarp % 4 * 16 + in_warp / 4;  // and token + 8
  const float* scales = scales_of_x(step) + uint64_t{first} * n_segments;
  float sums[kRows / 2] = {}, totals[kRows / 2] = {};
  for (uint32_t segment = 0; segment < n_segments; ++segment) {
    float factors[2] = {};
    for (uint32_t i = 0; i < 2; ++i)
      if (token + 8 * i < n_tokens) factors[i] = scales[(token + 8 * i) * n_segments + segment];
#pragma unroll
    for (uint32_t part = 0; part < kStagesPerSegment; ++part) {
      const uint32_t stage = segment * kStagesPerSegment + part;
      if (stage >= n_stages) break;
      wait_copies<kAhead - 1>();
      publish_to_matrix_units();
      sync_group();  // the stage has arrived, and the products of the stage before the last one are complete
      copy_stage(stage + kAhead);
      const SharedAddress slot = ring + stage % kStages * kStageBytes,
                          group = slot + warpgroup * kGroupTokens * kStageRow;
      begin_wide();
#pragma unroll
      for (uint32_t s = 0; s < kStageColumns / kStepColumns; ++s)
        multiply_wide(sums, group, slot + kTokenBytes, s, part + s > 0);
      commit_wide();
      wait_wide();
    }
    finish_wide(sums);
#pragma unroll
    for (uint32_t i = 0; i < kRows / 2; ++i) totals[i] = fmaf(sums[i], factors[i % 4 / 2], totals[i]);
  }
  wait_copies<0>();

  for (uint32_t i = 0; i < 2; ++i) {
    if (token + 8 * i >= n_tokens) continue;
    float* y = y_row(step, p, first + token + 8 * i);
#pragma unroll
    for (uint32_t j = 0; j < kRows / 8; ++j)
      for (uint32_t n = 0; n < 2; ++n)
        if (8 * j + 2 * t + n < p.n_rows) y[8 * j + 2 * t + n] = totals[4 * j + 2 * i + n];
  }
}

#else

template <uint32_t kRows, uint32_t kStages, bool kIsFile>
__device__ inline void matmul_wide(const Params&) {}

#endif

// The second bound is the number of blocks that have to fit a multiprocessor at the same time.
#define TESSERA_BOUNDS(n_threads, n_blocks) n_threads, n_blocks
#define TESSERA_MATMUL_WIDE(name, n_rows, n_stages, n_blocks, is_file)          \
  TESSERA_BATCH_KERNEL(matmul_##name, TESSERA_BOUNDS(kWideThreads, n_blocks)) { \
    matmul_wide<n_rows, n_stages, is_file>(step);                               \
  }
TESSERA_MATMUL_WIDE(wide_f16, 128, 6, 1, true)
TESSERA_MATMUL_WIDE(wide_converted, 128, 6, 1, false)
TESSERA_MATMUL_WIDE(wide_few_f16, 64, 4, 2, true)
TESSERA_MATMUL_WIDE(wide_few_converted, 64, 4, 2, false)

}  // namespace tessera::cuda
