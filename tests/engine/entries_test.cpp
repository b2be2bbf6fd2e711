// The graphs of a session whose cache has layers with entries beside those of the model, which does not use them.
#include <gtest/gtest.h>

#include <cstring>

#include "tessera/engine/step_graphs.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

class EntryGraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model()));
    const ModelInfo& model = engine_->model().info();
    config_.kv_layers = model.kv_layers;
    n_own_ = std::ssize(model.kv_layers);
    config_.kv_layers.push_back({.n_heads_kv = 1, .k_dim = 32, .window = 40, .stride = 4, .type = DType::q8_0});
    config_.kv_layers.push_back({.n_heads_kv = 1, .k_dim = 32, .v_dim = 64, .window = 40, .stride = 128});
    config_.kv_layers.push_back({.n_heads_kv = 2, .k_dim = 8, .v_dim = 8, .window = 8, .type = DType::f32});
    config_.n_ctx = options_.n_ctx;
    config_.n_sequences = options_.n_sequences;
    config_.n_ubatch = options_.n_ubatch;
    ASSERT_OK_AND_ASSIGN(memory_, SequenceMemory::plan(engine_->device(), config_));
    ASSERT_OK(memory_->allocate());
    ASSERT_OK_AND_ASSIGN(graphs_, StepGraphs::create(*engine_, engine_->model(), options_, *memory_, adapters_, {}));
    ASSERT_OK_AND_ASSIGN(const std::vector<Graph> largest, graphs_->largest_graphs());
    ASSERT_OK(graphs_->executor().reserve(largest));
  }

  // Prepares a step without its run, because a run reuses the memory of inputs.
  Result<> begin(std::span<const BatchToken> tokens) {
    TESSERA_TRY(memory_->reserve(tokens, reservation_));
    TESSERA_ASSIGN(step_, graphs_->decode_step({std::ssize(tokens), 1}, 1));
    return graphs_->set_inputs(*step_, tokens, reservation_);
  }
  Result<> decode(std::span<const BatchToken> tokens) {
    TESSERA_TRY(begin(tokens));
    TESSERA_TRY(graphs_->executor().run(*step_->graph));
    return memory_->commit();
  }
  static std::vector<BatchToken> tokens_at(int32_t sequence, int32_t begin, int32_t end) {
    std::vector<BatchToken> tokens;
    for (int32_t p = begin; p < end; ++p) tokens.push_back({.token = 5, .position = p, .sequence = sequence});
    tokens.back().wants_logits = true;
    return tokens;
  }
  std::vector<int32_t> values_of(Value input) const {
    const Tensor& tensor = step_->graph->tensor(input.id());
    std::vector<int32_t> values(to_size(tensor.shape().n_elements()));
    EXPECT_OK(tensor.buffer->get(tensor, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }

  std::shared_ptr<Engine> engine_;
  int64_t n_own_ = 0;
  SessionOptions options_{.n_ctx = 512, .n_ubatch = 64, .n_sequences = 2, .n_outputs = 1};
  SequenceMemoryConfig config_;
  std::unique_ptr<SequenceMemory> memory_;
  AdapterSet adapters_;
  std::unique_ptr<StepGraphs> graphs_;
  Reservation reservation_;
  const PreparedStep* step_ = nullptr;
};

TEST_F(EntryGraphsTest, AStepHasTheInputsOfEntries) {
  ASSERT_OK(decode(tokens_at(1, 0, 64)));
  ASSERT_OK(decode(tokens_at(1, 64, 126)));
  const std::vector<BatchToken> others = tokens_at(0, 0, 2);
  std::vector<BatchToken> tokens = others;
  const std::vector<BatchToken> last = tokens_at(1, 126, 129);
  tokens.insert(tokens.end(), last.begin(), last.end());
  tokens[1].wants_logits = false;
  ASSERT_OK(begin(tokens));
  const nn::CacheInputs& four = step_->in.cache(n_own_);
  EXPECT_EQ(four.stride, 4);
  EXPECT_EQ(four.n_entry_blocks, 2);  // of 512 / 4 entries
  EXPECT_EQ(values_of(four.positions), (std::vector<int32_t>{128, 129, 254, 255, 256}));
  EXPECT_EQ(values_of(four.entry_positions), (std::vector<int32_t>{0, 0, 30, 31, 31}));
  EXPECT_EQ(values_of(four.entry_starts), (std::vector<int32_t>{0, 0, 124, 124, 128}));
  const int32_t of_entry = memory_->kv().cells(1, *memory_->kv().entries_of(memory_->kv().group_of(n_own_)))->cells[31];
  EXPECT_EQ(values_of(four.entry_cells), (std::vector<int32_t>{-1, -1, -1, of_entry, -1}));
  EXPECT_EQ(values_of(four.cells).back(), memory_->kv().cells(1, memory_->kv().group_of(n_own_))->cells.back());
  const nn::CacheInputs& most = step_->in.cache(n_own_ + 1);
  EXPECT_EQ(most.n_entry_blocks, 1);
  EXPECT_EQ(values_of(most.positions), (std::vector<int32_t>{64, 65, 190, 191, 192}));
  EXPECT_EQ(values_of(most.entry_positions), (std::vector<int32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(values_of(most.entry_starts), (std::vector<int32_t>{0, 0, 0, 0, 128}));
  EXPECT_GE(values_of(most.entry_cells)[3], 0);
  const nn::CacheInputs& rows = step_->in.cache(n_own_ + 2);
  EXPECT_EQ(rows.stride, 0);
  EXPECT_EQ(rows.positions.id(), step_->in.positions.id());
  EXPECT_FALSE(rows.entry_cells.present());
  EXPECT_EQ(step_->in.cache(0).positions.id(), step_->in.positions.id());
}

// Each layer in its own type, and all rows of both kinds.
TEST_F(EntryGraphsTest, ASavedSequenceHasTheRowsOfEntries) {
  for (int32_t p = 0; p < 300; p += 50) ASSERT_OK(decode(tokens_at(0, p, p + 50)));
  const KvCache& cache = memory_->kv();
  std::vector<std::vector<std::byte>> written;  // by layer: K, then V
  for (int64_t layer = 0; layer < std::ssize(config_.kv_layers); ++layer) {
    std::vector<int32_t> cells;
    for (size_t g = 0; g < cache.groups().size(); ++g)
      if (cache.is_in_group(layer, g)) std::ranges::copy(cache.cells(0, g)->cells, std::back_inserter(cells));
    ASSERT_OK_AND_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
    std::vector<std::byte>& rows = written.emplace_back(cells.size() * (token.k + token.v));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>((i * 7 + to_size(layer)) % 61);
    const auto k = std::span(rows).first(cells.size() * token.k), v = std::span(rows).subspan(k.size());
    ASSERT_OK(graphs_->cells().write(cache, layer, cells, k, v));
  }
  EXPECT_EQ(cache.token_bytes(n_own_)->k, 34u);
  EXPECT_EQ(cache.token_bytes(n_own_ + 2)->k, 2 * 8 * 4u);
  EXPECT_EQ(written[to_size(n_own_)].size(), 34 * (cache.cells(0, 1)->cells.size() + 75));
  ASSERT_OK_AND_ASSIGN(const auto saved, memory_->save(0, 7, graphs_->cells()));
  ASSERT_OK(memory_->clear());
  ASSERT_OK(decode(tokens_at(0, 0, 64)));  // the cells of sequence 1 are others
  ASSERT_OK(memory_->restore(1, 7, saved, graphs_->cells()));
  ASSERT_OK_AND_ASSIGN(const auto again, memory_->save(1, 7, graphs_->cells()));
  EXPECT_EQ(again, saved);
  for (int64_t layer = 0; layer < std::ssize(config_.kv_layers); ++layer)
    EXPECT_FALSE(std::ranges::search(saved, written[to_size(layer)]).empty()) << layer;
}

TEST_F(EntryGraphsTest, NothingIsReservedForMovesThatCannotBe) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> moves, graphs_->cells().largest_graphs(memory_->kv()));
  EXPECT_TRUE(moves.empty());
  EXPECT_EQ(total_bytes(memory_->planned_memory()), total_bytes(memory_->allocated_memory()));
}

}  // namespace
}  // namespace tessera
