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

/// The shape of a tile: kWarpRows * kWarpTokens warps, each with kRows / kWarpRows rows and kTokens / kWarpTokens tokens.
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

/// What the columns of a stage are copied from and to: piece number `i` of this thread.
template <uint32_t kPanel>
struct PieceOfStage {
  uint32_t row, column, offset;  // offset: in the stage's panels

  __device__ explicit PieceOfStage(uint32_t i) {
    row = i / kPiecesPerRow;
    column = i % kPiecesPerRow * kPiece;
    offset = column / kBlock * kPanel + row * kPanelRow + column % kBlock * 2;
  }
};

template <uint32_t kFormat, class Tile>
__device__ inline void matmul_panels(const Params& step) {
  constexpr uint32_t kWeightPieces = Tile::kRows * kPiecesPerRow / Tile::kThreads;
  constexpr uint32_t kTokenPieces = Tile::kTokens * kPiecesPerRow / Tile::kThreads;
  constexpr bool kCopies = kFormat == kFormat_f16;  // weights need no decoding
  using Piece = typename Decoder<kFormat>::Piece;

  __shared__ uint32_t token_rows[Tile::kTokens];
  unsigned char* ring = dynamic_shared();
  const uint32_t k = step.x[0].ne[0], n_stages = (k + kStageColumns - 1) / kStageColumns, n_segments = n_segments_of(k);
  const uint32_t warp = lane() / kWarp, g = lane() % kWarp / 4, t = lane() % 4;
  const uint32_t warp_row = warp / Tile::kWarpsAcross * Tile::kRowsOfWarp;
  const uint32_t warp_token = warp % Tile::kWarpsAcross * Tile::kTokensOfWarp;
  Part p = part_of_group(step, group_index(), Tile::kRows);
  wait_for_previous();
  allow_next();
  read_routes(step, p);
  const float* scales = scales_of_x(step);

  for (uint32_t first = p.begin + p.share * Tile::kTokens; first < p.end; first += step.u[1] * Tile::kTokens) {
    for (uint32_t i = lane(); i < Tile::kTokens; i += n_lanes())
      token_rows[i] = first + i < p.end ? source_of(step, first + i) * step.u[11] + p.matrix % step.u[11] : ~0u;
    sync_group();

    const auto weights_of = [&](uint32_t stage) { return ring + stage % kStages * Tile::kStageBytes; };
    const auto tokens_of = [&](uint32_t stage) { return weights_of(stage) + 2 * Tile::kWeightPanel; };
    const auto copy_stage = [&](uint32_t stage) {
      if (stage < n_stages) {
#pragma unroll
        for (uint32_t j = 0; j < kTokenPieces; ++j) {
          const PieceOfStage<Tile::kTokenPanel> piece(lane() + j * Tile::kThreads);
          const uint32_t row = token_rows[piece.row];
          const bool is_valid = row != ~0u;
          const uint64_t from = step.scratch + uint64_t{is_valid ? row : 0} * step.u[10];
          copy_async16(tokens_of(stage) + piece.offset,
                       at<void>(from + (stage * kStageColumns + piece.column) * uint64_t{2}), is_valid);
        }
        if constexpr (kCopies) {
#pragma unroll
          for (uint32_t j = 0; j < kWeightPieces; ++j) {
            const PieceOfStage<Tile::kWeightPanel> piece(lane() + j * Tile::kThreads);
            const uint32_t column = stage * kStageColumns + piece.column;
            const bool is_valid = piece.row < p.n_rows && column < k;
            const uint64_t from = p.w + uint64_t{is_valid ? piece.row : 0} * step.x[0].nb[1];
            copy_async16(weights_of(stage) + piece.offset, at<void>(from + (is_valid ? column : 0) * uint64_t{2}),
                         is_valid);
          }
        }
      }
      commit_copies();
    };
    Piece pieces[kCopies ? 1 : kWeightPieces];
    const auto load_weights = [&](uint32_t stage) {
      if constexpr (!kCopies) {
        if (stage >= n_stages) return;
#pragma unroll
        for (uint32_t j = 0; j < kWeightPieces; ++j) {
          const PieceOfStage<Tile::kWeightPanel> piece(lane() + j * Tile::kThreads);
          const uint32_t column = stage * kStageColumns + piece.column;
          if (piece.row < p.n_rows && column < k)
            pieces[j].load(p.w + uint64_t{piece.row} * step.x[0].nb[1], column);
        }
      }
    };
    const auto store_weights = [&](uint32_t stage) {
      if constexpr (!kCopies) {
        if (stage >= n_stages) return;
#pragma unroll
        for (uint32_t j = 0; j < kWeightPieces; ++j) {
          const PieceOfStage<Tile::kWeightPanel> piece(lane() + j * Tile::kThreads);
          uint32_t v[4] = {};
          if (piece.row < p.n_rows && stage * kStageColumns + piece.column < k) pieces[j].get(step, v);
          *reinterpret_cast<Word4*>(weights_of(stage) + piece.offset) = {v[0], v[1], v[2], v[3]};
        }
      }
    };

    float sums[Tile::kRowTiles][Tile::kTokenTiles][4] = {}, totals[Tile::kRowTiles][Tile::kTokenTiles][4] = {};
    for (uint32_t stage = 0; stage + 1 < kStages; ++stage) copy_stage(stage);
    for (uint32_t stage = 0; stage < 2; ++stage) {
      load_weights(stage);
      store_weights(stage);
    }
    for (uint32_t stage = 0; stage < n_stages; ++stage) {
      wait_copies<kStages - 2>();
      sync_group();  // the stage has arrived, and no thread reads the one before it any more
      copy_stage(stage + kStages - 1);
      load_weights(stage + 2);
      const bool ends_segment = (stage + 1) % kStagesPerSegment == 0 || stage + 1 == n_stages;
      float factors[Tile::kTokenTiles][2] = {};
      if (ends_segment) {
#pragma unroll
        for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
          for (uint32_t i = 0; i < 2; ++i) {
            const uint32_t row = token_rows[warp_token + nt * 8 + 2 * t + i];
            if (row != ~0u) factors[nt][i] = scales[row * n_segments + stage / kStagesPerSegment];
          }
      }
#pragma unroll
      for (uint32_t panel = 0; panel < 2; ++panel) {
        if (stage * kStageColumns + panel * kBlock >= k) break;
        const unsigned char* w = weights_of(stage) + panel * Tile::kWeightPanel + t * 16;
        const unsigned char* x = tokens_of(stage) + panel * Tile::kTokenPanel + t * 16;
        Word4 b[Tile::kTokenTiles];
#pragma unroll
        for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt)
          b[nt] = *reinterpret_cast<const Word4*>(x + (warp_token + nt * 8 + g) * kPanelRow);
#pragma unroll
        for (uint32_t mt = 0; mt < Tile::kRowTiles; ++mt) {
          const Word4 low = *reinterpret_cast<const Word4*>(w + (warp_row + mt * 16 + g) * kPanelRow);
          const Word4 high = *reinterpret_cast<const Word4*>(w + (warp_row + mt * 16 + 8 + g) * kPanelRow);
          const uint32_t first_step[4] = {low.x, high.x, low.y, high.y}, second_step[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
          for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt) multiply_f16(sums[mt][nt], first_step, b[nt].x, b[nt].y);
#pragma unroll
          for (uint32_t nt = 0; nt < Tile::kTokenTiles; ++nt) multiply_f16(sums[mt][nt], second_step, b[nt].z, b[nt].w);
        }
      }
      if (ends_segment) {
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
      store_weights(stage + 2);
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

#define TESSERA_MATMUL_PANELS(name, format)                           \
  TESSERA_KERNEL(matmul_panels_##name, LargeTile::kThreads) {         \
    if (group_index() >= step.n_groups) return;                       \
    matmul_panels<format, LargeTile>(step);                           \
  }                                                                   \
  TESSERA_KERNEL(matmul_small_panels_##name, SmallTile::kThreads) {   \
    if (group_index() >= step.n_groups) return;                       \
    matmul_panels<format, SmallTile>(step);                           \
  }
TESSERA_MATMUL_PANELS(f16, kFormat_f16)
TESSERA_MATMUL_PANELS(q4_0, kFormat_q4_0)
TESSERA_MATMUL_PANELS(q8_0, kFormat_q8_0)
TESSERA_MATMUL_PANELS(q4_k, kFormat_q4_k)
TESSERA_MATMUL_PANELS(q5_k, kFormat_q5_k)
TESSERA_MATMUL_PANELS(q6_k, kFormat_q6_k)
TESSERA_MATMUL_PANELS(any, kAnyFormat)

}  // namespace tessera::cuda
