// Experts that stay in a file: the same bits as in memory for any number of slots, which matrices a cache reads and
// keeps, several products at once, and reads that fail.
#include "tessera/cpu/expert_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "tests/cpu/matmul_testing.h"

namespace tessera {
namespace {

using namespace testing;
using cpu::ExpertCache;

/// What a source was asked for, shared with the test.
struct SourceLog {
  std::mutex mutex;
  std::vector<std::pair<size_t, size_t>> reads;  // weight, offset
  std::set<size_t> broken;                       // weights that cannot be read
  std::atomic<bool> is_slow{false};
};

class MemorySource final : public StreamSource {
 public:
  MemorySource(std::vector<const Weights*> weights, std::shared_ptr<SourceLog> log)
      : weights_(std::move(weights)), log_(std::move(log)) {}

  Result<std::span<const std::byte>> read(size_t index, size_t offset, size_t n,
                                          std::span<std::byte> staging) override {
    if (log_->is_slow) std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::lock_guard lock(log_->mutex);
    log_->reads.emplace_back(index, offset);
    if (log_->broken.contains(index)) return fail(ErrorCode::io, "weight {} is broken", index);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(staging.data()) % StreamSource::kAlignment, 0);
    EXPECT_GE(staging.size(), n + StreamSource::kSlack);
    std::ranges::copy(std::span(weights_[index]->bytes).subspan(offset, n), staging.begin());
    return std::span<const std::byte>(staging.first(n));
  }

 private:
  std::vector<const Weights*> weights_;
  std::shared_ptr<SourceLog> log_;
};

/// A list of weights [k, n_rows, n_experts], streamed with some number of slots each, and the same ones in memory.
struct StreamedSet {
  struct One {
    DType dtype;
    int64_t k, n_rows, n_experts, n_slots;
  };

  StreamedSet(const Device& device, const std::vector<One>& ones) : log(std::make_shared<SourceLog>()) {
    const StreamedBufferType& type = *device.streamed_buffer_type();
    std::vector<StreamedWeight> slots;
    std::vector<const Weights*> sources;
    for (const One& one : ones) {
      const Shape shape{one.k, one.n_rows, one.n_experts};
      const std::string name = "w" + std::to_string(weights.size());
      weights.emplace_back(one.dtype, one.k, one.n_rows * one.n_experts, weights.size() + 3);
      sources.push_back(&weights.back());
      in_memory.emplace_back(device.weight_buffer_type(Op::mul_mat_experts, one.dtype, shape), name, one.dtype, shape,
                             weights.back().bytes);
      Tensor& tensor = streamed.emplace_back(in_memory.back().tensor);
      tensor.buffer_type = &type;
      tensor.offset = streamed.size() - 1;
      slots.push_back({&tensor, one.n_slots});
    }
    planned = type.cache_bytes(slots).value();
    cache = type.create(slots, std::make_unique<MemorySource>(sources, log)).value();
    for (Tensor& tensor : streamed) tensor.buffer = cache.get();
  }
  ExpertCache& experts() const { return static_cast<ExpertCache&>(*cache); }

  std::shared_ptr<SourceLog> log;
  std::deque<Weights> weights;
  std::deque<OwnedTensor> in_memory;
  std::deque<Tensor> streamed;
  size_t planned = 0;
  std::unique_ptr<StreamedBuffer> cache;
};

/// Products of all weights with the same rows: the first n - 1 of x by token, the last of rows in routed order.
Graph products(const std::vector<const Tensor*>& weights, int64_t n_used, int64_t t) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {weights[0]->shape()[0], t});
  const ExpertRoutes routes = b.expert_routes(b.input("i", DType::i32, {n_used, t}), weights[0]->shape()[2]);
  Value last = x;
  for (size_t i = 0; i < weights.size(); ++i) {
    const bool is_last = i > 0 && i + 1 == weights.size();
    const Value y = b.mul_mat_experts(b.tensor(*weights[i]), is_last ? last : x, routes,
                                      is_last ? ExpertInput::routed : ExpertInput::tokens);
    b.output(y, "y" + std::to_string(i));
    last = y;
  }
  return std::move(b).finish().value();
}

NamedBytes random_inputs(int64_t k, int64_t n_used, int64_t t, int64_t n_experts, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> ids;
  for (int64_t token = 0; token < t; ++token) {
    std::vector<int32_t> all(static_cast<size_t>(n_experts));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t i = 0; i < n_used; ++i) {
      const auto j = static_cast<size_t>(i) + rng.next_u32() % static_cast<uint32_t>(n_experts - i);
      std::swap(all[static_cast<size_t>(i)], all[j]);
      ids.push_back(all[static_cast<size_t>(i)]);
    }
  }
  return {{"x", bytes_of(random_values(rng, k * t))}, {"i", bytes_of(ids)}};
}

std::vector<const Tensor*> pointers(const std::deque<Tensor>& tensors) {
  std::vector<const Tensor*> all;
  for (const Tensor& tensor : tensors) all.push_back(&tensor);
  return all;
}
std::vector<const Tensor*> pointers(const std::deque<OwnedTensor>& tensors) {
  std::vector<const Tensor*> all;
  for (const OwnedTensor& one : tensors) all.push_back(&one.tensor);
  return all;
}

void expect_same_bits(const GraphRunner& runner, const StreamedSet& set, int64_t n_used, int64_t t, uint64_t seed) {
  const Shape& shape = set.streamed[0].shape();
  const NamedBytes inputs = random_inputs(shape[0], n_used, t, shape[2], seed);
  ASSERT_OK_AND_ASSIGN(const NamedBytes want, runner.run(products(pointers(set.in_memory), n_used, t), inputs));
  ASSERT_OK_AND_ASSIGN(const NamedBytes got, runner.run(products(pointers(set.streamed), n_used, t), inputs));
  ASSERT_EQ(got, want) << t << " tokens, " << set.experts().counts().n_misses << " misses";
}

TEST(ExpertCache, GivesTheBitsOfWeightsInMemoryForEveryType) {
  for (const DType dtype : weight_types())
    for (const int n_threads : {1, 3}) {
      GraphRunner runner("", n_threads);
      for (const int64_t n_slots : {1, 2, 5, 6}) {
        if (!runs_all_cases() && n_slots > 1) continue;
        const StreamedSet set(runner.device(), {{dtype, 256, 48, 6, n_slots}});
        for (const int64_t t : {1, 2, 9}) {
          SCOPED_TRACE(std::string(info(dtype).name) + ", slots " + std::to_string(n_slots));
          expect_same_bits(runner, set, 2, t, static_cast<uint64_t>(t));
        }
      }
    }
}

TEST(ExpertCache, GivesThemForTheProductsOfALayer) {
  for (const std::string& isa : isa::usable_isas())
    for (const int n_threads : {1, 2, 3}) {
      GraphRunner runner(isa, n_threads);
      for (const int64_t n_slots : {1, 3, 16}) {
        const StreamedSet set(runner.device(), {{DType::q4_k, 256, 64, 16, n_slots},
                                                {DType::q4_k, 256, 64, 16, n_slots},
                                                {DType::f16, 64, 32, 16, n_slots}});
        for (int64_t step = 0; step < all_or_few(20, 6); ++step)
          expect_same_bits(runner, set, 4, step % 4 == 0 ? 17 : 1 + step % 3, static_cast<uint64_t>(step));
      }
    }
}

// Matrices larger than one read, whose last piece is shorter.
TEST(ExpertCache, ReadsLargeMatricesInPieces) {
  GraphRunner runner("", 2);
  const StreamedSet set(runner.device(), {{DType::f32, 2048, 304, 3, 2}});
  expect_same_bits(runner, set, 1, 3, 1);
  const size_t matrix = size_t{2048} * 304 * 4;
  std::set<size_t> offsets;
  for (const auto& [weight, offset] : set.log->reads) offsets.insert(offset % matrix);
  EXPECT_EQ(offsets, (std::set<size_t>{0, size_t{1} << 20, size_t{2} << 20}));
}

TEST(ExpertCache, WeightsInMemoryAndInTheFileCanShareAProduct) {
  GraphRunner runner("", 2);
  const StreamedSet set(runner.device(), {{DType::q8_0, 64, 16, 4, 2}, {DType::q8_0, 64, 32, 4, 2}});
  const NamedBytes inputs = random_inputs(64, 2, 5, 4, 1);
  const auto run = [&](const Tensor& a, const Tensor& b) {
    GraphBuilder builder;
    const Value x = builder.input("x", DType::f32, {64, 5});
    const ExpertRoutes routes = builder.expert_routes(builder.input("i", DType::i32, {2, 5}), 4);
    builder.output(builder.mul_mat_experts(builder.tensor(a), x, routes, ExpertInput::tokens), "a");
    builder.output(builder.mul_mat_experts(builder.tensor(b), x, routes, ExpertInput::tokens), "b");
    return runner.run(std::move(builder).finish().value(), inputs).value();
  };
  const NamedBytes want = run(set.in_memory[0].tensor, set.in_memory[1].tensor);
  EXPECT_EQ(run(set.streamed[0], set.in_memory[1].tensor), want);
  EXPECT_EQ(run(set.in_memory[0].tensor, set.streamed[1]), want);
}

TEST(ExpertCache, TakesThePlannedBytes) {
  const auto device = cpu::create_device("").value();
  const StreamedBufferType& type = *device->streamed_buffer_type();
  const StreamedSet set(*device, {{DType::q8_0, 64, 16, 8, 3}, {DType::f32, 64, 48, 8, 2}});
  EXPECT_EQ(set.cache->size(), set.planned);
  const size_t slots =
      3 * type.slot_bytes(DType::q8_0, {64, 16, 8}).value() + 2 * type.slot_bytes(DType::f32, {64, 48, 8}).value();
  EXPECT_GT(set.planned, slots);
  StreamedWeight more{&set.streamed[0], 4}, less{&set.streamed[1], 2};
  const StreamedWeight both[] = {more, less};
  EXPECT_EQ(type.cache_bytes(both).value() - set.planned, type.slot_bytes(DType::q8_0, {64, 16, 8}).value());
  for (const int64_t n_slots : {0, 9}) {
    more.n_slots = n_slots;
    EXPECT_ERROR(type.cache_bytes({&more, 1}), "slots for 8 matrices");
  }
}

TEST(ExpertCache, RefusesWeightsThatItCannotHold) {
  const auto device = cpu::create_device("").value();
  const StreamedBufferType& type = *device->streamed_buffer_type();
  EXPECT_ERROR(type.slot_bytes(DType::f32, {64, 20, 4}), "only matrices of whole panels");
  EXPECT_ERROR(type.slot_bytes(DType::i32, {64, 16, 4}), "i32 has no packed form");
  EXPECT_ERROR(type.allocate(100, BufferUsage::weights), "created for a list of weights");
  EXPECT_EQ(type.tensor_bytes(DType::f32, {64, 16, 4}).value(), 4 * type.slot_bytes(DType::f32, {64, 16, 4}).value());
}

TEST(ExpertCache, IsOnlyReadAndReadsThroughToTheFile) {
  const auto device = cpu::create_device("").value();
  const StreamedSet set(*device, {{DType::q8_0, 64, 16, 3, 2}, {DType::f32, 256, 1600, 2, 2}});
  for (size_t i = 0; i < 2; ++i) {
    const Tensor& tensor = set.streamed[i];
    Bytes bytes(set.weights[i].bytes.size() - 68);
    ASSERT_OK(set.cache->get(tensor, 68, bytes));
    EXPECT_TRUE(std::ranges::equal(bytes, std::span(set.weights[i].bytes).subspan(68)));
    EXPECT_ERROR(set.cache->get(tensor, 69, bytes), "w" + std::to_string(i));
    EXPECT_ERROR(set.cache->set(tensor, 0, bytes), "only read");
  }
  EXPECT_ERROR(set.cache->clear(std::byte{0}), "only read");
  EXPECT_ERROR(set.cache->reset(), "only read");
}

// One weight of 8 matrices, small enough for one read each. The test takes the part of a product.
class SmallCache : public ::testing::Test {
 protected:
  void use(std::vector<int32_t> matrices) {
    cache().expect(0, matrices);
    cache().sort_for_use(0, matrices);
    order_ = matrices;
    for (const int32_t matrix : matrices) {
      ASSERT_OK(cache().acquire(0, matrix));
      cache().release(0, matrix, true);
    }
  }
  /// Returns the matrices that were read since the last call, in ascending order.
  std::vector<size_t> read() {
    const std::lock_guard lock(set_.log->mutex);
    std::vector<size_t> matrices;
    for (const auto& [weight, offset] : set_.log->reads) matrices.push_back(offset / (64 * 16 * 4));
    set_.log->reads.clear();
    std::ranges::sort(matrices);
    return matrices;
  }
  cpu::ExpertCache& cache() { return set_.experts(); }

  std::unique_ptr<Device> device_ = cpu::create_device("").value();
  StreamedSet set_{*device_, {{DType::f32, 64, 16, 8, 4}}};
  std::vector<int32_t> order_;
};

TEST_F(SmallCache, ReadsOnlyWhatIsNotInMemory) {
  use({1, 2, 3});
  EXPECT_EQ(read(), (std::vector<size_t>{1, 2, 3}));
  use({3, 1});
  EXPECT_EQ(read(), (std::vector<size_t>{}));
  const StreamCounts counts = cache().counts();
  EXPECT_EQ(counts.n_misses, 3);
  EXPECT_EQ(counts.n_hits, 2);
  EXPECT_EQ(counts.n_read_bytes, 3 * 64 * 16 * 4);
  EXPECT_DOUBLE_EQ(counts.hit_share(), 0.4);
}

TEST_F(SmallCache, GivesUpTheMatrixThatWasUsedLongestAgo) {
  for (const int32_t matrix : {1, 2, 3, 4}) use({matrix});  // a list is used in the order in which its reads end
  use({1});
  use({5});
  EXPECT_EQ(read(), (std::vector<size_t>{1, 2, 3, 4, 5}));
  use({1, 3, 4, 5});
  EXPECT_EQ(read(), (std::vector<size_t>{}));
  use({2});
  EXPECT_EQ(read(), (std::vector<size_t>{2}));
}

// Otherwise a product of all experts would read all of them again, in place of the ones that it needs next.
TEST_F(SmallCache, UsesTheMatricesInMemoryFirst) {
  use({4, 5, 6, 7});
  read();
  use({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(read(), (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(std::ranges::equal(std::span(order_).first(4), std::vector<int32_t>{4, 5, 6, 7}));
  use({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(read(), (std::vector<size_t>{4, 5, 6, 7}));
}

TEST_F(SmallCache, ReadsAnnouncedMatricesAheadButDropsNoneForThem) {
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  cache().expect(0, all);
  for (const int32_t matrix : {0, 1, 2, 3}) ASSERT_OK(cache().acquire(0, matrix));
  EXPECT_EQ(read(), (std::vector<size_t>{0, 1, 2, 3}));
  cache().release(0, 2, true);  // its slot is the only one that is free
  ASSERT_OK(cache().acquire(0, 4));
  EXPECT_EQ(read(), (std::vector<size_t>{4}));
  for (const int32_t matrix : {0, 1, 3, 4}) cache().release(0, matrix, false);
}

TEST_F(SmallCache, CountsAnAnnouncementOnce) {
  const std::vector<int32_t> two = {0, 1};
  cache().expect(0, two);
  cache().expect(0, two);
  EXPECT_EQ(cache().counts().n_misses + cache().counts().n_hits, 2);
  use({0, 1});
  EXPECT_EQ(cache().counts().n_misses + cache().counts().n_hits, 2);
}

TEST_F(SmallCache, AnAnnouncementTakesBackTheOneBefore) {
  const std::vector<int32_t> first = {0, 1, 2, 3}, second = {4, 5, 6, 7};
  cache().expect(0, first);
  for (const int32_t matrix : first) ASSERT_OK(cache().acquire(0, matrix));
  for (const int32_t matrix : first) cache().release(0, matrix, false);  // as a product that was cancelled
  read();
  use(second);
  EXPECT_EQ(read(), (std::vector<size_t>{4, 5, 6, 7}));
}

// The reading threads end all reads that have begun before they begin another one of the same list.
TEST_F(SmallCache, ReadsWhatIsForecast) {
  const std::vector<int32_t> three = {1, 2, 3};
  cache().forecast(0, three);
  use({2, 3, 5});
  EXPECT_EQ(cache().counts().n_forecast, 3);
  EXPECT_EQ(cache().counts().n_right, 2);
  const std::vector<size_t> matrices = read();
  EXPECT_EQ(std::ranges::count(matrices, size_t{2}), 1);
  EXPECT_EQ(std::ranges::count(matrices, size_t{3}), 1);
  EXPECT_EQ(std::ranges::count(matrices, size_t{5}), 1);
  EXPECT_LE(matrices.size(), 4);  // 1 is read only if its read began before the announcement
}

TEST_F(SmallCache, AForecastTakesNoSlotFromWhatIsAnnouncedOrForecast) {
  const std::vector<int32_t> announced = {0, 1}, forecast = {2, 3, 4, 5};
  cache().expect(0, announced);
  for (const int32_t matrix : announced) ASSERT_OK(cache().acquire(0, matrix));
  for (const int32_t matrix : announced) cache().release(0, matrix, false);
  cache().forecast(0, forecast);
  for (const int32_t matrix : {2, 3}) ASSERT_OK(cache().acquire(0, matrix));
  EXPECT_EQ(read(), (std::vector<size_t>{0, 1, 2, 3}));
  for (const int32_t matrix : {2, 3}) cache().release(0, matrix, false);
  use({0, 1, 2, 3});
  EXPECT_EQ(read(), (std::vector<size_t>{}));
}

TEST_F(SmallCache, WrongForecastsAreNoLongerRead) {
  const std::vector<int32_t> wrong = {5, 6}, right = {1, 2};
  use({1, 2});
  for (int i = 0; i < 40; ++i) {
    cache().forecast(0, wrong);
    use({1, 2});
  }
  do use({1, 2, 3, 4});  // takes the slots of 5 and 6, as soon as no read of them is under way
  while (!read().empty());
  cache().forecast(0, wrong);
  use({1, 2, 3, 4});
  EXPECT_EQ(read(), (std::vector<size_t>{}));
  // They are still compared, and count again once they are right.
  for (int i = 0; i < 40; ++i) {
    cache().forecast(0, right);
    use({1, 2});
  }
  const std::vector<int32_t> other = {7};
  cache().forecast(0, other);
  std::vector<int32_t> order = {0, 7};
  cache().sort_for_use(0, order);
  EXPECT_EQ(order, (std::vector<int32_t>{7, 0}));  // 7 has a slot
  EXPECT_EQ(cache().counts().n_forecast, 40 * 2 + 2 + 40 * 2);
}

TEST_F(SmallCache, AThreadThatNeedsAMatrixWaitsForASlot) {
  for (const int32_t matrix : {0, 1, 2, 3}) ASSERT_OK(cache().acquire(0, matrix));
  std::atomic<bool> has_it{false};
  std::thread other([&] {
    EXPECT_OK(cache().acquire(0, 7));
    has_it = true;
    cache().release(0, 7, true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_it);
  cache().release(0, 1, true);
  other.join();
  EXPECT_TRUE(has_it);
  EXPECT_GT(cache().counts().n_wait_us, 0);
  for (const int32_t matrix : {0, 2, 3}) cache().release(0, matrix, true);
}

TEST_F(SmallCache, AFailedReadIsAnErrorAndIsTriedAgain) {
  set_.log->broken = {0};
  EXPECT_ERROR(cache().acquire(0, 1), "weight 0 is broken");
  EXPECT_ERROR(cache().acquire(0, 1), "weight 0 is broken");
  set_.log->broken.clear();
  use({1});
}

// The test holds the source's lock: each of the 8 threads that read has taken one of 8 announced matrices and waits,
// and all forecasts are still queued.
TEST(ExpertCache, AnAnnouncementSettlesTheQueuedForecastsOfItsWeight) {
  const auto device = cpu::create_device("").value();
  const StreamedSet set(*device, {{DType::f32, 64, 16, 24, 24}, {DType::f32, 64, 16, 24, 24}});
  ExpertCache& cache = set.experts();
  std::vector<int32_t> first(8), forecast(8);
  std::iota(first.begin(), first.end(), 0);
  std::iota(forecast.begin(), forecast.end(), 8);
  const std::vector<int32_t> announced = {8, 9, 20};
  {
    const std::lock_guard lock(set.log->mutex);
    cache.expect(0, first);
    cache.forecast(0, forecast);
    cache.forecast(1, forecast);
    cache.expect(1, announced);
    std::vector<int32_t> order = {10, 9, 23, 20};
    cache.sort_for_use(1, order);
    EXPECT_EQ(order, (std::vector<int32_t>{9, 20, 10, 23}));  // 10 has lost its slot
    order = {16, 15};
    cache.sort_for_use(0, order);
    EXPECT_EQ(order, (std::vector<int32_t>{15, 16}));  // the other weight's forecast stays
  }
  for (const int32_t matrix : announced) {
    ASSERT_OK(cache.acquire(1, matrix));
    cache.release(1, matrix, true);
  }
  for (int32_t matrix = 0; matrix < 16; ++matrix) {
    ASSERT_OK(cache.acquire(0, matrix));
    cache.release(0, matrix, true);
  }
  const std::lock_guard lock(set.log->mutex);
  std::vector<size_t> of_second;
  for (const auto& [weight, offset] : set.log->reads)
    if (weight == 1) of_second.push_back(offset / (64 * 16 * 4));
  std::ranges::sort(of_second);
  EXPECT_EQ(of_second, (std::vector<size_t>{8, 9, 20}));
  EXPECT_EQ(cache.counts().n_forecast, 8);
  EXPECT_EQ(cache.counts().n_right, 2);
  EXPECT_EQ(cache.counts().n_misses, 8 + 3);  // none of them was complete
  EXPECT_EQ(cache.counts().n_read_bytes, (8 + 8 + 3) * 64 * 16 * 4);
}

TEST(ExpertCache, AFailedReadFailsTheRunAndNotTheNext) {
  GraphRunner runner("", 3);
  const StreamedSet set(runner.device(), {{DType::q8_0, 64, 64, 8, 2}, {DType::q8_0, 64, 16, 8, 2}});
  const NamedBytes inputs = random_inputs(64, 2, 7, 8, 1);
  set.log->broken = {1};
  EXPECT_ERROR(runner.run(products(pointers(set.streamed), 2, 7), inputs), "weight 1 is broken");
  {
    const std::lock_guard lock(set.log->mutex);
    set.log->broken.clear();
  }
  expect_same_bits(runner, set, 2, 7, 1);
}

/// Two layers with a router each: the second one's x is `sign` times the first one's.
Graph two_layers(const std::vector<const Tensor*>& experts, const Tensor& router, float sign, int64_t n_used,
                 int64_t t) {
  GraphBuilder b;
  Value x = b.input("x", DType::f32, {experts[0]->shape()[0], t});
  for (size_t layer = 0; layer < 2; ++layer) {
    const Value scores = b.scale(b.mul_mat(b.tensor(router), x), 0.5f);
    const ExpertRoutes routes = b.expert_routes(b.top_k(scores, n_used), experts[0]->shape()[2]);
    const Value y = b.mul_mat_experts(b.tensor(*experts[2 * layer]), x, routes, ExpertInput::tokens);
    const Value z = b.mul_mat_experts(b.tensor(*experts[2 * layer + 1]), y, routes, ExpertInput::routed);
    b.output(z, "y" + std::to_string(layer));
    x = b.scale(x, sign);
  }
  return std::move(b).finish().value();
}

TEST(ExpertCache, ALayerForecastsTheExpertsOfTheNext) {
  for (const int n_threads : {1, 3}) {
    GraphRunner runner("", n_threads);
    const StreamedSet::One up{DType::q8_0, 64, 32, 16, 6}, down{DType::q8_0, 32, 64, 16, 6};
    const StreamedSet set(runner.device(), {up, down, up, down});
    const Weights router_weights(DType::f32, 64, 16, 9);
    const OwnedTensor router(runner.device().weight_buffer_type(Op::mul_mat, DType::f32, {64, 16}), "router",
                             DType::f32, {64, 16}, router_weights.bytes);
    StreamCounts before;
    for (const auto& [sign, t, n_right] :
         {std::tuple{1.0f, int64_t{1}, 6}, {-1.0f, int64_t{1}, 0}, {1.0f, int64_t{5}, 0}}) {
      const NamedBytes inputs{{"x", random_inputs(64, 3, t, 16, 2).at("x")}};
      ASSERT_OK_AND_ASSIGN(const NamedBytes want,
                           runner.run(two_layers(pointers(set.in_memory), router.tensor, sign, 3, t), inputs));
      ASSERT_OK_AND_ASSIGN(const NamedBytes got,
                           runner.run(two_layers(pointers(set.streamed), router.tensor, sign, 3, t), inputs));
      EXPECT_EQ(got, want);
      const StreamCounts counts = set.experts().counts().since(before);
      before = set.experts().counts();
      EXPECT_EQ(counts.n_forecast, t == 1 ? 6 : 0) << "3 experts of 2 weights, and none for 5 tokens";
      EXPECT_EQ(counts.n_right, n_right) << sign;
    }
  }
}

// Two slots are enough for any number of threads: a thread that waits holds no matrix.
TEST(ExpertCache, ServesSeveralBackendsAtOnce) {
  const auto device = cpu::create_device("").value();
  const StreamedSet set(*device, {{DType::q8_0, 64, 64, 8, 2}, {DType::q8_0, 64, 64, 8, 2}});
  set.log->is_slow = true;
  const NamedBytes inputs = random_inputs(64, 3, 5, 8, 1);
  const auto run = [&](const std::vector<const Tensor*>& weights) {
    const auto backend = device->create_backend({.threads = {.n_threads = 3}}).value();
    Executor executor(*backend);
    const Graph graph = products(weights, 3, 5);
    EXPECT_OK(executor.reserve({&graph, 1}));
    const auto prepared = executor.prepare(graph).value();
    EXPECT_OK(set_inputs(*prepared, inputs));
    NamedBytes outputs;
    for (int i = 0; i < all_or_few(20, 4); ++i) {
      EXPECT_OK(executor.run(*prepared));
      const NamedBytes now = outputs_of(*prepared).value();
      EXPECT_TRUE(outputs.empty() || now == outputs);
      outputs = now;
    }
    return outputs;
  };
  const NamedBytes want = run(pointers(set.in_memory));
  std::vector<std::thread> threads;
  std::vector<NamedBytes> got(3);
  for (NamedBytes& one : got) threads.emplace_back([&] { one = run(pointers(set.streamed)); });
  for (std::thread& thread : threads) thread.join();
  for (const NamedBytes& one : got) EXPECT_EQ(one, want);
}

TEST(ExpertCache, OnlyProductsOfExpertsReadIt) {
  const auto device = cpu::create_device("").value();
  const StreamedSet set(*device, {{DType::q8_0, 64, 16, 1, 1}});
  const auto backend = device->create_backend({}).value();
  const auto work_bytes = [&](const Tensor& weights) {
    GraphBuilder b;
    b.output(b.mul_mat(b.tensor(weights), b.input("x", DType::f32, {64, 2})), "y");
    return backend->work_bytes(std::move(b).finish().value());
  };
  EXPECT_OK(work_bytes(set.in_memory[0].tensor));
  EXPECT_FALSE(work_bytes(set.streamed[0]).has_value());
}

}  // namespace
}  // namespace tessera
