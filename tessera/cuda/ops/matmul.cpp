// Products with weights: a kernel for few tokens, and tiles for many, whose activations are converted to f16 first. All
// sum in the same order (kernels/matmul.cuh), so the bits of a token's results do not depend on the number of tokens.
#include "tessera/gpu/ops/matmul.h"

#include <algorithm>

#include "tessera/cuda/kernels.h"
#include "tessera/gpu/ops/dispatch.h"

namespace tessera::cuda {

namespace {

// As in kernels/matmul.cuh, matmul.cu and matmul_panels.cu.
constexpr int64_t kSegment = 256, kStageColumns = 64, kGroupRows = 16, kGroupTokens = 8;
constexpr int64_t kPreciseRows = 8, kPreciseTokens = 16;
constexpr int64_t kHalvesStride = kSegment * 2, kFloatsStride = kSegment * 4 + 16;  // bytes
constexpr uint32_t kHalvesThreads = 128;
// Warps of a block for few tokens. Weights that lanes read from global memory have more of them for long rows.
constexpr int64_t kRowsWarps = 8, kLongRowsWarps = 16;
constexpr int64_t kFewestWarps = 4;  // a thread for each result of a block
// Segments whose weights a warp has in shared memory at a time, in formats that are read from there. With two, the next
// one is requested before this one is multiplied.
constexpr int64_t kSegments = 2;
// Blocks for few tokens; each computes further rows after its first. As many as large GPUs run at a time: the registers
// of a multiprocessor have room for 16 warps.
constexpr int64_t kMultiprocessors = 132, kMostWarps = 16, kTwoRounds = 2;
constexpr int64_t kReservedBytes = 1024;  // of the shared memory, for each block

/// A kernel for tiles of so many rows and tokens.
struct TileKernel {
  Shader by_format, any, converted;
  int64_t n_rows, n_tokens;
  uint32_t n_threads;

  uint32_t shared_bytes() const {
    constexpr int64_t kStages = 4, kPanels = 2, kPanelRow = 64, kShift = 64;
    return static_cast<uint32_t>(kStages * kPanels * ((n_rows + n_tokens) * kPanelRow + 2 * kShift));
  }
};
constexpr TileKernel kLarge{
    Shader::matmul_panels, Shader::matmul_panels_any, Shader::matmul_panels_converted, 128, 128, 256};
constexpr TileKernel kSmall{
    Shader::matmul_small_panels, Shader::matmul_small_panels_any, Shader::matmul_small_panels_converted, 64, 64, 128};

// Kernels of matmul_wide.cu: tiles of 128 tokens and so many rows.
struct WideKernel {
  Shader f16, converted;
  int64_t n_rows, n_stages;

  static constexpr int64_t kTokens = 128;
  static constexpr uint32_t kThreads = 256;
  uint32_t shared_bytes() const {
    constexpr int64_t kAlignment = 1024, kRowBytes = kStageColumns * 2;
    return static_cast<uint32_t>(kAlignment + n_stages * (kTokens + n_rows) * kRowBytes);
  }
};
constexpr WideKernel kWide{Shader::matmul_wide_f16, Shader::matmul_wide_converted, 128, 6};
constexpr WideKernel kWideFew{Shader::matmul_wide_few_f16, Shader::matmul_wide_few_converted, 64, 4};
// Fewer tokens leave most of such a tile empty.
constexpr int64_t kFewestWideTokens = 65;
// Fewer tiles of 128 rows keep less of a large GPU busy than tiles of 64 rows, of which a multiprocessor has room for
// two.
constexpr int64_t kEnoughWideTiles = 192;

// Fewer large tiles leave multiprocessors of a large GPU idle. The number is fixed, so that a program's launches are
// the same on every device.
constexpr int64_t kEnoughTiles = 128;

// Float weights beyond f16 keep the precision of f32.
bool is_precise(const StepContext& context) {
  const DType dtype = context.spec(0).dtype;
  return context.is_precise || dtype == DType::f32 || dtype == DType::bf16;
}

struct Decoder {
  DType format;
  uint64_t alignment, plain_alignment;
  uint32_t columns;
  int64_t room;
};
constexpr Decoder kDecoders[] = {
#define TESSERA_DECODER(name, alignment, plain, columns, room) {DType::name, alignment, plain, columns, room},
#include "tessera/cuda/decoders.def"
};

uint64_t addresses_of(const OperandParams& rows) { return rows.data | rows.nb[1] | rows.nb[2] | rows.nb[3]; }

// The format's decoder of its own for rows at these addresses; null if it has none.
const Decoder* decoder_of(const OperandParams& rows, DType dtype) {
  const auto* const found = std::ranges::find_if(kDecoders, [&](const Decoder& decoder) {
    return decoder.format == dtype && addresses_of(rows) % decoder.alignment == 0 && rows.ne[0] % decoder.columns == 0;
  });
  return found == std::end(kDecoders) ? nullptr : found;
}

void choose(const StepContext& context, Step& step, Shader by_format, Shader any) {
  step.format = context.spec(0).dtype;
  step.is_by_format = decoder_of(step.params.x[0], step.format) != nullptr;
  step.shader = step.is_by_format ? by_format : any;
}

int64_t halves_bytes(const StepContext& context) { return round_up(context.spec(0).shape()[0], kStageColumns) * 2; }

// Each tile of tokens decodes the weights again. With this many tokens it is faster to write them as halves once, which
// also lets tiles be copied without registers. Experts have too many weights for that.
constexpr int64_t kConvertTokens = 256;

bool converts_weights(const StepContext& context, const Product& product) {
  return context.node.op == Op::mul_mat && product.n_tokens >= kConvertTokens && context.spec(0).dtype != DType::f16;
}

// Bytes of the activations and their scales in the scratch memory.
int64_t activation_bytes(const StepContext& context) {
  const Shape& x = context.spec(1).shape();
  const int64_t row_bytes = halves_bytes(context) + div_ceil(x[0], kSegment) * int64_t{sizeof(float)};
  return round_up(x.n_rows() * row_bytes, int64_t{256});
}

// Whether the kernels of matmul_wide.cu compute the product. They read f16 weights from the file, and others as
// converted.
bool is_wide(const StepContext& context, const Product& product, const Step& step) {
  if (!context.has_wide || context.node.op != Op::mul_mat || is_precise(context)) return false;
  if (context.spec(0).dtype == DType::f16 && decoder_of(step.params.x[0], DType::f16) != nullptr)
    return product.n_tokens >= kFewestWideTokens;
  return converts_weights(context, product);
}

void set_weights_offset(const StepContext& context, Step& step) {
  const auto offset = static_cast<uint64_t>(activation_bytes(context));
  step.params.x[8].ne = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 0, 0};
}

bool is_tiled(const StepContext& context, const Product& product) {
  return product.n_at_a_time > kGroupTokens && !is_precise(context);
}

// Sets what all kernels of products read.
Result<> set_product(const StepContext& context, const Product& product, int64_t group_rows, int64_t group_tokens,
                     Step& step) {
  const TensorSpec& weights = context.spec(0);
  const Buffer* memory = context.tensor(0).buffer;
  const bool is_constant = memory != nullptr && memory->usage() == BufferUsage::weights;
  const int64_t row_groups = div_ceil(weights.shape()[1], group_rows);
  const int64_t n_most = product.shares_tokens ? product.n_tokens : product.n_at_a_time;
  const int64_t n_shares = std::max<int64_t>(div_ceil(n_most, group_tokens), 1);
  const int64_t n_heads = context.node.op == Op::mul_mat_heads ? product.n_matrices : 1;
  const int64_t values[] = {row_groups,
                            n_shares,
                            product.n_matrices,
                            product.n_tokens,
                            product.x_token,
                            product.y_token,
                            product.x_head,
                            product.y_head,
                            product.pairs_per_token,
                            is_constant ? 1 : 0,
                            halves_bytes(context),
                            n_heads};
  for (size_t i = 0; i < std::size(values); ++i) step.params.u[i] = count(values[i]);
  return set_groups(step, row_groups * n_shares * product.n_matrices);
}

// Whether products in the precision of f32 copy weights to shared memory: floats in whole pieces of 32 bytes.
bool copies_floats(const StepContext& context, const Step& step) {
  return context.spec(0).dtype == DType::f32 && gpu::is_wide(step.params.x[0], DType::f32) &&
         step.params.x[0].ne[0] % 8 == 0;
}

// Products that the kernel computes without what only others need (kernels/matmul.cu).
bool is_plain(const StepContext& context, const Product& product, const Step& step) {
  const OperandParams &weights = step.params.x[0], &x = step.params.x[1];
  if (!step.is_by_format || context.node.op != Op::mul_mat || product.n_matrices != 1) return false;
  const Decoder& decoder = *decoder_of(weights, step.format);
  return product.n_tokens <= kGroupTokens && weights.ne[0] % kSegment == 0 &&
         addresses_of(weights) % decoder.plain_alignment == 0 && (x.data | count(product.x_token)) % 16 == 0;
}

// The blocks of products of few tokens (kernels/matmul.cu).
struct RowsShape {
  int64_t n_warps;
  int64_t n_rows, n_tokens;  // of a block
  int64_t n_room_tokens;     // whose activations have room in shared memory
  int64_t n_places;          // segments that have room at a time, 0: one of each warp
  int64_t activation_stride;
  int64_t n_segments, segment_bytes;  // of a warp, whose weights have room in shared memory

  int64_t shared_bytes() const {
    const int64_t places = (n_places == 0 ? n_warps : n_places) * n_room_tokens;
    const int64_t sums = places * 2 * (n_rows + 1) * int64_t{sizeof(float)};
    return round_up(places * activation_stride + sums, int64_t{128}) + n_warps * n_segments * segment_bytes;
  }
};

// The blocks of `shape` for which a multiprocessor has room.
int64_t blocks_at_a_time(const StepContext& context, const RowsShape& shape) {
  const int64_t room = (context.shared_bytes + kReservedBytes) / (shape.shared_bytes() + kReservedBytes);
  return std::min(room, kMostWarps / shape.n_warps);
}

// The same for plain products. If there is room for all segments, activations are converted once per block. Then, the
// more warps run at a time, the better; and of those, small blocks, whose warps wait less for each other, unless their
// activations, which each block converts, are many.
RowsShape plain_shape(const StepContext& context, const Product& product, const RowsShape& by_rounds, bool is_staged) {
  const Shape& weights = context.spec(0).shape();
  const int64_t n_groups = div_ceil(weights[1], by_rounds.n_rows);
  RowsShape best = by_rounds;
  int64_t most = 0;
  for (const int64_t n_places : {div_ceil(weights[0], kSegment), int64_t{0}}) {
    for (const int64_t n_warps : {kFewestWarps, kRowsWarps, kLongRowsWarps}) {
      if (n_warps == kFewestWarps && product.n_tokens > 1) continue;
      RowsShape shape = by_rounds;
      shape.n_places = n_places;
      if (is_staged) shape.n_warps = n_warps;
      const int64_t at_a_time = blocks_at_a_time(context, shape) * shape.n_warps;
      const int64_t warps = std::min(at_a_time, div_ceil(n_groups * shape.n_warps, kMultiprocessors));
      if (warps <= most) continue;
      best = shape;
      most = warps;
    }
    if (most > 0) break;
  }
  return best;
}

RowsShape rows_shape(const StepContext& context, const Product& product, const Step& step) {
  const bool precise = is_precise(context), is_long = div_ceil(context.spec(0).shape()[0], kSegment) > kRowsWarps;
  const Decoder* decoder = precise ? nullptr : decoder_of(step.params.x[0], context.spec(0).dtype);
  const bool is_staged = decoder != nullptr && decoder->room != 0;
  const int64_t n_tokens = precise ? kPreciseTokens : kGroupTokens;
  // The tokens of an expert are not known: there is room for all that are taken at a time.
  RowsShape shape{
      .n_warps = is_long && !is_staged ? kLongRowsWarps : kRowsWarps,
      .n_rows = precise ? kPreciseRows : kGroupRows,
      .n_tokens = n_tokens,
      .n_room_tokens = product.shares_tokens ? std::clamp<int64_t>(product.n_at_a_time, 1, n_tokens) : n_tokens,
      .n_places = 0,
      .activation_stride = precise ? kFloatsStride : kHalvesStride,
      .n_segments = kSegments,
      .segment_bytes = is_staged ? kGroupRows * decoder->room : 0};
  if (precise) {
    shape.n_segments = copies_floats(context, step) ? 1 : 0;
    shape.segment_bytes = kPreciseRows * kFloatsStride;
  }
  // Results do not depend on what follows.
  const auto shrink_to = [&](int64_t n_warps) {
    while (shape.shared_bytes() > context.shared_bytes && shape.n_warps > n_warps) shape.n_warps /= 2;
  };
  if (shape.shared_bytes() > context.shared_bytes && !precise) shape.n_segments = 1;
  shrink_to(kRowsWarps);
  if (shape.shared_bytes() > context.shared_bytes && precise) shape.n_segments = 0;
  shrink_to(kFewestWarps);
  const bool plain = is_plain(context, product, step) && shape.n_segments == kSegments;
  return plain ? plain_shape(context, product, shape, is_staged) : shape;
}

// The first dispatch: the whole product of few tokens, or the conversion of the activations of many.
Result<> prepare_first(const StepContext& context, Step& step) {
  const Product product = product_of(context.graph, context.node);
  if (product.n_tokens == 0) return {};
  if (is_tiled(context, product)) {
    step.shader = Shader::matmul_halves;
    step.n_threads = kHalvesThreads;
    step.params.u[10] = count(halves_bytes(context));
    step.params.u[kStepOrder] = is_wide(context, product, step) ? 1 : 0;
    const int64_t n_segments = div_ceil(context.spec(1).shape()[0], kSegment);
    const int64_t x_groups = div_ceil<int64_t>(context.spec(1).shape().n_rows() * n_segments, kHalvesThreads / kWarp);
    if (!converts_weights(context, product)) return set_groups(step, x_groups);
    choose(context, step, Shader::matmul_all_halves, Shader::matmul_all_halves_any);
    step.params.u[0] = count(x_groups);
    set_weights_offset(context, step);
    const int64_t n_pieces = halves_bytes(context) / 16 * context.spec(0).shape()[1];
    return set_groups(step, x_groups + div_ceil<int64_t>(n_pieces, kHalvesThreads));
  }
  choose(context, step, Shader::matmul_rows, Shader::matmul_rows_any);
  if (is_precise(context)) {
    step.shader = Shader::matmul_precise;
    step.is_by_format = false;
  }
  const RowsShape shape = rows_shape(context, product, step);
  step.n_threads = static_cast<uint32_t>(shape.n_warps * kWarp);
  const int64_t plain = is_plain(context, product, step) && shape.n_segments == kSegments ? 1 : 0;
  const int64_t whole = step.params.x[0].ne[0] % kSegment == 0 ? 1 : 0, all = shape.n_places != 0 ? 1 : 0;
  step.variant = count(shape.n_room_tokens | shape.n_segments << 8 | plain << 16 | whole << 18 | all << 19);
  step.shared_bytes = static_cast<uint32_t>(shape.shared_bytes());
  TESSERA_TRY(set_product(context, product, shape.n_rows, shape.n_tokens, step));
  // A second round of blocks pays for weights in registers, of which a block requests few, if there are many rows.
  const bool is_staged = !is_precise(context) && shape.segment_bytes != 0;
  const int64_t room = std::max<int64_t>(blocks_at_a_time(context, shape), 1);
  const bool has_two_rounds = !is_staged && step.params.n_groups > kTwoRounds * kMultiprocessors;
  const int64_t n_blocks = kMultiprocessors * (has_two_rounds ? kTwoRounds : room);
  step.params.n_groups = std::min(step.params.n_groups, count(n_blocks));
  if (product.n_tokens < product.n_matrices && context.node.op == Op::mul_mat_experts) {  // some have no tokens
    const uint32_t in_matrix = step.params.u[0] * step.params.u[1];
    step.params.n_groups = std::min(step.params.n_groups, in_matrix * count(product.n_tokens));
  }
  return {};
}

size_t scratch_bytes(const StepContext& context) {
  const Product product = product_of(context.graph, context.node);
  if (product.n_tokens == 0 || !is_tiled(context, product)) return 0;
  int64_t bytes = activation_bytes(context);
  if (converts_weights(context, product)) bytes += halves_bytes(context) * context.spec(0).shape()[1];
  return to_size(bytes);
}

Result<> prepare_wide(const StepContext& context, const Product& product, Step& step) {
  const int64_t n_rows = context.spec(0).shape()[1], n_token_tiles = div_ceil(product.n_tokens, WideKernel::kTokens);
  const WideKernel& kernel = div_ceil(n_rows, kWide.n_rows) * n_token_tiles >= kEnoughWideTiles ? kWide : kWideFew;
  const bool converts = converts_weights(context, product);
  step.format = context.spec(0).dtype;
  step.shader = converts ? kernel.converted : kernel.f16;
  if (converts) set_weights_offset(context, step);
  step.n_threads = WideKernel::kThreads;
  step.shared_bytes = kernel.shared_bytes();
  return set_product(context, product, kernel.n_rows, WideKernel::kTokens, step);
}

// The second dispatch: the product of many tokens.
Result<> prepare_second(const StepContext& context, Step& step) {
  const Product product = product_of(context.graph, context.node);
  if (is_wide(context, product, step)) return prepare_wide(context, product, step);
  const auto n_tiles = [&](const TileKernel& kernel) {
    return div_ceil(context.spec(0).shape()[1], kernel.n_rows) * div_ceil(product.n_at_a_time, kernel.n_tokens) *
           product.n_matrices;
  };
  const TileKernel& kernel = n_tiles(kLarge) >= kEnoughTiles ? kLarge : kSmall;
  choose(context, step, kernel.by_format, kernel.any);
  if (converts_weights(context, product)) {
    step.shader = kernel.converted;
    step.is_by_format = false;
    set_weights_offset(context, step);
  }
  step.n_threads = kernel.n_threads;
  step.shared_bytes = kernel.shared_bytes();
  return set_product(context, product, kernel.n_rows, kernel.n_tokens, step);
}

}  // namespace

const OpKernel kProduct{.supports = supports_product,
                        .prepare = prepare_first,
                        .scratch_bytes = scratch_bytes,
                        .prepare_merge = prepare_second};

}  // namespace tessera::cuda
