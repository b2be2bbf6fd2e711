// Attention in the default precision, with f16 for the matrix units: it agrees with the CPU, and the bits of a token
// are the same alone and in a batch, in each kernel and however splits are divided.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "tessera/base/checked.h"
#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kBlockTokens = 64;
constexpr double kFlashBound = 1e-6;  // squared error: q, K and weights have 11 bits

struct FlashCase {
  std::string name;
  AttentionParams params{.scale = 0.125f};
  DType type = DType::f16;
  int64_t dim = 64, v_dim = 64, n_heads = 4, n_heads_kv = 2;
  bool has_sinks = false, has_bias = false, has_holes = false, has_chosen = false;
  int32_t table = 8;                                // blocks of each sequence
  std::vector<int32_t> n_stored = {400, 100, 200};  // tokens, by sequence
  int32_t infinite = -1;                            // a position of the first sequence where V is infinite
};

struct Token {
  int32_t slot, position;
};
std::vector<Token> tokens_of(int32_t slot, int32_t first, int32_t n, int32_t step = 1) {
  std::vector<Token> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back({slot, first + i * step});
  return tokens;
}
std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A device with the caches of a case. Rows that are stored but not valid are NaN.
class FlashCaches {
 public:
  FlashCaches(const Device& device, const FlashCase& c, bool is_precise)
      : c_(c),
        backend_(device
                     .create_backend(
                         {.threads = {.n_threads = 1},
                          .activations = is_precise ? ActivationPrecision::float32 : ActivationPrecision::automatic})
                     .value()) {
    Rng rng(3);
    const auto place = [&](const char* name, DType dtype, const Shape& shape, const Bytes& data) {
      tensors_.push_back(std::make_unique<OwnedTensor>(device.buffer_type(), name, dtype, shape, data));
    };
    const auto n_slots = static_cast<int64_t>(c.n_stored.size());
    blocks_.assign(static_cast<size_t>(c.table * n_slots), -1);
    valid_.assign(blocks_.size(), 0);
    std::vector<int32_t> cells, order;
    std::vector<bool> is_valid;
    size_t n_blocks = 0;
    for (const int32_t n : c.n_stored) n_blocks += static_cast<size_t>(div_ceil<int64_t>(n, kBlockTokens));
    for (size_t i = 0; i < n_blocks; ++i) order.push_back(static_cast<int32_t>(i * 7 % n_blocks));
    if (n_blocks % 7 == 0) std::iota(order.begin(), order.end(), 0);
    size_t next = 0;
    for (size_t slot = 0; slot < c.n_stored.size(); ++slot)
      for (int32_t b = 0; b * kBlockTokens < c.n_stored[slot]; ++b) {
        const size_t at = slot * static_cast<size_t>(c.table) + static_cast<size_t>(b);
        if (c.has_holes && b % 5 == 2) {
          valid_[at] = ~uint64_t{0};  // of no block
          continue;
        }
        blocks_[at] = order[next++];
        for (int32_t j = 0; j < kBlockTokens; ++j) {
          const int32_t position = b * static_cast<int32_t>(kBlockTokens) + j;
          cells.push_back(blocks_[at] * static_cast<int32_t>(kBlockTokens) + j);
          is_valid.push_back(position < c.n_stored[slot] && !(c.has_holes && (position % 7 == 3 || b == 4)));
          if (is_valid.back()) valid_[at] |= uint64_t{1} << j;
          if (slot == 0 && position == c.infinite) infinite_row_ = is_valid.size() - 1;
        }
      }
    place("k", c.type, {c.dim, kBlockTokens, c.n_heads_kv, static_cast<int64_t>(n_blocks)}, {});
    place("v", c.type, {c.v_dim, kBlockTokens, c.n_heads_kv, static_cast<int64_t>(n_blocks)}, {});
    place("sinks", DType::f32, {c.n_heads}, bytes_of(random_values(rng, c.n_heads)));
    place("bias", DType::f32, {c.n_heads, 8}, bytes_of(random_values(rng, c.n_heads * 8)));
    for (const KvSide side : {KvSide::k, KvSide::v}) store(side, cells, is_valid, rng);
  }

  Result<std::vector<float>> run(const std::vector<Token>& tokens, int n_runs = 1) const {
    const int64_t n = std::ssize(tokens), n_slots = std::ssize(c_.n_stored);
    std::vector<float> q;
    std::vector<int32_t> positions, slots;
    std::vector<uint64_t> chosen;        // half of the keys of each KV head
    for (const Token& token : tokens) {  // the query is the same in each batch
      Rng rng(static_cast<uint64_t>(token.slot * 100'003 + token.position));
      const std::vector<float> values = random_values(rng, c_.dim * c_.n_heads, 3.0f);
      q.insert(q.end(), values.begin(), values.end());
      positions.push_back(token.position);
      slots.push_back(token.slot);
      for (int64_t i = 0; i < c_.table * c_.n_heads_kv; ++i)
        chosen.push_back(uint64_t{rng.next_u32()} << 32 | rng.next_u32());
    }
    GraphBuilder b;
    const Value y = b.output(
        b.paged_attention(b.input("q", DType::f32, {c_.dim, c_.n_heads, n}), b.tensor(tensors_[0]->tensor),
                          b.tensor(tensors_[1]->tensor), b.input("positions", DType::i32, {n}),
                          b.input("slots", DType::i32, {n}), b.input("blocks", DType::i32, {c_.table, n_slots}),
                          b.input("valid", DType::i64, {c_.table, n_slots}),
                          c_.has_sinks ? b.tensor(tensors_[2]->tensor) : Value{}, c_.params,
                          c_.has_bias ? b.tensor(tensors_[3]->tensor) : Value{},
                          c_.has_chosen ? b.input("chosen", DType::i64, {c_.table, c_.n_heads_kv, n}) : Value{}),
        "y");
    TESSERA_ASSIGN(Graph graph, std::move(b).finish());
    TESSERA_ASSIGN(const Bytes bytes, run_graph(std::move(graph),
                                                {{"q", bytes_of(q)},
                                                 {"positions", bytes_of(positions)},
                                                 {"slots", bytes_of(slots)},
                                                 {"blocks", bytes_of(blocks_)},
                                                 {"valid", bytes_of(valid_)},
                                                 {"chosen", bytes_of(chosen)}},
                                                y.id(), n_runs));
    return values_of<float>(bytes);
  }
  size_t row_values() const { return static_cast<size_t>(c_.v_dim * c_.n_heads); }

 private:
  void store(KvSide side, const std::vector<int32_t>& cells, const std::vector<bool>& is_valid, Rng& rng) const {
    const int64_t dim = side == KvSide::k ? c_.dim : c_.v_dim, n = std::ssize(cells), row = dim * c_.n_heads_kv;
    std::vector<float> values = random_values(rng, n * row);
    for (size_t i = 0; i < is_valid.size(); ++i) {
      const auto first = values.begin() + static_cast<int64_t>(i) * row;
      if (!is_valid[i]) std::fill(first, first + row, std::numeric_limits<float>::quiet_NaN());
      if (side == KvSide::v && i == infinite_row_) std::fill(first, first + row, 1e30f);
    }
    GraphBuilder b;
    const Value cache = b.tensor(tensors_[side == KvSide::k ? 0 : 1]->tensor);
    const Value out = b.kv_store(cache, b.input("rows", DType::f32, {dim, c_.n_heads_kv, n}),
                                 b.input("cells", DType::i32, {n}), side);
    const Value loaded = b.output(b.cast(b.kv_load(out, b.input("load", DType::i32, {1}), side), DType::f32), "y");
    ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).finish());
    EXPECT_OK(run_graph(std::move(graph),
                        {{"rows", bytes_of(values)}, {"cells", bytes_of(cells)}, {"load", bytes_of<int32_t>({0})}},
                        loaded.id()));
  }

  Result<Bytes> run_graph(Graph graph, const NamedBytes& inputs, NodeId output, int n_runs = 1) const {
    Executor executor(*backend_);
    TESSERA_TRY(executor.reserve({&graph, 1}));
    TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
    const Graph& g = prepared->graph();
    for (NodeId id = 0; id < g.size(); ++id) {
      if (g[id].op != Op::input) continue;
      const Tensor& tensor = prepared->tensor(id);
      TESSERA_TRY(tensor.buffer->set(tensor, 0, inputs.at(g[id].name)));
    }
    for (int i = 0; i < n_runs; ++i) TESSERA_TRY(executor.run(*prepared));
    const Tensor& tensor = prepared->tensor(output);
    Bytes bytes(span_bytes(tensor.dtype, tensor.layout));
    TESSERA_TRY(tensor.buffer->get(tensor, 0, bytes));
    return bytes;
  }

  FlashCase c_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<OwnedTensor>> tensors_;
  std::vector<int32_t> blocks_;
  std::vector<uint64_t> valid_;
  size_t infinite_row_ = ~size_t{0};
};

// Compares batches with the CPU, and the tokens `alone` of each, by index, with runs of these tokens only.
void check(const FlashCase& c, const std::vector<std::vector<Token>>& batches, const std::vector<size_t>& alone) {
  static const std::unique_ptr<Device> cpu = cpu::create_device("").value();
  const FlashCaches flash(*gpu_device(), c, false), exact(*cpu, c, true);
  for (const std::vector<Token>& batch : batches) {
    ASSERT_OK_AND_ASSIGN(const auto y, flash.run(batch));
    ASSERT_OK_AND_ASSIGN(const auto expected, exact.run(batch));
    const double error = relative_error(y, expected);
    EXPECT_LE(error, kFlashBound) << c.name << ", " << batch.size();
    EXPECT_FALSE(std::isnan(error)) << c.name << ", " << batch.size();
    const auto n = static_cast<int64_t>(flash.row_values());
    for (const size_t i : alone) {
      if (i >= batch.size() || batch.size() == 1) continue;
      ASSERT_OK_AND_ASSIGN(const auto one, flash.run({batch[i]}));
      EXPECT_TRUE(
          same_bytes(one, {y.begin() + static_cast<int64_t>(i) * n, y.begin() + static_cast<int64_t>(i + 1) * n}))
          << c.name << ", token " << i << " of " << batch.size();
    }
  }
}

using CudaAttention = GpuTest;

// Few tokens, whose splits are divided; a tile of one sequence; tiles of several sequences, which another kernel
// computes.
const std::vector<Token> kFew = {{0, 399}, {1, 5}, {2, 199}, {0, 0}, {1, 90}};
const std::vector<Token> kOneSequence = tokens_of(0, 370, 17);
const std::vector<Token> kMixed = joined(tokens_of(0, 230, 34), joined(tokens_of(2, 50, 4, 30), tokens_of(1, 60, 2)));

TEST_F(CudaAttention, HeadsOfEverySize) {
  check({.name = "64"}, {kFew, kOneSequence, kMixed}, {0, 2, 16, 33, 36});
  check({.name = "72 and 40", .dim = 72, .v_dim = 40}, {kFew, kOneSequence}, {0, 16});
  check({.name = "128, 7 heads for one", .dim = 128, .v_dim = 128, .n_heads = 7, .n_heads_kv = 1}, {kFew, kOneSequence},
        {0, 16});
  check({.name = "192 and 256", .dim = 192, .v_dim = 256, .n_heads = 2, .n_heads_kv = 1}, {kFew, kOneSequence},
        {0, 16});
  check({.name = "20 heads for one", .n_heads = 20, .n_heads_kv = 1}, {{kFew[0], kFew[1]}, kOneSequence}, {0, 16});
}

TEST_F(CudaAttention, EveryParameter) {
  check({.name = "window", .params = {.scale = 0.125f, .window = 70}, .n_heads_kv = 4}, {kFew, kMixed}, {0, 4, 33});
  check({.name = "long window", .params = {.scale = 0.125f, .window = 300}}, {kFew, kOneSequence}, {0, 16});
  check({.name = "both sides", .params = {.scale = 0.125f, .causal = false, .window = 9}}, {kFew, kMixed}, {1, 33});
  check({.name = "soft cap", .params = {.scale = 0.5f, .soft_cap = 2.0f}}, {kFew, kOneSequence}, {0, 16});
  check({.name = "negative scale", .params = {.scale = -0.125f}}, {kFew}, {0});
  check({.name = "alibi, bias and sinks",
         .params = {.scale = 0.125f, .causal = false, .max_alibi = 8.0f},
         .has_sinks = true,
         .has_bias = true,
         .has_holes = true},
        {kFew, kOneSequence}, {0, 1, 16});
  check({.name = "sinks", .has_sinks = true}, {kFew, kOneSequence}, {0, 3, 16});
  check({.name = "chosen keys", .has_chosen = true}, {kFew, kMixed}, {0, 3, 33});
}

TEST_F(CudaAttention, Caches) {
  check({.name = "holes", .has_holes = true}, {kFew, kMixed}, {0, 2, 3, 33, 39});
  check({.name = "q8_0", .type = DType::q8_0, .dim = 96}, {kFew, kOneSequence}, {0, 16});
  check({.name = "short table", .table = 2, .n_stored = {120, 100, 70}}, {{{0, 119}, {1, 5}}, tokens_of(0, 100, 18)},
        {0, 17});
}

// A value that is infinite is not seen by the tokens before it, though the tile multiplies it with their zeros.
TEST_F(CudaAttention, InfiniteValuesReachOnlyTheTokensThatSeeThem) {
  const FlashCaches finite(*gpu_device(), {.name = "finite"}, false);
  const FlashCaches infinite(*gpu_device(), {.name = "infinite", .infinite = 380}, false);
  ASSERT_OK_AND_ASSIGN(const auto expected, finite.run(kOneSequence));
  ASSERT_OK_AND_ASSIGN(const auto y, infinite.run(kOneSequence));
  const auto n = static_cast<int64_t>(10 * finite.row_values());  // of the tokens before
  EXPECT_TRUE(std::equal(y.begin(), y.begin() + n, expected.begin()));
  EXPECT_TRUE(std::none_of(y.begin() + n, y.end(), [](float v) { return std::isfinite(v); }));
}

// The last block to finish a split merges all, each time.
TEST_F(CudaAttention, RunsAgainWithTheSameBits) {
  const FlashCaches caches(*gpu_device(), {.name = "again"}, false);
  ASSERT_OK_AND_ASSIGN(const auto once, caches.run(kFew));
  ASSERT_OK_AND_ASSIGN(const auto again, caches.run(kFew, 3));
  EXPECT_TRUE(same_bytes(once, again));
  EXPECT_ERROR(caches.run({kFew[0], {3, 0}}), "sequence 3, want 0 to 2");
  EXPECT_ERROR(caches.run({kFew[0], {0, 512}}), "position 512, want 0 to 511");
}

// Splits become longer at 64 and 256 blocks.
TEST_F(CudaAttention, LongContexts) {
  const FlashCase whole{.name = "long", .n_heads = 2, .n_heads_kv = 1, .table = 260, .n_stored = {16'600, 40}};
  check(whole, {joined({{0, 16'599}}, tokens_of(1, 20, 16))}, {0});
  FlashCase window = whole;
  window.params.window = 600;
  check(window, {tokens_of(0, 4'400, 17), tokens_of(0, 16'500, 17), {{0, 16'420}, {0, 4'097}}}, {0, 1, 16});
}

}  // namespace
}  // namespace tessera
