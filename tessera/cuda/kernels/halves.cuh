// Weights as f16 for the matrix units. A piece is eight adjacent columns of a row, as four words of two f16: column 0
// in the lower half of the first word. Every kernel decodes a format with the same operations, so the bits of a weight
// do not depend on the kernel.
//
// Integers become f16 without conversions: 0x6400 | q is 1024 + q for 0 <= q < 1024, from which 1024 and the format's
// zero point are subtracted exactly.
#pragma once

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
__device__ inline void scaled_codes(Word2 codes, uint32_t zero, uint32_t scale, uint32_t (&v)[4]) {
  halves_of_codes(codes.x, zero, v[0], v[1]);
  halves_of_codes(codes.y, zero, v[2], v[3]);
  for (uint32_t n = 0; n < 4; ++n) v[n] = mul_halves(v[n], scale);
}
__device__ inline void scaled_codes_plus(Word2 codes, uint32_t scale, uint32_t offset, uint32_t (&v)[4]) {
  halves_of_codes(codes.x, 0x64006400u, v[0], v[1]);
  halves_of_codes(codes.y, 0x64006400u, v[2], v[3]);
  for (uint32_t n = 0; n < 4; ++n) v[n] = fma_halves(v[n], scale, offset);
}
__device__ inline uint32_t twice(uint32_t half) { return (half & 0xffffu) | half << 16; }

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
// of a row: get(b) returns its piece of block b. Lane part t = 0 to 3 has the columns 8 t to 8 t + 7 of every block.
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
  __device__ Word2 eight(uint32_t offset) const {
    const uint32_t* w = words + offset / 4;
    return {funnel_right(w[0], w[1], shift), funnel_right(w[1], w[2], shift)};
  }
};

/// Segments of formats whose block is a scale and codes, in an odd number of 2-byte units. So even blocks are at
/// multiples of four bytes from the first one, and odd blocks from the second.
template <uint32_t kBlockBytes, bool kIsNibbles, uint32_t kZero>
struct ScaledSegment {
  static constexpr uint32_t kBytes = kBlocksPerSegment * kBlockBytes;
  EvenReader scales[2], codes[2];
  uint32_t shift;

  __device__ void open(const unsigned char* row, uint32_t t) {
    shift = t / 2 * 4;
    for (uint32_t odd = 0; odd < 2; ++odd) {
      scales[odd].open(row + odd * kBlockBytes);
      codes[odd].open(row + odd * kBlockBytes + 2 + (kIsNibbles ? t % 2 : t) * kPiece);
    }
  }
  __device__ void get(uint32_t b, uint32_t (&v)[4]) const {
    const uint32_t offset = b / 2 * 2 * kBlockBytes;
    Word2 q = codes[b % 2].eight(offset);
    if constexpr (kIsNibbles) {
      q = nibbles(q, shift);
    } else {
      q = {q.x ^ 0x80808080u, q.y ^ 0x80808080u};
    }
    scaled_codes(q, kZero, twice(scales[b % 2].half(offset)), v);
  }
};

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
      scaled_codes({q.x ^ 0x80808080u, q.y ^ 0x80808080u}, 0x64806480u, twice(d), v);
    }
  };
  using Segment = ScaledSegment<kBytes_q8_0, false, 0x64806480u>;
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
      scaled_codes(nibbles(codes.get(), shift), 0x64086408u, twice(d), v);
    }
  };
  using Segment = ScaledSegment<kBytes_q4_0, true, 0x64086408u>;
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
    const unsigned char* codes;
    uint32_t scales[2];  // of sub-blocks 2 t and 2 t + 1: the scale in the lower half, the offset in the upper one
    Word2 high;

    __device__ void open(const unsigned char* row, uint32_t t) {
      const Word4 head = *reinterpret_cast<const Word4*>(row);
      codes = row + kCodes + kPiece * t;
      for (uint32_t n = 0; n < 2; ++n) {
        const ScaleAndOffset k = k_scale(head, 2 * t + n);
        scales[n] = select_bytes(k.scale, k.offset, 0x5410u);
      }
      high = {};
      if constexpr (kHasFifth) high = *reinterpret_cast<const Word2*>(row + kHigh + kPiece * t);
    }
    __device__ void get(uint32_t b, uint32_t (&v)[4]) const {
      const uint32_t both = shuffle(scales[b % 2], lane() / 4 * 4 % kWarp + b / 2);
      const Word2 pair = *reinterpret_cast<const Word2*>(codes + b / 2 * 32);
      scaled_codes_plus(with_fifth(nibbles(pair, b % 2 * 4), high, b), select_bytes(both, both, 0x1010u),
                        select_bytes(both, both, 0x3232u), v);
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
    EvenReader codes;
    const unsigned char* scales;  // of the 16 columns of each block that this lane has a part of
    uint32_t d;

    __device__ void open(const unsigned char* row, uint32_t t) {
      EvenReader block;
      block.open(row);
      d = block.half(208);
      codes.open(row + kPiece * t);
      scales = row + 192 + t / 2;
    }
    __device__ void get(uint32_t b, uint32_t (&v)[4]) const {
      decode(codes.eight(64 * (b / 4) + 32 * (b & 1)), codes.eight(128 + 32 * (b / 4)), scales[2 * b], d, b, v);
    }
  };
};

}  // namespace tessera::cuda
