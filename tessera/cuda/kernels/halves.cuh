// Weights as f16 for the matrix units. A piece is eight adjacent columns of a row, as four words of two f16: column 0
// in the lower half of the first word. Every kernel decodes a format with the same operations, so the bits of a weight
// do not depend on the kernel.
//
// Integers become f16 without conversions: 0x6400 | q is 1024 + q for 0 <= q < 1024, from which 1024 and the format's
// zero point are subtracted exactly.
#pragma once

#include <type_traits>

#include "tessera/cuda/kernels/device.cuh"
#include "tessera/cuda/kernels/formats.cuh"

namespace tessera::cuda {

/// Columns of a piece, of a block (two steps of the matrix units) and of a segment, whose sums are separate.
constexpr uint32_t kPiece = 8, kBlock = 32, kSegment = 256, kBlocksPerSegment = kSegment / kBlock;
/// Stands for all formats: which one is known at run time.
constexpr uint32_t kAnyFormat = 0xffff;

/// Four bytes of codes as f16, minus `zero` (1024 + zero point, in both halves): two words.
__device__ inline void halves_of_codes(uint32_t codes, uint32_t zero, uint32_t& low, uint32_t& high) {
  low = sub_halves(select_bytes(codes, 0x64646464u, 0x4140u), zero);
  high = sub_halves(select_bytes(codes, 0x64646464u, 0x4342u), zero);
}
/// The scale is the low half.
__device__ inline void scaled_codes(Word2 codes, uint32_t zero, uint32_t scale, uint32_t (&v)[4]) {
  halves_of_codes(codes.x, zero, v[0], v[1]);
  halves_of_codes(codes.y, zero, v[2], v[3]);
  for (uint32_t n = 0; n < 4; ++n) v[n] = mul_by_half<0>(v[n], scale);
}
__device__ inline void scaled_codes_plus(Word2 codes, uint32_t scale, uint32_t offset, uint32_t (&v)[4]) {
  halves_of_codes(codes.x, 0x64006400u, v[0], v[1]);
  halves_of_codes(codes.y, 0x64006400u, v[2], v[3]);
  for (uint32_t n = 0; n < 4; ++n) v[n] = fma_halves(v[n], scale, offset);
}

/// Reads of bytes at an address that is a multiple of 2. Only words that contain some of the bytes are read.
struct Bytes8 {
  uint32_t w[3];
  uint32_t shift;

  __device__ void load(uint64_t a) {
    shift = static_cast<uint32_t>(a & 2) * 8;
    const uint64_t base = a & ~uint64_t{3};
    w[0] = load_weights4(at<void>(base));
    w[1] = load_weights4(at<void>(base + 4));
    w[2] = shift == 0 ? 0 : load_weights4(at<void>(base + 8));
  }
  __device__ Word2 get() const { return {funnel_right(w[0], w[1], shift), funnel_right(w[1], w[2], shift)}; }
};
__device__ inline uint32_t load_half(uint64_t a) {
  return load_weights4(at<void>(a & ~uint64_t{3})) >> static_cast<uint32_t>(a & 2) * 8 & 0xffffu;
}
__device__ inline uint32_t load_byte(uint64_t a) {
  return load_weights4(at<void>(a & ~uint64_t{3})) >> static_cast<uint32_t>(a & 3) * 8 & 255u;
}
__device__ inline Word2 nibbles(Word2 codes, uint32_t shift) {
  return {codes.x >> shift & 0x0f0f0f0fu, codes.y >> shift & 0x0f0f0f0fu};
}

// The decoders proper. Each has a Piece, for single pieces, and a Segment, for the pieces of a lane in a whole segment
// of a row: get(b) returns its piece of block b, for b in order. Lane part t = 0 to 3 has the columns 8 t to 8 t + 7 of
// every block, in order or, if the segment is split, as the pairs (0, 2), (1, 3), (4, 6) and (5, 7).
// A Segment of f16 or any format reads the row in global memory. Those of the other formats read kBytes of the row that
// a warp has copied to shared memory, because their words are too narrow for fast reads of global memory.

/// A piece of any format. Not inlined: its 28 cases would be repeated for every piece of a kernel.
__device__ __noinline__ static Word4 halves_of_any(uint32_t format, uint64_t tables, uint64_t row, uint32_t i,
                                                   uint32_t count) {
  float f[8];
  decode8_of(format, tables, row, i, count, f);
  return {pack_halves(f[0], f[1]), pack_halves(f[2], f[3]), pack_halves(f[4], f[5]), pack_halves(f[6], f[7])};
}

/// Formats without a decoder of their own: by way of floats.
template <uint32_t kFormat>
struct Decoder {
  static_assert(kFormat == kAnyFormat);

  struct Piece {
    uint64_t row;
    uint32_t column;

    __device__ void load(uint64_t of_row, uint32_t first) {
      row = of_row;
      column = first;
    }
    __device__ void get(const Params& step, uint32_t (&v)[4]) const {
      const uint32_t count = min_of(step.x[0].ne[0] - column, kPiece);
      const Word4 words = halves_of_any(step.format, step.tables, row, column, count);
      v[0] = words.x;
      v[1] = words.y;
      v[2] = words.z;
      v[3] = words.w;
    }
  };
  struct Segment {
    static constexpr bool kIsSplit = false;
    uint64_t row;
    uint32_t column;

    __device__ void load(uint64_t of_row, uint32_t segment, uint32_t, uint32_t t) {
      row = of_row;
      column = segment * kSegment + t * kPiece;
    }
    __device__ void get(const Params& step, uint32_t b, uint32_t (&v)[4]) const {
      Piece piece;
      piece.load(row, column + b * kBlock);
      if (piece.column < step.x[0].ne[0]) {
        piece.get(step, v);
      } else {
        for (uint32_t n = 0; n < 4; ++n) v[n] = 0;
      }
    }
  };
};

/// Rows of whole pieces that begin at multiples of 16 bytes.
template <>
struct Decoder<kFormat_f16> {
  struct Piece {
    Word4 words;

    __device__ void load(uint64_t row, uint32_t i) { words = load_weights16(at<void>(row + uint64_t{i} * 2)); }
    __device__ void get(const Params&, uint32_t (&v)[4]) const {
      v[0] = words.x;
      v[1] = words.y;
      v[2] = words.z;
      v[3] = words.w;
    }
  };
  struct Segment {
    static constexpr bool kIsSplit = false;
    Word4 words[kBlocksPerSegment];

    __device__ void load(uint64_t row, uint32_t segment, uint32_t n_blocks, uint32_t t) {
      const uint64_t from = row + uint64_t{segment * kSegment + t * kPiece} * 2;
#pragma unroll
      for (uint32_t b = 0; b < kBlocksPerSegment; ++b)
        words[b] = b < n_blocks ? load_weights16(at<void>(from + b * kBlock * 2)) : Word4{0, 0, 0, 0};
    }
    __device__ void get(const Params&, uint32_t b, uint32_t (&v)[4]) const {
      v[0] = words[b].x;
      v[1] = words[b].y;
      v[2] = words[b].z;
      v[3] = words[b].w;
    }
  };
};

/// Reads shared memory at an even address, and at multiples of four bytes from there.
struct EvenReader {
  const uint32_t* words;
  uint32_t shift;

  __device__ void open(const unsigned char* from) {
    const auto odd = static_cast<uint32_t>(reinterpret_cast<uint64_t>(from) & 2);
    words = reinterpret_cast<const uint32_t*>(from - odd);
    shift = odd * 8;
  }
  __device__ uint32_t half(uint32_t offset) const { return words[offset / 4] >> shift & 0xffffu; }
  __device__ uint32_t word(uint32_t offset) const {
    const uint32_t* w = words + offset / 4;
    return funnel_right(w[0], w[1], shift);
  }
  __device__ Word2 eight(uint32_t offset) const { return {word(offset), word(offset + 4)}; }
};

/// Segments of formats whose block is a scale and codes, in an odd number of 2-byte units. So even blocks are at
/// multiples of four bytes from the first one, and odd blocks from the second.
template <uint32_t kBlockBytes, bool kIsNibbles, uint32_t kZero>
struct ScaledSegment {
  static constexpr uint32_t kBytes = kBlocksPerSegment * kBlockBytes;
  static constexpr bool kIsSplit = false;
  const unsigned char* scales;
  EvenReader codes[2];
  uint32_t shift;

  __device__ void open(const unsigned char* row, uint32_t t) {
    shift = t / 2 * 4;
    scales = row;
    for (uint32_t odd = 0; odd < 2; ++odd)
      codes[odd].open(row + odd * kBlockBytes + 2 + (kIsNibbles ? t % 2 : t) * kPiece);
  }
  __device__ void get(uint32_t b, uint32_t (&v)[4]) const {
    Word2 q = codes[b % 2].eight(b / 2 * 2 * kBlockBytes);
    if constexpr (kIsNibbles) {
      q = nibbles(q, shift);
    } else {
      q = {q.x ^ 0x80808080u, q.y ^ 0x80808080u};
    }
    scaled_codes(q, kZero, *reinterpret_cast<const uint16_t*>(scales + b * kBlockBytes), v);
  }
};

/// The same for rows at multiples of 16 bytes: the place of each block in its words is known, so words are read at once
/// where that is possible.
template <uint32_t kBlockBytes, bool kIsNibbles, uint32_t kZero>
struct AlignedScaledSegment {
  static constexpr uint32_t kBytes = kBlocksPerSegment * kBlockBytes;
  static_assert(kBytes % 16 == 0);
  static constexpr bool kIsSplit = false;
  const unsigned char *row, *codes;
  uint32_t shift;

  __device__ void open(const unsigned char* from, uint32_t t) {
    shift = t / 2 * 4;
    row = from;
    codes = from + (kIsNibbles ? t % 2 : t) * kPiece;
  }
  __device__ void get(uint32_t b, uint32_t (&v)[4]) const {
    const uint32_t at = b * kBlockBytes + 2;
    const auto word = [&](uint32_t offset) { return *reinterpret_cast<const uint32_t*>(codes + offset); };
    const auto words = [&](uint32_t offset) { return *reinterpret_cast<const Word2*>(codes + offset); };
    Word2 q;
    switch (at % 8) {
      case 0:
        q = words(at);
        break;
      case 4:
        q = {word(at), word(at + 4)};
        break;
      case 2: {
        const Word2 first = words(at - 2);
        q = {funnel_right(first.x, first.y, 16), funnel_right(first.y, word(at + 6), 16)};
        break;
      }
      default: {
        const Word2 last = words(at + 2);
        q = {funnel_right(word(at - 2), last.x, 16), funnel_right(last.x, last.y, 16)};
        break;
      }
    }
    if constexpr (kIsNibbles) {
      q = nibbles(q, shift);
    } else {
      q = {q.x ^ 0x80808080u, q.y ^ 0x80808080u};
    }
    scaled_codes(q, kZero, *reinterpret_cast<const uint16_t*>(row + b * kBlockBytes), v);
  }
};

/// Four codes of a segment as f16, minus kZero: those of bytes 0 and 2, and those of bytes 1 and 3. A code is a nibble
/// of its byte in `nibbles`, and kHighBits bits above it, of the same byte in `high` from bit `high_at` on. The upper
/// nibbles are not shifted: as f16 they are 16 times the code.
template <uint32_t kHighBits, uint32_t kZero>
__device__ inline void split_codes(uint32_t nibbles, uint32_t high, bool is_upper, uint32_t high_at, uint32_t& even,
                                   uint32_t& odd) {
  const uint32_t first = is_upper ? 4 : 0, mask = 0x000f000fu << first;
  even = and_or(nibbles, mask, 0x64006400u);
  odd = and_or(nibbles >> 8, mask, 0x64006400u);
  if constexpr (kHighBits > 0) {
    constexpr uint32_t kHigh = (1u << kHighBits) - 1;
    const uint32_t to = first + 4, high_mask = kHigh << to | kHigh << (16 + to);
    even = and_or(high_at < to ? high << (to - high_at) : high >> (high_at - to), high_mask, even);
    odd = and_or(high >> (high_at + 8 - to), high_mask, odd);
  }
  if (is_upper) {
    constexpr uint32_t kSixteenth = 0x2c002c00u, kMinusZero = 0xd400u + 16 * kZero;  // -(64 + kZero)
    even = fma_halves(even, kSixteenth, kMinusZero | kMinusZero << 16);
    odd = fma_halves(odd, kSixteenth, kMinusZero | kMinusZero << 16);
  } else {
    constexpr uint32_t kOffset = 0x6400u + kZero;
    even = sub_halves(even, kOffset | kOffset << 16);
    odd = sub_halves(odd, kOffset | kOffset << 16);
  }
}

template <>
struct Decoder<kFormat_q8_0> {
  struct Piece {
    Bytes8 codes;
    uint32_t d;

    __device__ void load(uint64_t row, uint32_t i) {
      const uint64_t block = row + uint64_t{i / kElements_q8_0} * kBytes_q8_0;
      d = load_half(block);
      codes.load(block + 2 + i % kElements_q8_0);
    }
    __device__ void get(const Params&, uint32_t (&v)[4]) const {
      const Word2 q = codes.get();
      scaled_codes({q.x ^ 0x80808080u, q.y ^ 0x80808080u}, 0x64806480u, d, v);
    }
  };
  using Segment = ScaledSegment<kBytes_q8_0, false, 0x64806480u>;
  using AlignedSegment = AlignedScaledSegment<kBytes_q8_0, false, 0x64806480u>;
};

template <>
struct Decoder<kFormat_q4_0> {
  struct Piece {
    Bytes8 codes;
    uint32_t d, shift;

    __device__ void load(uint64_t row, uint32_t i) {
      const uint64_t block = row + uint64_t{i / kElements_q4_0} * kBytes_q4_0;
      d = load_half(block);
      shift = (i & 16) / 4;
      codes.load(block + 2 + (i & 8));
    }
    __device__ void get(const Params&, uint32_t (&v)[4]) const {
      scaled_codes(nibbles(codes.get(), shift), 0x64086408u, d, v);
    }
  };
  using Segment = ScaledSegment<kBytes_q4_0, true, 0x64086408u>;
  using AlignedSegment = AlignedScaledSegment<kBytes_q4_0, true, 0x64086408u>;
};

/// The scale and the offset of a sub-block of q4_k and q5_k in both halves, from the first 16 bytes of the block.
struct ScaleAndOffset {
  uint32_t scale, offset;
};
__device__ inline ScaleAndOffset k_scale(const Word4& head, uint32_t b) {
  const uint32_t at = 8 * (b & 3), y = head.y >> at & 255, z = head.z >> at & 255, w = head.w >> at & 255;
  const uint32_t s = b < 4 ? y & 63 : (w & 15) | y >> 6 << 4;
  const uint32_t m = b < 4 ? z & 63 : w >> 4 | z >> 6 << 4;
  const float a = low_half(head.x) * static_cast<float>(s), c = high_half(head.x) * static_cast<float>(m);
  return {pack_halves(a, a), pack_halves(-c, -c)};
}

/// q4_k and q5_k, in rows that begin at multiples of 16 bytes.
template <bool kHasFifth>
struct KDecoder {
  static constexpr uint32_t kBytes = kHasFifth ? kBytes_q5_k : kBytes_q4_k, kHigh = 16, kCodes = kHasFifth ? 48 : 16;

  __device__ static Word2 with_fifth(Word2 q, Word2 high, uint32_t b) {
    if constexpr (kHasFifth) {
      q.x |= (high.x >> b & 0x01010101u) << 4;
      q.y |= (high.y >> b & 0x01010101u) << 4;
    }
    return q;
  }
  __device__ static void decode(const Word4& head, Word2 codes, Word2 high, uint32_t b, uint32_t (&v)[4]) {
    const ScaleAndOffset k = k_scale(head, b);
    scaled_codes_plus(with_fifth(nibbles(codes, b % 2 * 4), high, b), k.scale, k.offset, v);
  }

  struct Piece {
    Word4 head;
    Word2 codes, high;
    uint32_t b;

    __device__ void load(uint64_t row, uint32_t i) {
      const uint64_t block = row + uint64_t{i / 256} * kBytes;
      b = i % 256 / 32;
      head = load_weights16(at<void>(block));
      codes = load_weights8(at<void>(block + kCodes + 32 * (b / 2) + i % 32));
      if constexpr (kHasFifth) high = load_weights8(at<void>(block + kHigh + i % 32));
    }
    __device__ void get(const Params&, uint32_t (&v)[4]) const { decode(head, codes, high, b, v); }
  };
  /// The scales of a row are computed once by the four lanes that read it: two sub-blocks each.
  struct Segment {
    static constexpr uint32_t kBytes = KDecoder::kBytes;
    static constexpr bool kIsSplit = true;
    const unsigned char* codes;
    uint32_t scales, offsets;  // of sub-blocks 2 t and 2 t + 1
    uint32_t scale, offset;    // of the two blocks at hand
    Word2 pair, high;

    __device__ void open(const unsigned char* row, uint32_t t) {
      const Word4 head = *reinterpret_cast<const Word4*>(row);
      codes = row + kCodes + kPiece * t;
      constexpr uint32_t kSix = 0x3f3f3f3fu, kFour = 0x0f0f0f0fu, kTwo = 0x30303030u;
      const bool is_first = t < 2;  // of the two words of four scales
      const uint32_t s = is_first ? head.y & kSix : (head.w & kFour) | (head.y >> 2 & kTwo);
      const uint32_t m = is_first ? head.z & kSix : (head.w >> 4 & kFour) | (head.z >> 2 & kTwo);
      const uint32_t selector = t % 2 == 0 ? 0x4140u : 0x4342u;
      scales = mul_by_half<0>(sub_halves(select_bytes(s, 0x64646464u, selector), 0x64006400u), head.x);
      offsets = mul_by_half<1>(sub_halves(0x64006400u, select_bytes(m, 0x64646464u, selector)), head.x);
      high = {};
      if constexpr (kHasFifth) high = *reinterpret_cast<const Word2*>(row + kHigh + kPiece * t);
    }
    __device__ void get(uint32_t b, uint32_t (&v)[4]) {
      const bool is_upper = b % 2 == 1;
      if (!is_upper) {
        pair = *reinterpret_cast<const Word2*>(codes + b / 2 * 32);
        scale = shuffle_four(scales, b / 2);
        offset = shuffle_four(offsets, b / 2);
      }
      split_codes<kHasFifth ? 1 : 0, 0>(pair.x, high.x, is_upper, b, v[0], v[1]);
      split_codes<kHasFifth ? 1 : 0, 0>(pair.y, high.y, is_upper, b, v[2], v[3]);
      for (uint32_t n = 0; n < 4; ++n)
        v[n] = is_upper ? fma_by_half<1>(v[n], scale, offset) : fma_by_half<0>(v[n], scale, offset);
    }
  };
};
template <>
struct Decoder<kFormat_q4_k> : KDecoder<false> {};
template <>
struct Decoder<kFormat_q5_k> : KDecoder<true> {};

template <>
struct Decoder<kFormat_q6_k> {
  __device__ static void decode(Word2 low, Word2 high, uint32_t scale, uint32_t d, uint32_t b, uint32_t (&v)[4]) {
    const uint32_t group = b % 4;
    Word2 q = nibbles(low, group / 2 * 4);
    q.x |= (high.x >> 2 * group & 0x03030303u) << 4;
    q.y |= (high.y >> 2 * group & 0x03030303u) << 4;
    const float a = low_half(d) * static_cast<float>(static_cast<int32_t>(scale << 24) >> 24);
    scaled_codes(q, 0x64206420u, pack_halves(a, a), v);
  }

  struct Piece {
    Bytes8 low, high;
    uint32_t scale, d, b;

    __device__ void load(uint64_t row, uint32_t i) {
      const uint64_t block = row + uint64_t{i / 256} * kBytes_q6_k;
      b = i % 256 / 32;
      low.load(block + 64 * (b / 4) + 32 * (b & 1) + i % 32);
      high.load(block + 128 + 32 * (b / 4) + i % 32);
      scale = load_byte(block + 192 + i % 256 / 16);
      d = load_half(block + 208);
    }
    __device__ void get(const Params&, uint32_t (&v)[4]) const { decode(low.get(), high.get(), scale, d, b, v); }
  };
  struct Segment {
    static constexpr uint32_t kBytes = kBytes_q6_k;
    static constexpr bool kIsSplit = true;
    EvenReader codes, scales;
    uint32_t d, selector;  // the selector of the scales of this lane's 16 columns of two blocks
    uint32_t scale;        // of the two blocks at hand
    Word2 low[2], high;    // of the four blocks at hand

    __device__ void open(const unsigned char* row, uint32_t t) {
      codes.open(row + kPiece * t);
      scales.open(row + 192);
      d = scales.half(16);
      selector = t < 2 ? 0x4240u : 0x4341u;
    }
    __device__ void get(uint32_t b, uint32_t (&v)[4]) {
      if (b % 4 == 0) {
        for (uint32_t n = 0; n < 2; ++n) low[n] = codes.eight(64 * (b / 4) + 32 * n);
        high = codes.eight(128 + 32 * (b / 4));
      }
      if (b % 2 == 0) {
        const uint32_t signed_bytes = scales.word(2 * b) ^ 0x80808080u;
        scale = mul_by_half<0>(sub_halves(select_bytes(signed_bytes, 0x64646464u, selector), 0x64806480u), d);
      }
      const bool is_upper = b % 4 >= 2;
      split_codes<2, 32>(low[b % 2].x, high.x, is_upper, 2 * (b % 4), v[0], v[1]);
      split_codes<2, 32>(low[b % 2].y, high.y, is_upper, 2 * (b % 4), v[2], v[3]);
      for (uint32_t n = 0; n < 4; ++n) v[n] = b % 2 == 1 ? mul_by_half<1>(v[n], scale) : mul_by_half<0>(v[n], scale);
    }
  };
};

/// The Segment of a format for rows at multiples of kAlignment.
template <uint32_t kFormat, uint32_t kAlignment, class = void>
struct SegmentOf {
  using Type = typename Decoder<kFormat>::Segment;
};
template <uint32_t kFormat>
struct SegmentOf<kFormat, 16, std::void_t<typename Decoder<kFormat>::AlignedSegment>> {
  using Type = typename Decoder<kFormat>::AlignedSegment;
};

}  // namespace tessera::cuda
