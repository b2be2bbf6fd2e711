// The memory of sequences as one object: every operation reaches the KV cache, the prompts and the recurrent states,
// and an error leaves all of them as they were.
#include "tessera/cache/sequence_memory.h"

#include <cstring>
#include <map>
#include <tuple>

#include "tests/support/cache_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr KvLayerShape kLayer{.n_heads_kv = 1, .k_dim = 1, .v_dim = 1};
constexpr uint64_t kModel = 17;

enum class Parts { kv, with_states, with_encoder, all };

SequenceMemoryConfig config_of(Parts parts) {
  SequenceMemoryConfig config{
      .kv_layers = {kLayer}, .type_k = DType::f32, .type_v = DType::f32, .n_ctx = 256, .n_sequences = 3};
  if (parts == Parts::with_states || parts == Parts::all) config.recurrent_layers = {{{3, 2}}, {{1}}};
  if (parts == Parts::with_encoder || parts == Parts::all) config.prompt_layers = {kLayer, kLayer};
  config.n_checkpoints = 1;
  return config;
}

std::unique_ptr<SequenceMemory> memory_of(Parts parts) {
  auto memory = SequenceMemory::plan(cpu_device(), config_of(parts)).value();
  EXPECT_OK(memory->allocate());
  return memory;
}

Result<> store(SequenceMemory& memory, int32_t sequence, int32_t begin, int32_t end) {
  Reservation reservation;
  if (auto done = memory.reserve(range_of(sequence, begin, end), reservation); !done) {
    EXPECT_OK(memory.rollback());
    return done;
  }
  return memory.commit();
}

Result<> store_prompt(SequenceMemory& memory, int32_t sequence, int32_t n_tokens) {
  Reservation reservation;
  TESSERA_TRY(memory.reserve_prompt(range_of(sequence, 0, n_tokens), reservation));
  return memory.commit();
}

bool has_prompt(const SequenceMemory& memory, int32_t sequence) {
  return memory.require_prompts(range_of(sequence, 0, 1)).has_value();
}

/// CellAccess for cells of f32 with one K and one V.
class FakeCells final : public CellAccess {
 public:
  struct Cell {
    float k = 0, v = 0;
  };
  Cell& at(const KvCache& cache, int64_t layer, int32_t cell) { return cells_[{&cache, layer, cell}]; }
  size_t n_moved() const { return n_moved_; }

  Result<> move(const KvCache& cache, size_t group, const CellMoves& moves) override {
    for (size_t i = 0; i < moves.from.size(); ++i)
      for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer)
        if (cache.group_of(layer) == group) at(cache, layer, moves.to[i]) = at(cache, layer, moves.from[i]);
    n_moved_ += moves.from.size();
    return {};
  }
  Result<> read(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<std::byte> k,
                std::span<std::byte> v) override {
    for (size_t i = 0; i < cells.size(); ++i) {
      std::memcpy(&k[i * sizeof(float)], &at(cache, layer, cells[i]).k, sizeof(float));
      std::memcpy(&v[i * sizeof(float)], &at(cache, layer, cells[i]).v, sizeof(float));
    }
    return {};
  }
  Result<> write(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<const std::byte> k,
                 std::span<const std::byte> v) override {
    for (size_t i = 0; i < cells.size(); ++i) {
      std::memcpy(&at(cache, layer, cells[i]).k, &k[i * sizeof(float)], sizeof(float));
      std::memcpy(&at(cache, layer, cells[i]).v, &v[i * sizeof(float)], sizeof(float));
    }
    return {};
  }

 private:
  std::map<std::tuple<const KvCache*, int64_t, int32_t>, Cell> cells_;
  size_t n_moved_ = 0;
};

// Writes unique numbers to the cells of a sequence.
void number(FakeCells& cells, const KvCache& cache, int32_t sequence, float first) {
  const KvCache::Cells held = cache.cells(sequence).value();
  for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer)
    for (size_t i = 0; i < held.cells.size(); ++i) {
      const float value = first + 1000.0f * static_cast<float>(layer) + static_cast<float>(held.positions[i]);
      cells.at(cache, layer, held.cells[i]) = {value, -value};
    }
}

TEST(SequenceMemory, TakesTheBytesOfItsParts) {
  const auto kv = memory_of(Parts::kv), with_states = memory_of(Parts::with_states),
             with_encoder = memory_of(Parts::with_encoder), all = memory_of(Parts::all);
  EXPECT_EQ(total_bytes(kv->planned_memory()), kv->kv().bytes());
  EXPECT_EQ(total_bytes(all->planned_memory()), all->kv().bytes() + all->prompts().bytes() + all->states().bytes());
  EXPECT_GT(total_bytes(with_states->planned_memory()), kv->kv().bytes());
  EXPECT_GT(total_bytes(with_encoder->planned_memory()), kv->kv().bytes());
  for (const auto* memory : {&kv, &with_states, &with_encoder, &all})
    EXPECT_EQ(total_bytes((*memory)->allocated_memory()), total_bytes((*memory)->planned_memory()));
}

TEST(SequenceMemory, WithoutStatesAndEncoderNothingIsRefusedForThem) {
  const auto memory = memory_of(Parts::kv);
  FakeCells cells;
  EXPECT_FALSE(memory->is_recurrent());
  EXPECT_FALSE(memory->has_encoder());
  EXPECT_OK(store(*memory, 0, 5, 20));
  EXPECT_OK(store(*memory, 0, 30, 40));  // positions need not be in order
  EXPECT_OK(memory->remove(0, 10, 15));  // nor contiguous
  EXPECT_OK(memory->copy(0, 1, 5, 8, cells));
  EXPECT_OK(memory->shift(0, 30, 35, 100, cells));
  EXPECT_OK(memory->checkpoint(2));  // of a sequence without tokens
  EXPECT_OK(memory->drop_checkpoints(2));
  EXPECT_TRUE(has_prompt(*memory, 0));  // none is needed
  EXPECT_EQ(memory->min_position(0), 5);
  EXPECT_EQ(memory->lowest_rollback(0), 0);
  Reservation reservation;
  ASSERT_OK(memory->reserve(range_of(2, 0, 4), reservation));
  EXPECT_TRUE(reservation.segments.empty());
  ASSERT_OK(memory->commit());
  ASSERT_OK_AND_ASSIGN(const auto saved, memory->save(0, kModel, cells));
  EXPECT_OK(memory->restore(1, kModel, saved, cells));
  EXPECT_EQ(memory->max_position(1), 134);
}

TEST(SequenceMemory, ABatchThatFailsLeavesAllParts) {
  const auto memory = memory_of(Parts::all);
  ASSERT_OK(store(*memory, 0, 0, 10));
  Reservation reservation;
  ASSERT_OK(memory->reserve(range_of(0, 10, 20), reservation));
  EXPECT_FALSE(reservation.segments.empty());
  ASSERT_OK(memory->reserve_prompt(range_of(0, 0, 5), reservation));
  EXPECT_TRUE(reservation.segments.empty());
  ASSERT_OK(memory->rollback());
  EXPECT_EQ(memory->max_position(0), 9);
  EXPECT_EQ(memory->states().last_position(0), 9);
  EXPECT_FALSE(has_prompt(*memory, 0));
  EXPECT_ERROR(store(*memory, 0, 12, 14), "after 9");  // refused by the states after the KV cache has marked it
  EXPECT_EQ(memory->max_position(0), 9);
  EXPECT_OK(store(*memory, 0, 10, 20));
  EXPECT_EQ(memory->states().last_position(0), 19);
}

TEST(SequenceMemory, StatesRefuseBeforeTheCacheChanges) {
  const auto memory = memory_of(Parts::with_states);
  FakeCells cells;
  ASSERT_OK(store(*memory, 0, 0, 10));
  EXPECT_ERROR(memory->remove(0, 3, 5), "cannot forget a part");
  EXPECT_ERROR(memory->copy(0, 1, 0, 5, cells), "copied whole");
  EXPECT_ERROR(memory->shift(0, 0, 5, 20, cells), "shifted whole");
  EXPECT_EQ(positions_of(memory->kv(), 0).size(), 10u);
  EXPECT_EQ(memory->max_position(1), std::nullopt);
  EXPECT_EQ(memory->min_position(0), 9);  // a state has only its last position
  EXPECT_EQ(memory->lowest_rollback(0), 10);
  ASSERT_OK(memory->checkpoint(0));
  ASSERT_OK(store(*memory, 0, 10, 15));
  ASSERT_OK(memory->remove(0, 10, 256));
  EXPECT_EQ(memory->max_position(0), 9);
  EXPECT_EQ(memory->states().last_position(0), 9);
  ASSERT_OK(memory->clear());
  EXPECT_EQ(memory->states().last_position(0), std::nullopt);
}

TEST(SequenceMemory, PromptsStayUntilAllOfASequenceGoes) {
  const auto memory = memory_of(Parts::all);
  FakeCells cells;
  ASSERT_OK(store_prompt(*memory, 0, 7));
  EXPECT_ERROR(memory->require_prompts(range_of(1, 0, 1)), "sequence 1 has no prompt");
  ASSERT_OK(store(*memory, 0, 0, 10));
  ASSERT_OK(memory->copy(0, 1, 0, 256, cells));
  ASSERT_OK(memory->remove(0, 0, 256));
  EXPECT_TRUE(has_prompt(*memory, 0));
  EXPECT_EQ(positions_of(memory->prompts(), 1).size(), 7u);
  ASSERT_OK(store_prompt(*memory, 2, 3));
  ASSERT_OK(memory->copy(2, 1, 0, 256, cells));  // replaces the old prompt
  EXPECT_EQ(positions_of(memory->prompts(), 1).size(), 3u);
  ASSERT_OK(memory->copy(1, 1, 0, 256, cells));
  EXPECT_TRUE(has_prompt(*memory, 1));
  ASSERT_OK(memory->keep(1));
  EXPECT_FALSE(has_prompt(*memory, 0));
  EXPECT_TRUE(has_prompt(*memory, 1));
  EXPECT_EQ(memory->states().last_position(1), 9);
  ASSERT_OK(memory->remove_prompt(1));
  EXPECT_FALSE(has_prompt(*memory, 1));
  ASSERT_OK(store_prompt(*memory, 1, 3));
  ASSERT_OK(memory->clear());
  EXPECT_FALSE(has_prompt(*memory, 1));
}

TEST(SequenceMemory, MovesTheCellsThatTablesCannotShare) {
  const auto memory = memory_of(Parts::kv);
  FakeCells cells;
  ASSERT_OK(store(*memory, 0, 0, 70));
  number(cells, memory->kv(), 0, 0);
  ASSERT_OK(memory->copy(0, 1, 0, 64, cells));
  EXPECT_EQ(cells.n_moved(), 0u);  // a whole block is shared
  ASSERT_OK(memory->shift(0, 64, 70, 10, cells));
  EXPECT_EQ(cells.n_moved(), 6u);
  const KvCache::Cells held = memory->kv().cells(0).value();
  for (size_t i = 64; i < 70; ++i) {
    EXPECT_EQ(held.positions[i], static_cast<int32_t>(i) + 10);
    EXPECT_EQ(cells.at(memory->kv(), 0, held.cells[i]).k, static_cast<float>(i));
  }
}

TEST(SequenceMemory, ASavedSequenceComesBackWithAllParts) {
  const auto memory = memory_of(Parts::all);
  FakeCells cells;
  ASSERT_OK(store_prompt(*memory, 0, 7));
  ASSERT_OK(store(*memory, 0, 0, 70));
  number(cells, memory->kv(), 0, 0);
  number(cells, memory->prompts(), 0, 5000);
  ASSERT_OK_AND_ASSIGN(const auto saved, memory->save(0, kModel, cells));
  ASSERT_OK_AND_ASSIGN(const auto empty, memory->save(1, kModel, cells));
  ASSERT_OK(store_prompt(*memory, 1, 9));
  ASSERT_OK(store(*memory, 1, 0, 3));
  ASSERT_OK_AND_ASSIGN(const auto other, memory->save(1, kModel, cells));

  for (size_t i = 0; i < saved.size(); ++i) {
    std::vector<std::byte> damaged = saved;
    damaged[i] ^= std::byte{4};
    ASSERT_FALSE(memory->restore(1, kModel, damaged, cells).has_value()) << "byte " << i;
    ASSERT_FALSE(memory->restore(1, kModel, std::span(saved).first(i), cells).has_value()) << i << " bytes";
  }
  EXPECT_ERROR(memory->restore(1, kModel + 1, saved, cells), "saved from another model");
  EXPECT_ERROR(memory->restore(3, kModel, saved, cells), "sequence 3");
  ASSERT_OK_AND_ASSIGN(const auto unchanged, memory->save(1, kModel, cells));
  EXPECT_EQ(unchanged, other);

  ASSERT_OK(memory->restore(1, kModel, saved, cells));
  ASSERT_OK_AND_ASSIGN(const auto again, memory->save(1, kModel, cells));
  EXPECT_EQ(again, saved);
  EXPECT_EQ(memory->states().last_position(1), 69);
  const int32_t cell = memory->prompts().cells(1).value().cells[6];
  EXPECT_EQ(cells.at(memory->prompts(), 1, cell).v, -6006.0f);
  ASSERT_OK(memory->restore(1, kModel, empty, cells));
  EXPECT_EQ(memory->max_position(1), std::nullopt);
  EXPECT_EQ(memory->states().last_position(1), std::nullopt);
  EXPECT_FALSE(has_prompt(*memory, 1));
}

}  // namespace
}  // namespace tessera
