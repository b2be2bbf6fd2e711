// Products of many tokens with weights of any format (matmul.cuh). A block computes a tile of rows and tokens. Weights
// are decoded to f16 once per tile, in shared memory; matmul_halves has converted the activations.
//
// Shared memory is a ring of stages of 64 columns. A stage has two panels of 32 columns for each operand. A panel's row
// is 64 bytes, so two neighbouring rows fill all banks; the second panel is shifted by 64 bytes for the same reason.
#include "tessera/cuda/kernels/matmul.cuh"

namespace tessera::cuda {

constexpr uint32_t kStageColumns = 64, kStages = 4, kPanelRow = kBlock * 2;
constexpr uint32_t kPiecesPerRow = kStageColumns / kPiece;
constexpr uint32_t kStagesPerSegment = kSegment / kStageColumns;

/// The shape of a tile: kWarpRows * kWarpTokens warps, each with kRows / kWarpRows rows and kTokens / kWarpTokens
/// tokens.
template <uint32_t kTileRows, uint32_t kTileTokens, uint32_t kWarpRows, uint32_t kWarpTokens>
struct TileShape {
  static constexpr uint32_t kRows = kTileRows, kTokens = kTileTokens, kWarpsAcross = kWarpTokens;
  static constexpr uint32_t kThreads = kWarpRows * kWarpTokens * kWarp;
  static constexpr uint32_t kRowsOfWarp = kRows / kWarpRows, kTokensOfWarp = kTokens / kWarpTokens;
  static constexpr uint32_t kRowTiles = kRowsOfWarp / 16, kTokenTiles = kTokensOfWarp / 8;
  static constexpr uint32_t kWeightPanel = kRows * kPanelRow + 64, kTokenPanel = kTokens * kPanelRow + 64;
  static constexpr uint32_t kStageBytes = 2 * (kWeightPanel + kTokenPanel);
};
using LargeTile = TileShape<128, 128, 2, 4>;
using SmallTile = TileShape<64, 64, 2, 2>;

/// Brings the columns of stages to the ring. This thread has the same eight columns of every stage, of every kStep-th
/// row: its addresses grow by a constant from stage to stage.
template <class Tile, uint32_t kPanel, uint32_t kPieces>
struct StageCopies {
  static constexpr uint32_t kStep = Tile::kThreads / kPiecesPerRow;

  uint32_t column, offset;  // of the first stage; in a stage's panels
  uint64_t from[kPieces];   // of the next stage
  uint32_t is_valid;        // bit per row

  __device__ StageCopies() {
    column = lane() % kPiecesPerRow * kPiece;
    offset = column / kBlock * kPanel + lane() / kPiecesPerRow * kPanelRow + column % kBlock * 2;
    is_valid = 0;
  }
  __device__ static uint32_t row(uint32_t piece) { return lane() / kPiecesPerRow + piece * kStep; }
  __device__ void set_row(uint32_t piece, bool has_row, uint64_t address) {
    from[piece] = address + column * 2;
    is_valid |= (has_row ? 1u : 0u) << piece;
  }
  /// n_columns: those left from the stage's first on.
  __device__ void copy(SharedAddress panels, uint32_t n_columns) {
#pragma unroll
    for (uint32_t j = 0; j < kPieces; ++j) {
      const bool has_it = (is_valid >> j & 1) != 0 && column < n_columns;
      copy_async16(panels + offset + j * kStep * kPanelRow, at<void>(from[j]), has_it);
      from[j] += kStageColumns * 2;
    }
  }
};

/// The format of weights that are in the scratch memory as halves.
constexpr uint32_t kConverted = 0xfffe;

template <uint32_t kFormat, class Tile>
__device__ inline void matmul_panels(const Params& step) {
  constexpr uint32_t kWeightPieces = Tile::kRows * kPiecesPerRow / Tile::kThreads;
  constexpr uint32_t kTokenPieces = Tile::kTokens * kPiecesPerRow / Tile::kThreads;
  constexpr bool kCopies = kFormat == kFormat_f16 || kFormat == kConverted;  // weights need no decoding
  using Piece = typename Decoder<kFormat == kConverted ? kFormat_f16 : kFormat>::Piece;
  using WeightCopies = StageCopies<Tile, Tile::kWeightPanel, kWeightPieces>;

  __shared__ uint32_t token_rows[Tile::kTokens];
  unsigned char* ring = dynamic_shared();
  const SharedAddress ring_address = shared_address(ring);
  const uint32_t k = step.x[0].ne[0], n_stages = (k + kStageColumns - 1) / kStageColumns, n_segments = n_segments_of(k);
  const uint32_t warp = lane() / kWarp, g = lane() % kWarp / 4, t = lane() % 4;
  const uint32_t warp_row = warp / Tile::kWarpsAcross * Tile::kRowsOfWarp;
  const uint32_t warp_token = warp % Tile::kWarpsAcross * Tile::kTokensOfWarp;
  Part p = part_of_group(step, group_of(step), Tile::kRows);
  wait_for_previous();
  allow_next();
  read_routes(step, p);
  const float* scales = scales_of_x(step);

  for (uint32_t first = p.begin + p.share * Tile::kTokens; first < p.end; first += step.u[1] * Tile::kTokens) {
    for (uint32_t i = lane(); i < Tile::kTokens; i += n_lanes())
      token_rows[i] = first + i < p.end ? source_of(step, first + i) * step.u[11] + p.matrix % step.u[11] : ~0u;
    sync_group();

    StageCopies<Tile, Tile::kTokenPanel, kTokenPieces> tokens;
#pragma unroll
    for (uint32_t j = 0; j < kTokenPieces; ++j) {
      const uint32_t row = token_rows[tokens.row(j)];
      tokens.set_row(j, row != ~0u, step.scratch + uint64_t{row != ~0u ? row : 0} * step.u[10]);
    }
    WeightCopies weights;
#pragma unroll
    for (uint32_t j = 0; j < kWeightPieces; ++j) {
      const bool has_row = weights.row(j) < p.n_rows;
      const uint32_t row = has_row ? weights.row(j) : 0;
      weights.set_row(j, has_row,
                      kFormat == kConverted ? halves_of_weights(step) + uint64_t{p.row + row} * step.u[10]
                                            : p.w + uint64_t{row} * step.x[0].nb[1]);
    }
    // slot: of the stage in the ring
    const auto copy_stage = [&](uint32_t stage, uint32_t slot) {
      if (stage < n_stages) {
        const SharedAddress panels = ring_address + slot * Tile::kStageBytes;
        tokens.copy(panels + 2 * Tile::kWeightPanel, kStageColumns);  // rows of halves end with a whole stage
        if constexpr (kCopies) weights.copy(panels, k - stage * kStageColumns);
      }
      commit_copies();
    };
    Piece pieces[kCopies ? 1 : kWeightPieces];
    const auto load_weights = [&](uint32_t stage) {
      if constexpr (!kCopies) {
        const uint32_t column = stage * kStageColumns + weights.column;
        if (column >= k) return;
#pragma unroll
        for (uint32_t j = 0; j < kWeightPieces; ++j)
          if ((weights.is_valid >> j & 1) != 0) pieces[j].load(weights.from[j] - weights.column * 2, column);
      }
    };
    const auto store_weights = [&](uint32_t stage, uint32_t slot) {
      if constexpr (!kCopies) {
        if (stage >= n_stages) return;
        const bool has_column = stage * kStageColumns + weights.column < k;
        unsigned char* panels = ring + slot * Tile::kStageBytes + weights.offset;
#pragma unroll
        for (uint32_t j = 0; j < kWeightPieces; ++j) {
          uint32_t v[4] = {};
          if (has_column && (weights.is_valid >> j & 1) != 0) pieces[j].get(step, v);
          *reinterpret_cast<Word4*>(panels + j * WeightCopies::kStep * kPanelRow) = {v[0], v[1], v[2], v[3]};
        }
      }
    };

    float sums[Tile::kRowTiles][Tile::kTokenTiles][4] = {}, totals[Tile::kRowTiles][Tile::kTokenTiles][4] = {};
    for (uint32_t stage = 0; stage + 1 < kStages; ++stage) copy_stage(stage, stage);
    for (uint32_t stage = 0; stage < 2; ++stage) {
      load_weights(stage);
      store_weights(stage, stage);
    }
    const unsigned char* of_weights = ring + (warp_row + g) * kPanelRow + t * 16;
    const unsigned char* of_tokens = ring + 2 * Tile::kWeightPanel + (warp_token + g) * kPanelRow + t * 16;
    static_assert(kStages == kStagesPerSegment);  // so the slots are constants below
    for (uint32_t segment = 0; segment < n_segments; ++segment) {
      float factors[Tile::kTokenTiles][2] = {};
#pragma unroll
      for (uint32_t slot = 0; slot < kStages; ++slot) {
        const uint32_t stage = segment * kStages + slot;
        if (stage >= n_stages) break;
        wait_copies<kStages - 2>();
        sync_group();  // the stage has arrived, and no thread reads the one before it any more
        copy_stage(stage + kStages - 1, (slot + kStages - 1) % kStages);
        load_weights(stage + 2);
        if (slot + 1 == kStages || stage + 1 == n_stages) {
#pragma unroll
          for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
            for (uint32_t i = 0; i < 2; ++i) {
              const uint32_t row = token_rows[warp_token + nt * 8 + 2 * t + i];
              if (row != ~0u) factors[nt][i] = scales[row * n_segments + segment];
            }
        }
#pragma unroll
        for (uint32_t panel = 0; panel < 2; ++panel) {
          if (stage * kStageColumns + panel * kBlock >= k) break;
          const unsigned char* w = of_weights + slot * Tile::kStageBytes + panel * Tile::kWeightPanel;
          const unsigned char* x = of_tokens + slot * Tile::kStageBytes + panel * Tile::kTokenPanel;
          Word4 b[Tile::kTokenTiles];
#pragma unroll
          for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
            b[nt] = *reinterpret_cast<const Word4*>(x + nt * 8 * kPanelRow);
#pragma unroll
          for (uint32_t mt = 0; mt < Tile::kRowTiles; ++mt) {
            const Word4 low = *reinterpret_cast<const Word4*>(w + mt * 16 * kPanelRow);
            const Word4 high = *reinterpret_cast<const Word4*>(w + (mt * 16 + 8) * kPanelRow);
            const uint32_t first_step[4] = {low.x, high.x, low.y, high.y};
            const uint32_t second_step[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
            for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
              multiply_f16(sums[mt][nt], first_step, b[nt].x, b[nt].y);
#pragma unroll
            for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
              multiply_f16(sums[mt][nt], second_step, b[nt].z, b[nt].w);
          }
        }
        store_weights(stage + 2, (slot + 2) % kStages);
      }
#pragma unroll
      for (uint32_t mt = 0; mt < Tile::kRowTiles; ++mt)
#pragma unroll
        for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) {
            totals[mt][nt][i] = fmaf(sums[mt][nt][i], factors[nt][i % 2], totals[mt][nt][i]);
            sums[mt][nt][i] = 0;
          }
    }
    wait_copies<0>();
#pragma unroll
    for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t token = first + warp_token + nt * 8 + 2 * t + i;
        if (token >= p.end) continue;
        float* y = y_row(step, p, token);
#pragma unroll
        for (uint32_t mt = 0; mt < Tile::kRowTiles; ++mt)
          for (uint32_t half = 0; half < 2; ++half) {
            const uint32_t row = warp_row + mt * 16 + half * 8 + g;
            if (row < p.n_rows) y[row] = totals[mt][nt][2 * half + i];
          }
      }
    sync_group();
  }
}

#define TESSERA_MATMUL_PANELS(name, format)                         \
  TESSERA_KERNEL(matmul_panels_##name, LargeTile::kThreads) {       \
    if (group_of(step) >= step.n_groups) return;                    \
    matmul_panels<format, LargeTile>(step);                         \
  }                                                                 \
  TESSERA_KERNEL(matmul_small_panels_##name, SmallTile::kThreads) { \
    if (group_of(step) >= step.n_groups) return;                    \
    matmul_panels<format, SmallTile>(step);                         \
  }
#define TESSERA_DECODER(name, alignment, plain, columns, room) TESSERA_MATMUL_PANELS(name, kFormat_##name)
#include "tessera/cuda/decoders.def"
TESSERA_MATMUL_PANELS(any, kAnyFormat)
TESSERA_MATMUL_PANELS(converted, kConverted)

}  // namespace tessera::cuda
