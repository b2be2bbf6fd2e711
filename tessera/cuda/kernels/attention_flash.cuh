// Attention with the matrix units, for heads of up to 256 elements: q, K and weights are rounded to f16, sums are f32
// (Dao et al. 2022). The rows of a tile are the query heads of a KV head times some tokens of one sequence, so a tile
// reads each block of K and V once.
//
// The bits of a row do not depend on the tile's other rows, nor on the tile's shape. Each element of a product is a
// chain of mma instructions in the order of dimensions (scores) or keys (values and sums). A block that a row does not
// see multiplies its state by 2^0 = 1 and adds zeros. Warps of a tile divide rows, keys or elements of V, never sums.
//   x: as in attention_precise; u[0] to u[6] too. u[7]: tokens of a tile; u[8]: query heads of a tile; u[9]: tiles of
//   tokens; u[10]: tokens that blocks of attention_few_<dim> begin with
//   scratch: results of splits, or 1 for each tile of attention_flash_<dim> that attention_few_<dim> has to compute
#pragma once

#include "tessera/cuda/kernels/attention.cuh"
#include "tessera/cuda/kernels/formats.cuh"

namespace tessera::cuda {

/// Query heads [head, head + n_heads) of tokens [token, token + n_tokens), which read head_kv.
struct FlashTile {
  uint32_t head_kv, head, n_heads, token, n_tokens;
};

/// One row of queries.
struct FlashRow {
  uint32_t token, head;
  bool is_live;  // other rows have no token, and attend to nothing
};
/// What the sums of a row need. The rest is computed again where it is used, which leaves registers to the products.
struct FlashState {
  uint32_t first, end;  // the positions that the row sees
  Softmax before;       // of the splits before this one
  float highest;        // of this split
};

/// The rows of K or V of a block and KV head.
struct FlashRows {
  uint64_t data;
  uint32_t row_bytes, n_chunks;
  uint32_t seen[2];
};

template <FlashShape kShape>
class Flash {
 public:
  __device__ Flash(const Params& step, const FlashTile& tile) : step_(step), tile_(tile) {
    for (uint32_t r = 0; r < 2; ++r) {
      const FlashRow row = row_of_tile(r);
      const Span span = row.is_live ? span_of(step, row.token, part() == 0) : Span{0, 0, 0};
      rows_[r] = {span.first, span.end, empty_softmax(), -infinity()};
    }
    find_spans();
    load_query();
  }

  /// Sums up blocks [begin, end) as far as they are seen.
  __device__ void run(uint32_t begin, uint32_t end) {
    uint32_t split = ~0u;
    begin_split();
    for (uint32_t i = 0; i < kTiles; ++i)
      for (uint32_t n = 0; n < 4; ++n) total(4 * i + n) = 0;
    begin = max_of(begin, room().spans[0][0] / kBlockTokens);
    end = min_of(end, (room().spans[0][1] + kBlockTokens - 1) / kBlockTokens);
    for (uint32_t from = begin; from < end; from += kListed) {
      const uint32_t n = list_blocks(from, min_of(end, from + kListed));
      for (uint32_t i = 0; i + 1 < kShape.n_slots; ++i) fetch(i, n);
      for (uint32_t i = 0; i < n; ++i) {
        FlashEntry entry = room().entries[i];
        const bool is_full = (entry.logical & kFull) != 0;
        entry.logical &= ~kFull;
        if (entry.logical / kSplitBlocks != split) {
          if (split != ~0u) end_split();
          split = entry.logical / kSplitBlocks;
        }
        float scores[kKeyTiles][4];
        advance(2 * i, n);
        multiply_keys(2 * i, scores);
        if (has_score_terms(step_))
          complete_scores(entry, scores);
        else
          scale_scores(scores);
        if (!is_full) mask_scores(entry, scores);
        uint32_t weights[4][4];
        weigh(scores, weights);
        advance(2 * i + 1, n);
        if (kShape.key_warps > 1) read_weights(weights);
        add_values(2 * i + 1, weights);
      }
    }
  }

  /// Writes the results of all splits. Returns whether a value that this thread wrote is not finite.
  __device__ bool write() {
    end_split();
    bool is_finite = true;
    for (uint32_t r = 0; r < 2; ++r) {
      const FlashRow row = row_of_tile(r);
      if (!row.is_live) continue;
      const float factor = final_factor<Base2>(step_, rows_[r].before, row.head);
      const uint64_t y = row_of(step_.y, row.head, row.token, 0);
      for (uint32_t i = 0; i < kTiles; ++i) {
        const uint32_t column = column_of(i);
        if (column >= step_.y.ne[0]) continue;
        const float a = total(4 * i + 2 * r), b = total(4 * i + 2 * r + 1);
        is_finite &= fabsf(a) < infinity() && fabsf(b) < infinity();
        *at<Word2>(y + 4 * column) = {bits_of(final_value(factor, a)), bits_of(final_value(factor, b))};
      }
    }
    return !is_finite;
  }

  /// Writes the result of one split for attention_flash_merge.
  __device__ void write_part(uint32_t split) {
    const uint32_t n_heads = step_.x[0].ne[1], v_dim = step_.y.ne[0];
    for (uint32_t r = 0; r < 2; ++r) {
      const FlashRow row = row_of_tile(r);
      if (!row.is_live) continue;
      const uint64_t part = (uint64_t{row.token} * n_heads + row.head) * step_.u[6] + split;
      const uint64_t to = step_.scratch + part * (4 * (v_dim + 2));
      if (lane() % kWarp % 4 == 0 && key_warp() == 0)
        *at<Word2>(to) = {bits_of(rows_[r].highest), bits_of(sums_[2 * r])};
      for (uint32_t i = 0; i < kTiles; ++i)
        if (column_of(i) < v_dim)
          *at<Word2>(to + 8 + 4 * column_of(i)) = {bits_of(values_[i][2 * r]), bits_of(values_[i][2 * r + 1])};
    }
  }

  static __device__ FlashRoom& room() { return *reinterpret_cast<FlashRoom*>(dynamic_shared() + kShape.room_at()); }

 private:
  static constexpr uint32_t kDim = kShape.dim, kChunks = kDim / 8;  // of 16 bytes
  static constexpr uint32_t kKeyTiles = 8 / kShape.key_warps;       // of 8 keys
  static constexpr uint32_t kTiles = kDim / 8 / kShape.key_warps;   // of 8 elements of V
  // Independent products between two to the same sums, of which the second waits for the first. More take registers.
  static constexpr uint32_t kKeysAtOnce = kKeyTiles < 4 || kDim == 96 || kDim == 128 ? kKeyTiles : 4;
  static constexpr uint32_t kAtOnce = kTiles % 4 == 0 ? 4 : kTiles % 3 == 0 ? 3 : 2;
  static constexpr uint32_t kOne = 0x3c00'3c00;     // two f16
  static constexpr bool kIsWhole = kDim % 64 == 0;  // rows are a multiple of 128 bytes, the width of shared memory
  static_assert(kShape.shared_bytes() <= 163 << 10);

  // Lane 4 quad + part of its warp.
  static __device__ uint32_t quad() { return lane() % kWarp / 4; }
  static __device__ uint32_t part() { return lane() % 4; }
  static __device__ uint32_t row_warp() { return lane() / kWarp / kShape.key_warps; }
  static __device__ uint32_t key_warp() { return lane() / kWarp % kShape.key_warps; }
  static __device__ uint32_t column_of(uint32_t tile) { return 8 * (key_warp() * kTiles + tile) + 2 * part(); }

  static __device__ FlashExchange& exchange() {
    return *reinterpret_cast<FlashExchange*>(dynamic_shared() + kShape.exchange_at());
  }
  static __device__ unsigned char* slot(uint32_t half) {
    return dynamic_shared() + half % kShape.n_slots * kShape.slot_bytes();
  }
  // Chunks of a row are permuted so that the eight lanes that access shared memory at a time use all its banks: lanes
  // read four chunks of two rows of K, and a chunk of eight rows of V.
  static __device__ uint32_t k_swizzle(uint32_t row) { return kIsWhole ? row % 2 * 4 : 0; }
  static __device__ uint32_t v_swizzle(uint32_t row) { return kIsWhole ? row % 8 : row / 2 % 4; }

  // The sum of the earlier splits for values_[i / 4][i % 4]. Other threads do not access it.
  static __device__ float& total(uint32_t i) {
    return reinterpret_cast<float*>(dynamic_shared() + kShape.totals_at())[i * kShape.n_threads() + lane()];
  }

  // The first (r = 0) or second row of this thread.
  __device__ FlashRow row_of_tile(uint32_t r) const {
    const uint32_t i = 16 * row_warp() + 8 * r + quad();
    return {tile_.token + i / tile_.n_heads, tile_.head + i % tile_.n_heads, i < tile_.n_tokens * tile_.n_heads};
  }

  // Sets room().spans[0]: first and end of what any row sees, then of what all rows see.
  __device__ void find_spans() {
    uint32_t v[4] = {~0u, 0, 0, ~0u};
    for (uint32_t r = 0; r < 2; ++r) {
      if (!row_of_tile(r).is_live) continue;
      const FlashState& row = rows_[r];
      if (row.end > row.first) add_span({row.first, row.end, 0, ~0u}, v);
      add_span({~0u, 0, row.first, row.end}, v);
    }
    for (uint32_t mask = 4; mask < kWarp; mask *= 2)
      add_span({shuffle_xor(v[0], mask), shuffle_xor(v[1], mask), shuffle_xor(v[2], mask), shuffle_xor(v[3], mask)}, v);
    uint32_t(*spans)[4] = room().spans;
    sync_group();  // all have read those of the tile before
    for (uint32_t i = 0; i < 4; ++i)
      if (lane() % kWarp == 0) spans[lane() / kWarp][i] = v[i];
    sync_group();
    for (uint32_t warp = 0; warp < kShape.n_threads() / kWarp; ++warp)
      add_span({spans[warp][0], spans[warp][1], spans[warp][2], spans[warp][3]}, v);
    sync_group();
    for (uint32_t i = 0; i < 4; ++i)
      if (lane() == 0) spans[0][i] = v[i];
    sync_group();
  }
  static __device__ void add_span(const Word4& other, uint32_t (&v)[4]) {
    v[0] = min_of(v[0], other.x);
    v[1] = max_of(v[1], other.y);
    v[2] = max_of(v[2], other.z);
    v[3] = min_of(v[3], other.w);
  }

  // A lane takes chunk `part` of four chunks of its two rows. The eight elements are the lane's elements of two steps
  // of an mma. The order of elements within these steps is arbitrary, as long as it is the same in q and K.
  __device__ void load_query() {
    for (uint32_t i = 0; i < kDim / 32; ++i) {
      uint32_t halves[2][4];
      for (uint32_t r = 0; r < 2; ++r) {
        const uint32_t first = 8 * (4 * i + part());
        const FlashRow row = row_of_tile(r);
        const bool is_used = row.is_live && first < step_.x[0].ne[0];
        const uint64_t q = row_of(step_.x[0], row.head, row.token, 0) + 4 * first;
        float v[8] = {};
        if (is_used) load_floats(q, v);
        for (uint32_t n = 0; n < 4; ++n) halves[r][n] = pack_halves(v[2 * n], v[2 * n + 1]);
      }
      const Word4 even = {halves[0][0], halves[1][0], halves[0][1], halves[1][1]};
      const Word4 odd = {halves[0][2], halves[1][2], halves[0][3], halves[1][3]};
      set_query(2 * i, even);
      set_query(2 * i + 1, odd);
    }
  }
  static __device__ void load_floats(uint64_t from, float (&v)[8]) {
    if (from % 16 != 0) {
      for (uint32_t n = 0; n < 8; ++n) v[n] = floats(from)[n];
      return;
    }
    for (uint32_t n = 0; n < 2; ++n) {
      const Word4 four = at<Word4>(from)[n];
      v[4 * n] = float_of(four.x);
      v[4 * n + 1] = float_of(four.y);
      v[4 * n + 2] = float_of(four.z);
      v[4 * n + 3] = float_of(four.w);
    }
  }
  static __device__ Word4& stored_query(uint32_t i) {
    return reinterpret_cast<Word4*>(dynamic_shared() + kShape.query_at())[i * kShape.n_threads() + lane()];
  }
  __device__ void set_query(uint32_t i, const Word4& q) {
    if constexpr (kShape.holds_query())
      query_[i] = q;
    else
      stored_query(i) = q;
  }
  __device__ Word4 query(uint32_t i) const {
    if constexpr (kShape.holds_query())
      return query_[i];
    else
      return stored_query(i);
  }

  // Lists those of blocks [begin, end) of which some row sees something, and returns their number.
  __device__ uint32_t list_blocks(uint32_t begin, uint32_t end) {
    FlashRoom& to = room();
    sync_group();
    if (lane() < 2) to.is_listed[lane()] = 0;
    sync_group();
    const uint32_t i = lane(), b = begin + i, from = b * kBlockTokens, *span = to.spans[0];
    const uint32_t slot = safe_slot_of(step_, tile_.token), n_physical = step_.x[1].ne[3];
    FlashEntry entry = {b, 0, {0, 0}};
    if (i < kListed && b < end) {
      const int32_t block = ints(row_of(step_.x[5], slot, 0, 0))[b];
      if (block < -1 || block >= static_cast<int32_t>(n_physical)) report(step_, kFaultBlock, block, n_physical);
      if (block >= 0 && block < static_cast<int32_t>(n_physical)) {
        entry.physical = static_cast<uint32_t>(block);
        const uint32_t* valid = words(row_of(step_.x[6], slot, 0, 0)) + 2 * b;
        for (uint32_t h = 0; h < 2; ++h) entry.seen[h] = valid[h] & within(from + 32 * h, span[0], span[1]);
        const bool is_full =
            (entry.seen[0] & entry.seen[1]) == ~0u && from >= span[2] && from + kBlockTokens <= span[3];
        if (is_full) entry.logical |= kFull;
      }
    }
    const bool is_listed = (entry.seen[0] | entry.seen[1]) != 0;
    if (is_listed) atomic_or(&to.is_listed[i / 32], 1u << i % 32);
    sync_group();
    const uint32_t low = to.is_listed[0], high = to.is_listed[1];
    if (is_listed) {
      const uint32_t before = (1u << i % 32) - 1;
      to.entries[i < 32 ? count_bits(low & before) : count_bits(low) + count_bits(high & before)] = entry;
    }
    sync_group();
    return count_bits(low) + count_bits(high);
  }

  // The positions of [first, end) among the 32 positions from `from` on, as bits.
  static __device__ uint32_t within(uint32_t from, uint32_t first, uint32_t end) {
    const uint32_t below_end = end <= from ? 0 : end - from >= 32 ? ~0u : (1u << (end - from)) - 1;
    const uint32_t below_first = first <= from ? 0 : first - from >= 32 ? ~0u : (1u << (first - from)) - 1;
    return below_end & ~below_first;
  }
  // Begins to copy half i (K or V of a listed block) to its slot of the ring. Rows that no row of the tile sees become
  // zeros: they may hold any bits, and zero times NaN would not be zero.
  __device__ void fetch(uint32_t i, uint32_t n_blocks) const {
    if (i < 2 * n_blocks) {
      const FlashEntry& entry = room().entries[i / 2];
      if (i % 2 == 0)
        fetch_rows<false>(entry, slot(i));
      else
        fetch_rows<true>(entry, slot(i));
    }
    commit_copies();
  }
  template <bool kIsV>
  __device__ void fetch_rows(const FlashEntry& entry, unsigned char* to) const {
    const Operand& cache = step_.x[kIsV ? 2 : 1];
    const FlashRows rows = {
        row_of(cache, 0, tile_.head_kv, entry.physical), cache.nb[1], cache.ne[0] / 8, {entry.seen[0], entry.seen[1]}};
    if ((step_.variant & (kIsV ? kVariantCopiesV : kVariantCopiesK)) == 0)
      decode_rows<kIsV>(rows, kIsV ? step_.format2 : step_.format, step_.tables, to);
    else
      for_each_chunk<kIsV>(rows, to, [&](unsigned char* place, uint64_t row, uint32_t chunk, bool is_seen) {
        copy_async16(place, at<unsigned char>(is_seen ? row + 16 * chunk : rows.data), is_seen);
      });
  }
  // Calls put(place, row, chunk, whether any row of the tile sees it) for this thread's chunks of a half.
  template <bool kIsV, class Put>
  static __device__ void for_each_chunk(const FlashRows& rows, unsigned char* to, Put put) {
#pragma unroll 4
    for (uint32_t i = lane(); i < kBlockTokens * kChunks; i += kShape.n_threads()) {
      const uint32_t key = i / kChunks, chunk = i % kChunks;
      const bool is_seen = ((key < 32 ? rows.seen[0] : rows.seen[1]) >> key % 32 & 1) != 0 && chunk < rows.n_chunks;
      const uint32_t place = chunk ^ (kIsV ? v_swizzle(key) : k_swizzle(key));
      put(to + (key * kChunks + place) * 16, rows.data + uint64_t{key} * rows.row_bytes, chunk, is_seen);
    }
  }
  // Not inline: all its formats would take registers from the kernel.
  template <bool kIsV>
  static __device__ __noinline__ void decode_rows(FlashRows rows, uint32_t format, uint64_t tables, unsigned char* to) {
    for_each_chunk<kIsV>(rows, to, [&](unsigned char* place, uint64_t row, uint32_t chunk, bool is_seen) {
      float v[8] = {};
      if (is_seen) decode8_kv(format, tables, row, 8 * chunk, 8, v);
      *reinterpret_cast<Word4*>(place) = {pack_halves(v[0], v[1]), pack_halves(v[2], v[3]), pack_halves(v[4], v[5]),
                                          pack_halves(v[6], v[7])};
    });
  }
  // Waits for half i, and fetches another one into the slot that all threads have finished with.
  __device__ void advance(uint32_t i, uint32_t n_blocks) const {
    wait_copies<static_cast<int>(kShape.n_slots) - 2>();
    sync_group();
    fetch(i + kShape.n_slots - 1, n_blocks);
  }

  __device__ void multiply_keys(uint32_t half, float (&scores)[kKeyTiles][4]) const {
#pragma unroll
    for (uint32_t n = 0; n < kKeyTiles; ++n)
      for (uint32_t e = 0; e < 4; ++e) scores[n][e] = 0;
    const unsigned char* keys = slot(half) + (key_warp() * kKeyTiles * 8 + quad()) * 2 * kDim + 16 * part();
    const uint32_t swizzle = 16 * k_swizzle(quad());  // of all the lane's rows
#pragma unroll
    for (uint32_t i = 0; i < kDim / 32; ++i) {
      const Word4 even = query(2 * i), odd = query(2 * i + 1);
      const uint32_t a[2][4] = {{even.x, even.y, even.z, even.w}, {odd.x, odd.y, odd.z, odd.w}};
#pragma unroll
      for (uint32_t first = 0; first < kKeyTiles; first += kKeysAtOnce) {
        Word4 k[kKeysAtOnce];
#pragma unroll
        for (uint32_t n = 0; n < kKeysAtOnce; ++n)
          k[n] = *reinterpret_cast<const Word4*>(keys + (first + n) * 16 * kDim + (64 * i ^ swizzle));
#pragma unroll
        for (uint32_t n = 0; n < kKeysAtOnce; ++n) multiply_f16(scores[first + n], a[0], k[n].x, k[n].y);
#pragma unroll
        for (uint32_t n = 0; n < kKeysAtOnce; ++n) multiply_f16(scores[first + n], a[1], k[n].z, k[n].w);
      }
    }
  }

  // The key, in its block, of element e of a tile of scores.
  static __device__ uint32_t key_of(uint32_t tile, uint32_t e) {
    return 8 * (key_warp() * kKeyTiles + tile) + 2 * part() + e % 2;
  }
  __device__ void scale_scores(float (&scores)[kKeyTiles][4]) const {
    const float scale = float_of(step_.u[0]) * Base2::kUnit;
#pragma unroll
    for (uint32_t n = 0; n < kKeyTiles; ++n)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) scores[n][e] *= scale;
  }
  __device__ void complete_scores(const FlashEntry& entry, float (&scores)[kKeyTiles][4]) const {
#pragma unroll
    for (uint32_t r = 0; r < 2; ++r) {
      const FlashRow row = row_of_tile(r);
      if (!row.is_live) continue;
      const int32_t position = ints(step_.x[3].data)[row.token];
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (uint32_t e = 2 * r; e < 2 * r + 2; ++e) {
          const int32_t key = static_cast<int32_t>(entry.logical * kBlockTokens + key_of(n, e));
          scores[n][e] = score_of(step_, scores[n][e] * float_of(step_.u[0]), key - position, row.head) * Base2::kUnit;
        }
    }
  }
  __device__ void mask_scores(const FlashEntry& entry, float (&scores)[kKeyTiles][4]) const {
    const uint32_t from = entry.logical * kBlockTokens;
#pragma unroll
    for (uint32_t r = 0; r < 2; ++r) {
      const FlashState& row = rows_[r];
      uint32_t seen[2];
      for (uint32_t h = 0; h < 2; ++h)
        seen[h] = (entry.seen[h] & within(from + 32 * h, row.first, row.end)) >> 2 * part();
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n) {
        const uint32_t first = 8 * (key_warp() * kKeyTiles + n), bits = (first < 32 ? seen[0] : seen[1]) >> first % 32;
        for (uint32_t e = 0; e < 2; ++e)
          if ((bits >> e & 1) == 0) scores[n][2 * r + e] = -infinity();
      }
    }
  }

  // Turns scores into rounded weights relative to the new maximum, and rescales the values.
  __device__ void weigh(const float (&scores)[kKeyTiles][4], uint32_t (&weights)[4][4]) {
    float most[2] = {-infinity(), -infinity()};
#pragma unroll
    for (uint32_t n = 0; n < kKeyTiles; ++n)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) most[e / 2] = fmaxf(most[e / 2], scores[n][e]);
#pragma unroll
    for (uint32_t r = 0; r < 2; ++r) {
      most[r] = fmaxf(most[r], shuffle_xor(most[r], 1));
      most[r] = fmaxf(most[r], shuffle_xor(most[r], 2));
    }
    if constexpr (kShape.key_warps > 1) most_of_warps(most);
    float base[2], keep[2];
#pragma unroll
    for (uint32_t r = 0; r < 2; ++r) {
      const float highest = fmaxf(rows_[r].highest, most[r]);
      base[r] = highest == -infinity() ? 0 : highest;  // all weights are 0 then
      keep[r] = exp2_of(rows_[r].highest - base[r]);
      rows_[r].highest = highest;
    }
    if (keep[0] != 1 || keep[1] != 1) {  // a product with 1 has the same bits
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) sums_[e] *= keep[e / 2];
#pragma unroll
      for (uint32_t i = 0; i < kTiles; ++i)
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) values_[i][e] *= keep[e / 2];
    }
#pragma unroll
    for (uint32_t n = 0; n < kKeyTiles; ++n)
#pragma unroll
      for (uint32_t r = 0; r < 2; ++r)
        weights[n / 2][n % 2 * 2 + r] =
            pack_halves(exp2_of(scores[n][2 * r] - base[r]), exp2_of(scores[n][2 * r + 1] - base[r]));
    if constexpr (kShape.key_warps > 1) {
      const uint32_t(&mine)[4] = weights[0];
      *reinterpret_cast<Word4*>(exchange().weights[key_warp()][lane() % kWarp]) = {mine[0], mine[1], mine[2], mine[3]};
    }
  }
  // Each warp computes 16 of the block's keys. The maximum does not depend on the order.
  __device__ void most_of_warps(float (&most)[2]) const {
    static_assert(kShape.key_warps == 1 || (kShape.key_warps == 4 && kShape.row_warps == 1));
    for (uint32_t r = 0; r < 2; ++r)
      if (part() == 0) exchange().highest[key_warp()][8 * r + quad()] = most[r];
    sync_group();
    for (uint32_t r = 0; r < 2; ++r)
      for (uint32_t warp = 0; warp < 4; ++warp) most[r] = fmaxf(most[r], exchange().highest[warp][8 * r + quad()]);
  }
  __device__ void read_weights(uint32_t (&weights)[4][4]) const {
    for (uint32_t i = 0; i < 4; ++i) {
      const Word4 w = *reinterpret_cast<const Word4*>(exchange().weights[i][lane() % kWarp]);
      weights[i][0] = w.x;
      weights[i][1] = w.y;
      weights[i][2] = w.z;
      weights[i][3] = w.w;
    }
  }

  // The sums are products with a column of ones, so they are sums of the rounded weights.
  __device__ void add_values(uint32_t half, const uint32_t (&weights)[4][4]) {
    const uint32_t key = lane() % kWarp, swizzle = v_swizzle(key);
    const unsigned char* rows = slot(half) + key * 2 * kDim;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {  // 32 keys each
#pragma unroll
      for (uint32_t i = 0; i < kTiles; i += kAtOnce) {
        uint32_t v[kAtOnce][4];
#pragma unroll
        for (uint32_t n = 0; n < kAtOnce; ++n) {
          const uint32_t chunk = key_warp() * kTiles + i + n;
          load_transposed(v[n], rows + k * 64 * kDim + (chunk ^ swizzle) * 16);
        }
#pragma unroll
        for (uint32_t n = 0; n < kAtOnce; ++n) multiply_f16(values_[i + n], weights[2 * k], v[n][0], v[n][1]);
#pragma unroll
        for (uint32_t n = 0; n < kAtOnce; ++n) multiply_f16(values_[i + n], weights[2 * k + 1], v[n][2], v[n][3]);
      }
      multiply_f16(sums_, weights[2 * k], kOne, kOne);
      multiply_f16(sums_, weights[2 * k + 1], kOne, kOne);
    }
  }

  __device__ void begin_split() {
    for (FlashState& row : rows_) row.highest = -infinity();
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) sums_[e] = 0;
#pragma unroll
    for (uint32_t i = 0; i < kTiles; ++i)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) values_[i][e] = 0;
  }
  __device__ void end_split() {
    Merge m[2];
    for (uint32_t r = 0; r < 2; ++r) {
      m[r] = merged<Base2>(rows_[r].before, {rows_[r].highest, sums_[2 * r]});
      rows_[r].before = m[r].after;
    }
#pragma unroll
    for (uint32_t i = 0; i < kTiles; ++i)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) total(4 * i + e) = merged_value(m[e / 2], total(4 * i + e), values_[i][e]);
    begin_split();
  }

  const Params& step_;
  FlashTile tile_;
  FlashState rows_[2];
  Word4 query_[kShape.holds_query() ? kDim / 16 : 1];
  float sums_[4], values_[kTiles][4];  // of this split, as the mma has them; the columns of sums_ are equal
};

/// Whether all tokens have the same slot. Each warp reads all of them.
__device__ inline bool shares_slot(const Params& step, uint32_t token, uint32_t n_tokens) {
  const int32_t* slots = ints(step.x[4].data) + token;
  uint32_t differs = 0;
  for (uint32_t i = lane() % kWarp; i < n_tokens; i += kWarp) differs |= slots[i] != slots[0] ? 1u : 0u;
  for (uint32_t mask = 16; mask > 0; mask /= 2) differs |= shuffle_xor(differs, mask);
  return differs == 0;
}

/// One block per tile and KV head, the last tokens first, since they attend to the most keys. A tile of several
/// sequences is left to attention_few_<dim>. So is one with a result that is not finite: a token's NaN in V, which is
/// not seen by the tokens before it, would be in their results as zero times NaN.
template <FlashShape kShape>
__device__ inline void flash_tile(const Params& step, uint32_t group) {
  const uint32_t n_heads_kv = step.x[1].ne[2], n_shared = step.x[0].ne[1] / n_heads_kv;
  const uint32_t n_parts = (n_shared + step.u[8] - 1) / step.u[8];
  const uint32_t tile = step.u[9] - 1 - group / (n_heads_kv * n_parts), head_kv = group / n_parts % n_heads_kv;
  const uint32_t part = group % n_parts, token = tile * step.u[7];
  const uint32_t n_tokens = min_of(step.u[7], step.x[0].ne[2] - token);
  uint32_t* is_left = words(step.scratch) + (tile * n_heads_kv + head_kv) * n_parts + part;
  if (!shares_slot(step, token, n_tokens)) {
    if (lane() == 0) *is_left = 1;
    return;
  }
  const uint32_t head = part * step.u[8];
  Flash<kShape> flash(step, {head_kv, head_kv * n_shared + head, min_of(step.u[8], n_shared - head), token, n_tokens});
  flash.run(0, step.x[5].ne[0]);
  FlashRoom& room = Flash<kShape>::room();
  if (lane() == 0) room.is_left = 0;
  sync_group();
  if (flash.write()) room.is_left = 1;
  sync_group();
  if (lane() == 0) *is_left = room.is_left;
}

/// A block computes up to 16 query heads of a KV head: one split of one token, or all splits of tokens that
/// attention_flash_<dim> left, or of all tokens.
template <FlashShape kShape>
__device__ inline void flash_few(const Params& step, uint32_t group) {
  const uint32_t n_heads_kv = step.x[1].ne[2], n_shared = step.x[0].ne[1] / n_heads_kv;
  const uint32_t n_parts = (n_shared + kFewRows - 1) / kFewRows, n_tokens = step.x[0].ne[2];
  const bool is_one_split = (step.variant & kVariantOneSplit) != 0, is_left = (step.variant & kVariantLeftTiles) != 0;
  const uint32_t split = is_one_split ? group % step.u[6] : 0, item = is_one_split ? group / step.u[6] : group;
  const uint32_t part = item % n_parts, head_kv = item / n_parts % n_heads_kv, head = part * kFewRows;
  for (uint32_t token = item / n_parts / n_heads_kv; token < n_tokens; token += step.u[10]) {
    if (is_left) {
      const uint32_t n_tile_parts = (n_shared + step.u[8] - 1) / step.u[8];
      const uint32_t tile = (token / step.u[7] * n_heads_kv + head_kv) * n_tile_parts + head / step.u[8];
      if (words(step.scratch)[tile] == 0) continue;
    }
    if (is_one_split) {  // the table may have room for many splits of which the sequence has few
      const Span span = span_of(step, token, lane() == 0);
      if (split * kSplitTokens >= span.end || (split + 1) * kSplitTokens <= span.first) return;
    }
    Flash<kShape> flash(step, {head_kv, head_kv * n_shared + head, min_of(kFewRows, n_shared - head), token, 1});
    if (is_one_split) {
      flash.run(split * kSplitBlocks, (split + 1) * kSplitBlocks);
      flash.write_part(split);
    } else {
      flash.run(0, step.x[5].ne[0]);
      flash.write();
    }
  }
}

}  // namespace tessera::cuda
