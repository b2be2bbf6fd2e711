// Attention with the matrix units, for heads of up to 256 elements: q, K and weights are rounded to f16, sums are f32
// (Dao et al. 2022). The rows of a tile are the query heads of a KV head times some tokens of one sequence, so a tile
// reads each block of K and V once.
//
// The bits of a row do not depend on the tile's other rows, nor on the tile's shape. Each element of a product is a
// chain of mma instructions in the order of dimensions (scores) or keys (values and sums). A block that a row does not
// see multiplies its state by 2^0 = 1 and adds zeros. Warps of a tile divide rows, keys or elements of V, never sums.
//   x: as in attention_precise; u[0] to u[6] too. u[7]: tokens of a tile; u[8]: query heads of a tile; u[9]: tiles of
//   tokens; u[10]: tokens, or splits of each, that blocks of attention_few_<dim> begin with; u[11]: the first word of
//   extra that counts splits, 0 at the begin and the end of a step
//   scratch: values of splits by token, head and split, then maximum and sum of each; or 1 for each tile of
//   attention_flash_<dim> that attention_few_<dim> has to compute
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

/// The results of splits in the scratch memory. Pairs of values are aligned: there are a multiple of eight of them.
struct FlashParts {
  uint64_t values, n_parts;
  uint32_t n_heads, n_splits, v_dim;

  __device__ explicit FlashParts(const Params& step)
      : values(step.scratch), n_heads(step.x[0].ne[1]), n_splits(step.u[6]), v_dim(step.y.ne[0]) {
    n_parts = uint64_t{step.x[0].ne[2]} * n_heads * n_splits;
  }
  __device__ uint64_t index_of(uint32_t token, uint32_t head, uint32_t split) const {
    return (uint64_t{token} * n_heads + head) * n_splits + split;
  }
  __device__ uint64_t value(uint64_t part, uint32_t column) const { return values + 4 * (part * v_dim + column); }
  __device__ uint64_t state(uint64_t part) const { return values + 4 * (n_parts * v_dim + 2 * part); }
};

template <FlashShape kShape>
class Flash {
 public:
  __device__ Flash(const Params& step, const FlashTile& tile) : step_(step), tile_(tile) {
    for (uint32_t r = 0; r < kRows; ++r) {
      const FlashRow row = row_of_tile(r);
      const Span span = row.is_live ? span_of(step, row.token, part() == 0) : Span{0, 0, 0};
      rows_[r] = {span.first, span.end, empty_softmax(), -infinity()};
    }
    find_spans();
  }
  /// A tile of one token. Rows without a query see the same positions: nothing reads their results.
  __device__ Flash(const Params& step, const FlashTile& tile, const Span& span) : step_(step), tile_(tile) {
    for (FlashState& row : rows_) row = {span.first, span.end, empty_softmax(), -infinity()};
  }

  /// Sums up blocks [begin, end) as far as they are seen.
  __device__ void run(uint32_t begin, uint32_t end) {
    uint32_t split = ~0u;
    begin_split();
    for (uint32_t i = 0; i < kRowTiles * kTiles; ++i) set_total(i, {0, 0, 0, 0});
    const Word4 spans = spans_of_tile();
    begin = max_of(begin, spans.x / kBlockTokens);
    end = min_of(end, (spans.y + kBlockTokens - 1) / kBlockTokens);
    for (uint32_t from = begin; from < end; from += kListed) {
      const uint32_t to = min_of(end, from + kListed), n = kIsOneToken ? take_blocks(from, to) : list_blocks(from, to);
      for (uint32_t i = 0; i < kFetched; ++i) fetch(i, n);
      if (from == begin) load_query();  // while keys are on their way
      for (uint32_t i = 0; i < n; ++i) {
        FlashEntry entry = room().entries[i];
        const bool is_full = (entry.logical & kFull) != 0;
        entry.logical &= ~kFull;
        if (flash_split_of(entry.logical) != split) {
          if (split != ~0u) end_split();
          split = flash_split_of(entry.logical);
        }
        float scores[kRowTiles][kKeyTiles][4];
        if constexpr (kIsByBlock)
          advance_block(i, n);
        else
          advance(2 * i, n);
        multiply_keys(2 * i, scores);
        // The scale is positive if the scores' maximum is that of the products.
        float scale = float_of(step_.u[0]) * Base2::kUnit;
        if (has_score_terms(step_) || !(scale > 0)) {
          complete_scores(entry, scores);
          scale = 1;
        }
        if (!is_full) mask_scores(entry, scores);
        uint32_t weights[kRowTiles][4][4];
        weigh(scores, scale, weights);
        if constexpr (!kIsByBlock) advance(2 * i + 1, n);
        if (kShape.key_warps > 1) read_weights(weights);
        add_values(2 * i + 1, weights);
      }
    }
  }

  /// Writes the results of all splits. Returns whether a value that this thread wrote is not finite.
  __device__ bool write() {
    end_split();
    bool is_finite = true;
    for (uint32_t r = 0; r < kRows; ++r) {
      const FlashRow row = row_of_tile(r);
      if (!row.is_live) continue;
      const float factor = final_factor<Base2>(step_, rows_[r].before, row.head);
      const uint64_t y = row_of(step_.y, row.head, row.token, 0);
      for (uint32_t i = 0; i < kTiles; ++i) {
        const uint32_t column = column_of(i);
        if (column >= step_.y.ne[0]) continue;
        const Word4 all = total(r / 2 * kTiles + i);
        const float a = float_of(r % 2 == 0 ? all.x : all.z), b = float_of(r % 2 == 0 ? all.y : all.w);
        is_finite &= fabsf(a) < infinity() && fabsf(b) < infinity();
        *at<Word2>(y + 4 * column) = {bits_of(final_value(factor, a)), bits_of(final_value(factor, b))};
      }
    }
    return !is_finite;
  }

  /// Writes the result of one split for merge_parts().
  __device__ void write_part(uint32_t split) {
    const FlashParts parts(step_);
    for (uint32_t r = 0; r < kRows; ++r) {
      const FlashRow row = row_of_tile(r);
      if (!row.is_live) continue;
      const uint64_t index = parts.index_of(row.token, row.head, split);
      if (part() == 0 && key_warp() == 0)
        *at<Word2>(parts.state(index)) = {bits_of(rows_[r].highest), bits_of(sums_[r / 2][r % 2 * 2])};
      for (uint32_t i = 0; i < kTiles; ++i) {
        const float(&v)[4] = values_[r / 2][i];
        if (column_of(i) < parts.v_dim)
          *at<Word2>(parts.value(index, column_of(i))) = {bits_of(v[r % 2 * 2]), bits_of(v[r % 2 * 2 + 1])};
      }
    }
  }

  static __device__ FlashRoom& room() { return *reinterpret_cast<FlashRoom*>(dynamic_shared() + kShape.room_at()); }

 private:
  static constexpr uint32_t kDim = kShape.dim, kChunks = kDim / 8;                // of 16 bytes
  static constexpr uint32_t kSteps = kDim / 16;                                   // of an mma along a query
  static constexpr uint32_t kKeyTiles = 8 / kShape.key_warps;                     // of 8 keys
  static constexpr uint32_t kTiles = kDim / 8 / kShape.key_warps;                 // of 8 elements of V
  static constexpr uint32_t kRowTiles = kShape.row_tiles, kRows = 2 * kRowTiles;  // of a thread
  static constexpr bool kIsOneToken = kShape.key_warps > 1;
  // With room for two blocks, warps wait for each other once per block: one is used while the other is on its way.
  static constexpr bool kIsByBlock = !kIsOneToken && kShape.n_slots == 4;
  static constexpr uint32_t kFetched = kIsByBlock ? 2 : kShape.n_slots - 1;  // halves, before the first is used
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

  // The sums of the earlier splits for tile i of values_. Other threads do not access them.
  static __device__ Word4& stored_total(uint32_t i) {
    return reinterpret_cast<Word4*>(dynamic_shared() + kShape.totals_at())[i * kShape.n_threads() + lane()];
  }
  static __device__ Word4 total(uint32_t i) { return stored_total(i); }
  static __device__ void set_total(uint32_t i, const Word4& v) { stored_total(i) = v; }

  // Row r of this thread.
  __device__ FlashRow row_of_tile(uint32_t r) const {
    const uint32_t i = 16 * kRowTiles * row_warp() + 8 * r + quad();
    if constexpr (kIsOneToken) return {tile_.token, tile_.head + i, i < tile_.n_heads};  // without divisions
    return {tile_.token + i / tile_.n_heads, tile_.head + i % tile_.n_heads, i < tile_.n_tokens * tile_.n_heads};
  }

  // First and end of what any row sees, then of what all rows see.
  __device__ Word4 spans_of_tile() const {
    if constexpr (kIsOneToken) return {rows_[0].first, rows_[0].end, rows_[0].first, rows_[0].end};
    const uint32_t* spans = room().spans[0];
    return {spans[0], spans[1], spans[2], spans[3]};
  }
  // Sets room().spans[0] for spans_of_tile().
  __device__ void find_spans() {
    uint32_t v[4] = {~0u, 0, 0, ~0u};
    for (uint32_t r = 0; r < kRows; ++r) {
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
#pragma unroll
    for (uint32_t tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (uint32_t i = 0; i < kDim / 32; ++i) {
        uint32_t halves[2][4];
        for (uint32_t r = 0; r < 2; ++r) {
          const uint32_t first = 8 * (4 * i + part());
          const FlashRow row = row_of_tile(2 * tile + r);
          const bool is_used = row.is_live && first < step_.x[0].ne[0];
          const uint64_t q = row_of(step_.x[0], row.head, row.token, 0) + 4 * first;
          float v[8] = {};
          if (is_used) load_floats(q, v);
          for (uint32_t n = 0; n < 4; ++n) halves[r][n] = pack_halves(v[2 * n], v[2 * n + 1]);
        }
        const Word4 even = {halves[0][0], halves[1][0], halves[0][1], halves[1][1]};
        const Word4 odd = {halves[0][2], halves[1][2], halves[0][3], halves[1][3]};
        set_query(tile * kSteps + 2 * i, even);
        set_query(tile * kSteps + 2 * i + 1, odd);
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

  // Lists all blocks [begin, end) and returns their number. One of which nothing is seen adds nothing.
  __device__ uint32_t take_blocks(uint32_t begin, uint32_t end) {
    sync_group();  // all have finished with the blocks before
    if (lane() < end - begin) {
      FlashEntry entry = entry_of(begin + lane(), spans_of_tile());
      room().entries[lane()] = entry;
    }
    sync_group();
    return end - begin;
  }

  // Lists those of blocks [begin, end) of which some row sees something, and returns their number.
  __device__ uint32_t list_blocks(uint32_t begin, uint32_t end) {
    FlashRoom& to = room();
    sync_group();
    if (lane() < 2) to.is_listed[lane()] = 0;
    sync_group();
    const uint32_t i = lane(), b = begin + i;
    FlashEntry entry = {b, 0, {0, 0}};
    if (i < kListed && b < end) entry = entry_of(b, spans_of_tile());
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

  __device__ FlashEntry entry_of(uint32_t b, const Word4& spans) const {
    const uint32_t slot = safe_slot_of(step_, tile_.token), n_physical = step_.x[1].ne[3], from = b * kBlockTokens;
    const int32_t block = ints(row_of(step_.x[5], slot, 0, 0))[b];
    const Word2 valid = at<Word2>(row_of(step_.x[6], slot, 0, 0))[b];  // at the same time
    if (block < -1 || block >= static_cast<int32_t>(n_physical)) report(step_, kFaultBlock, block, n_physical);
    if (block < 0 || block >= static_cast<int32_t>(n_physical)) return {b, 0, {0, 0}};
    FlashEntry entry = {b,
                        static_cast<uint32_t>(block),
                        {valid.x & within(from, spans.x, spans.y), valid.y & within(from + 32, spans.x, spans.y)}};
    const bool is_full = (entry.seen[0] & entry.seen[1]) == ~0u && from >= spans.z && from + kBlockTokens <= spans.w;
    if (is_full) entry.logical |= kFull;
    return entry;
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

  // The same for both halves of block i.
  __device__ void advance_block(uint32_t i, uint32_t n_blocks) const {
    wait_copies<0>();
    sync_group();
    fetch(2 * i + 2, n_blocks);
    fetch(2 * i + 3, n_blocks);
  }

  __device__ void multiply_keys(uint32_t half, float (&scores)[kRowTiles][kKeyTiles][4]) const {
#pragma unroll
    for (uint32_t t = 0; t < kRowTiles; ++t)
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n)
        for (uint32_t e = 0; e < 4; ++e) scores[t][n][e] = 0;
    const unsigned char* keys = slot(half) + (key_warp() * kKeyTiles * 8 + quad()) * 2 * kDim + 16 * part();
    const uint32_t swizzle = 16 * k_swizzle(quad());  // of all the lane's rows
#pragma unroll
    for (uint32_t i = 0; i < kDim / 32; ++i) {
#pragma unroll
      for (uint32_t first = 0; first < kKeyTiles; first += kKeysAtOnce) {
        Word4 k[kKeysAtOnce];
#pragma unroll
        for (uint32_t n = 0; n < kKeysAtOnce; ++n)
          k[n] = *reinterpret_cast<const Word4*>(keys + (first + n) * 16 * kDim + (64 * i ^ swizzle));
#pragma unroll
        for (uint32_t t = 0; t < kRowTiles; ++t) {
          const Word4 q = query(t * kSteps + 2 * i);
          const uint32_t a[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
          for (uint32_t n = 0; n < kKeysAtOnce; ++n) multiply_f16(scores[t][first + n], a, k[n].x, k[n].y);
        }
#pragma unroll
        for (uint32_t t = 0; t < kRowTiles; ++t) {
          const Word4 q = query(t * kSteps + 2 * i + 1);
          const uint32_t a[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
          for (uint32_t n = 0; n < kKeysAtOnce; ++n) multiply_f16(scores[t][first + n], a, k[n].z, k[n].w);
        }
      }
    }
  }

  // The key, in its block, of element e of a tile of scores.
  static __device__ uint32_t key_of(uint32_t tile, uint32_t e) {
    return 8 * (key_warp() * kKeyTiles + tile) + 2 * part() + e % 2;
  }
  __device__ void complete_scores(const FlashEntry& entry, float (&scores)[kRowTiles][kKeyTiles][4]) const {
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
      const FlashRow row = row_of_tile(r);
      if (!row.is_live) continue;
      const int32_t position = ints(step_.x[3].data)[row.token];
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (uint32_t e = 0; e < 2; ++e) {
          const int32_t key = static_cast<int32_t>(entry.logical * kBlockTokens + key_of(n, e));
          float& score = scores[r / 2][n][r % 2 * 2 + e];
          score = score_of(step_, score * float_of(step_.u[0]), key - position, row.head) * Base2::kUnit;
        }
    }
  }
  __device__ void mask_scores(const FlashEntry& entry, float (&scores)[kRowTiles][kKeyTiles][4]) const {
    const uint32_t from = entry.logical * kBlockTokens;
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
      const FlashState& row = rows_[r];
      uint32_t seen[2];
      for (uint32_t h = 0; h < 2; ++h)
        seen[h] = (entry.seen[h] & within(from + 32 * h, row.first, row.end)) >> 2 * part();
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n) {
        const uint32_t first = 8 * (key_warp() * kKeyTiles + n), bits = (first < 32 ? seen[0] : seen[1]) >> first % 32;
        for (uint32_t e = 0; e < 2; ++e)
          if ((bits >> e & 1) == 0) scores[r / 2][n][r % 2 * 2 + e] = -infinity();
      }
    }
  }

  // Turns scores, which are in units of `scale`, into rounded weights relative to the new maximum, and rescales the
  // values. The product with the scale is rounded once in the maximum and not at all in the difference: the highest
  // weight is 1 after rounding anyway.
  __device__ void weigh(const float (&scores)[kRowTiles][kKeyTiles][4], float scale,
                        uint32_t (&weights)[kRowTiles][4][4]) {
    float most[kRows];
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
      most[r] = -infinity();
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (uint32_t e = 0; e < 2; ++e) most[r] = fmaxf(most[r], scores[r / 2][n][r % 2 * 2 + e]);
      most[r] = fmaxf(most[r], shuffle_xor(most[r], 1));
      most[r] = fmaxf(most[r], shuffle_xor(most[r], 2));
    }
    if constexpr (kShape.key_warps > 1) most_of_warps(most);
    float base[kRows], keep[kRows];
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
      const float highest = fmaxf(rows_[r].highest, most[r] * scale);
      base[r] = highest == -infinity() ? 0 : highest;  // all weights are 0 then
      keep[r] = exp2_of(rows_[r].highest - base[r]);
      rows_[r].highest = highest;
    }
#pragma unroll
    for (uint32_t t = 0; t < kRowTiles; ++t) {
      if (keep[2 * t] == 1 && keep[2 * t + 1] == 1) continue;  // a product with 1 has the same bits
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) sums_[t][e] *= keep[2 * t + e / 2];
#pragma unroll
      for (uint32_t i = 0; i < kTiles; ++i)
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) values_[t][i][e] *= keep[2 * t + e / 2];
    }
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n) {
        const float(&s)[4] = scores[r / 2][n];
        weights[r / 2][n / 2][n % 2 * 2 + r % 2] =
            pack_halves(exp2_of(fmaf(s[r % 2 * 2], scale, -base[r])), exp2_of(fmaf(s[r % 2 * 2 + 1], scale, -base[r])));
      }
    if constexpr (kShape.key_warps > 1) {
      const uint32_t(&mine)[4] = weights[0][0];
      *reinterpret_cast<Word4*>(exchange().weights[key_warp()][lane() % kWarp]) = {mine[0], mine[1], mine[2], mine[3]};
    }
  }
  // Each warp computes 16 of the block's keys. The maximum does not depend on the order.
  __device__ void most_of_warps(float (&most)[kRows]) const {
    static_assert(kShape.key_warps == 1 || (kShape.key_warps == 4 && kShape.n_rows() == 16));
    for (uint32_t r = 0; r < 2; ++r)
      if (part() == 0) exchange().highest[key_warp()][8 * r + quad()] = most[r];
    sync_group();
    for (uint32_t r = 0; r < 2; ++r)
      for (uint32_t warp = 0; warp < 4; ++warp) most[r] = fmaxf(most[r], exchange().highest[warp][8 * r + quad()]);
  }
  __device__ void read_weights(uint32_t (&weights)[kRowTiles][4][4]) const {
    for (uint32_t i = 0; i < 4; ++i) {
      const Word4 w = *reinterpret_cast<const Word4*>(exchange().weights[i][lane() % kWarp]);
      weights[0][i][0] = w.x;
      weights[0][i][1] = w.y;
      weights[0][i][2] = w.z;
      weights[0][i][3] = w.w;
    }
  }

  // The sums are products with a column of ones, so they are sums of the rounded weights.
  __device__ void add_values(uint32_t half, const uint32_t (&weights)[kRowTiles][4][4]) {
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
        for (uint32_t m = 0; m < 2; ++m)
#pragma unroll
          for (uint32_t t = 0; t < kRowTiles; ++t)
#pragma unroll
            for (uint32_t n = 0; n < kAtOnce; ++n)
              multiply_f16(values_[t][i + n], weights[t][2 * k + m], v[n][2 * m], v[n][2 * m + 1]);
      }
#pragma unroll
      for (uint32_t m = 0; m < 2; ++m)
#pragma unroll
        for (uint32_t t = 0; t < kRowTiles; ++t) multiply_f16(sums_[t], weights[t][2 * k + m], kOne, kOne);
    }
  }

  __device__ void begin_split() {
    for (FlashState& row : rows_) row.highest = -infinity();
#pragma unroll
    for (uint32_t t = 0; t < kRowTiles; ++t)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        sums_[t][e] = 0;
#pragma unroll
        for (uint32_t i = 0; i < kTiles; ++i) values_[t][i][e] = 0;
      }
  }
  __device__ void end_split() {
#pragma unroll
    for (uint32_t t = 0; t < kRowTiles; ++t) {
      Merge m[2];
      for (uint32_t r = 0; r < 2; ++r) {
        FlashState& row = rows_[2 * t + r];
        m[r] = merged<Base2>(row.before, {row.highest, sums_[t][2 * r]});
        row.before = m[r].after;
      }
#pragma unroll
      for (uint32_t i = 0; i < kTiles; ++i)
        set_total(t * kTiles + i, merged_values(m[0], m[1], total(t * kTiles + i), values_[t][i]));
    }
    begin_split();
  }
  static __device__ Word4 merged_values(const Merge& first, const Merge& second, const Word4& all,
                                        const float (&part)[4]) {
    return {bits_of(merged_value(first, float_of(all.x), part[0])),
            bits_of(merged_value(first, float_of(all.y), part[1])),
            bits_of(merged_value(second, float_of(all.z), part[2])),
            bits_of(merged_value(second, float_of(all.w), part[3]))};
  }

  const Params& step_;
  FlashTile tile_;
  FlashState rows_[kRows];
  Word4 query_[kShape.holds_query() ? kRowTiles * kSteps : 1];
  // Of this split, as the mma has them. The columns of sums_ are equal.
  float sums_[kRowTiles][4], values_[kRowTiles][kTiles][4];
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

/// Splits [begin, end).
struct FlashSplits {
  uint32_t begin, end;
};
__device__ inline FlashSplits splits_of(const Span& span) {
  if (span.end <= span.first) return {0, 1};  // one that sees nothing
  return {flash_split_of(span.first / kBlockTokens), flash_split_of((span.end - 1) / kBlockTokens) + 1};
}

/// Counts a split whose result this block has written, and returns whether all n are there now, for this block to read.
/// The counter is 0 again afterwards: the next kernel that uses it waits for this one.
__device__ inline bool completes(uint32_t* counter, uint32_t n, uint32_t& is_last) {
  sync_group();  // all threads have written
  if (lane() == 0) {
    fence();
    is_last = atomic_add(counter, 1) + 1 == n ? 1 : 0;
    if (is_last != 0) {
      *counter = 0;
      fence();  // before the reads of all threads, which the barrier delays
    }
  }
  sync_group();
  return is_last != 0;
}

/// Merges the splits of a tile of one token with the operations of Flash::run(), in the same order.
__device__ inline void merge_parts(const Params& step, const FlashTile& tile, const FlashSplits& splits) {
  constexpr uint32_t kAtOnce = 16;  // their loads do not wait for each other
  const FlashParts parts(step);
  const uint32_t n_pairs = parts.v_dim / 2;
  for (uint32_t i = lane(); i < tile.n_heads * n_pairs; i += n_lanes()) {
    const uint32_t head = tile.head + i / n_pairs, column = i % n_pairs * 2;
    Softmax all = empty_softmax();
    float a = 0, b = 0;
    for (uint32_t from = splits.begin; from < splits.end; from += kAtOnce) {
      Word2 states[kAtOnce], values[kAtOnce];
#pragma unroll
      for (uint32_t n = 0; n < kAtOnce; ++n) {
        const uint64_t part = parts.index_of(tile.token, head, min_of(from + n, splits.end - 1));
        states[n] = *at<Word2>(parts.state(part));
        values[n] = *at<Word2>(parts.value(part, column));
      }
#pragma unroll
      for (uint32_t n = 0; n < kAtOnce; ++n) {
        if (from + n >= splits.end) break;
        const Merge m = merged<Base2>(all, {float_of(states[n].x), float_of(states[n].y)});
        a = merged_value(m, a, float_of(values[n].x));
        b = merged_value(m, b, float_of(values[n].y));
        all = m.after;
      }
    }
    const float factor = final_factor<Base2>(step, all, head);
    const uint64_t y = row_of(step.y, head, tile.token, 0) + 4 * column;
    *at<Word2>(y) = {bits_of(final_value(factor, a)), bits_of(final_value(factor, b))};
  }
}

/// A block computes up to 16 query heads of a KV head: some splits of one token, of which the last block merges all; or
/// all splits of tokens that attention_flash_<dim> left, or of all tokens. The order of splits and operations is the
/// same in each case.
template <FlashShape kShape>
__device__ inline void flash_few(const Params& step, uint32_t group) {
  const uint32_t n_heads_kv = step.x[1].ne[2], n_shared = step.x[0].ne[1] / n_heads_kv;
  const uint32_t n_parts = (n_shared + kFewRows - 1) / kFewRows, n_tokens = step.x[0].ne[2];
  const bool is_by_split = (step.variant & kVariantSplits) != 0, is_left = (step.variant & kVariantLeftTiles) != 0;
  // All tokens' first splits come first, since the table may have room for many splits of which a sequence has few. A
  // division takes about as long as a load, so the usual case has one before the first load.
  const uint32_t n_few = n_heads_kv * n_parts, rest = group / n_few, few = group - rest * n_few;
  const uint32_t first_split = !is_by_split ? 0 : n_tokens == 1 ? rest : rest / n_tokens;
  const uint32_t first_token = is_by_split ? rest - first_split * n_tokens : rest;
  const uint32_t head_kv = n_parts == 1 ? few : few / n_parts, head = (few - head_kv * n_parts) * kFewRows;
  const auto is_needed = [&](uint32_t token) {
    const uint32_t n_tile_parts = (n_shared + step.u[8] - 1) / step.u[8];
    const uint32_t tile = (token / step.u[7] * n_heads_kv + head_kv) * n_tile_parts + head / step.u[8];
    return words(step.scratch)[tile] != 0;
  };
  if (is_left) {  // mostly there is nothing to do: the lanes of each warp look at different tokens
    uint32_t needs = 0;
    for (uint32_t token = first_token + lane() % kWarp * step.u[10]; token < n_tokens; token += kWarp * step.u[10])
      needs |= is_needed(token) ? 1u : 0u;
    for (uint32_t mask = 16; mask > 0; mask /= 2) needs |= shuffle_xor(needs, mask);
    if (needs == 0) return;
  }
  for (uint32_t token = first_token; token < n_tokens; token += is_by_split ? n_tokens : step.u[10]) {
    if (is_left && !is_needed(token)) continue;
    const FlashTile tile = {head_kv, head_kv * n_shared + head, min_of(kFewRows, n_shared - head), token, 1};
    const Span span = span_of(step, token, lane() == 0);
    const FlashSplits splits = is_by_split ? splits_of(span) : FlashSplits{0, 1};
    const bool is_alone = splits.end - splits.begin == 1;
    for (uint32_t split = splits.begin + first_split; split < splits.end; split += step.u[10]) {
      Flash<kShape> flash(step, tile, span);
      flash.run(is_alone ? 0 : flash_split_begin(split), is_alone ? step.x[5].ne[0] : flash_split_begin(split + 1));
      if (is_alone) {
        flash.write();
        continue;
      }
      flash.write_part(split);
      uint32_t* counter = words(step.extra) + step.u[11] + token * n_few + few;
      if (completes(counter, splits.end - splits.begin, flash.room().is_left)) merge_parts(step, tile, splits);
    }
  }
}

}  // namespace tessera::cuda
