// Observing steps: watched values are the values of the run, watching does not change results, and logs report every
// step.
#include "tessera/engine/inspect.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"

namespace tessera {
namespace {

using namespace testing;

bool makes_floats(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  return !node.is_leaf() && node.op != Op::view && node.alias_of == kNoNode && node.spec.dtype == DType::f32;
}

using Values = std::map<std::pair<int, NodeId>, std::vector<float>>;  // by (step, node)

// Records the watched values. A node with a lower id than the last one begins a new step.
class Watcher {
 public:
  ValueWatch watch(WatchNode wants) {
    return {.wants = std::move(wants), .see = [this](const PreparedGraph& graph, NodeId id) -> Result<> {
              if (id <= last_) ++step_;
              last_ = id;
              TESSERA_ASSIGN((values[{step_, id}]), read_values(graph, id));
              labels[id] = label_of(graph.graph(), id);
              return {};
            }};
  }

  Values values;
  std::map<NodeId, std::string> labels;

 private:
  int step_ = 0;
  NodeId last_ = kNoNode;
};

class InspectTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = story_model();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
    tokens_ = token_ids(*engine_, 70);
  }
  SessionOptions options() const {
    return {.n_ctx = 128, .n_ubatch = 32, .n_outputs = 70, .threads = {.n_threads = 2}};
  }
  Result<std::vector<float>> run(ValueWatch watch) {
    SessionOptions with = options();
    with.watch = std::move(watch);
    TESSERA_ASSIGN(const auto session, Session::create(engine_, with));
    return logits_of(*session, tokens_);
  }
  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> tokens_;
};

// Watched values do not depend on the set of watched nodes, even if another value reuses their bytes soon after.
TEST_F(InspectTest, ValuesAreThoseOfARunInWhichAllAreKept) {
  Watcher all;
  ASSERT_OK_AND_ASSIGN(const auto want, run(all.watch(makes_floats)));
  ASSERT_GT(all.values.size(), 3 * 70u);
  for (const int part : {1, 2, 5}) {
    Watcher some;
    ASSERT_OK_AND_ASSIGN(
        const auto got,
        run(some.watch([&](const Graph& graph, NodeId id) { return makes_floats(graph, id) && id % part == 0; })));
    EXPECT_TRUE(same_bits(got, want));
    EXPECT_GT(some.values.size(), 20u);
    for (const auto& [key, values] : some.values)
      EXPECT_TRUE(same_bits(values, all.values.at(key))) << all.labels[key.second];
  }
}

TEST_F(InspectTest, ResultsDoNotChange) {
  ASSERT_OK_AND_ASSIGN(const auto plain, run({}));
  Watcher watcher;
  ASSERT_OK_AND_ASSIGN(const auto watched, run(watcher.watch(makes_floats)));
  EXPECT_TRUE(same_bits(watched, plain));
}

// The last value equals logits(), and its name selects it.
TEST_F(InspectTest, ANameFindsItsNode) {
  Watcher watcher;
  ASSERT_OK_AND_ASSIGN(
      const auto logits,
      run(watcher.watch([](const Graph& graph, NodeId id) { return label_of(graph, id) == "logits"; })));
  ASSERT_EQ(watcher.values.size(), 3u);  // 70 tokens in micro-batches of 32
  std::vector<float> seen;
  for (const auto& [key, values] : watcher.values) seen.insert(seen.end(), values.begin(), values.end());
  EXPECT_TRUE(same_bits(seen, logits));
}

TEST_F(InspectTest, AnErrorOfTheWatcherEndsTheBatch) {
  SessionOptions with = options();
  int n_seen = 0;
  with.watch = {.wants = makes_floats, .see = [&](const PreparedGraph&, NodeId) -> Result<> {
                  if (++n_seen == 100) return fail(ErrorCode::cancelled, "seen enough");
                  return {};
                }};
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, with));
  EXPECT_ERROR(session->decode(all_logits(tokens_)), "seen enough");
  EXPECT_EQ(n_seen, 100);
  EXPECT_EQ(session->max_position(0), std::nullopt);  // as before the batch
  ASSERT_OK_AND_ASSIGN(const auto plain, run({}));
  ASSERT_OK_AND_ASSIGN(const auto again, logits_of(*session, tokens_));
  EXPECT_TRUE(same_bits(again, plain));
}

TEST_F(InspectTest, StepsAreObservedWithTheirTimes) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, options()));
  std::vector<std::pair<int64_t, int64_t>> shapes;
  session->observe_steps([&](const StepView& step) {
    shapes.emplace_back(step.n_tokens, step.n_outputs);
    const Graph& graph = step.graph.schedule().graph;
    double end = 0;
    std::vector<bool> is_told(static_cast<size_t>(graph.size()));
    for (const NodeTime& time : step.log.nodes) {
      EXPECT_GE(time.begin_us, end - 1e-6);
      EXPECT_GE(time.us, 0);
      end = time.begin_us + time.us;
      EXPECT_FALSE(is_told[static_cast<size_t>(time.node)]);
      is_told[static_cast<size_t>(time.node)] = true;
    }
    // All executed nodes, except products that run fused with another one.
    for (NodeId id = 0; id < graph.size(); ++id) {
      const bool is_alone = !graph[id].is_leaf() && graph[id].op != Op::view && graph[id].op != Op::mul_mat;
      EXPECT_TRUE(!is_alone || is_told[static_cast<size_t>(id)]) << label_of(graph, id);
    }
    ASSERT_EQ(step.log.slices.size(), 1u);
    EXPECT_LE(end, step.log.slices[0].begin_us + step.log.slices[0].us);
  });
  ASSERT_OK_AND_ASSIGN(const auto logged, logits_of(*session, tokens_));
  EXPECT_EQ(shapes, (std::vector<std::pair<int64_t, int64_t>>{{32, 32}, {32, 32}, {6, 6}}));
  session->observe_steps({});
  ASSERT_OK(session->clear());
  ASSERT_OK_AND_ASSIGN(const auto plain, logits_of(*session, tokens_));
  EXPECT_EQ(shapes.size(), 3u);
  EXPECT_TRUE(same_bits(logged, plain));
}

// The two devices compute identically, so watched values equal the values of one device for every placement of layers.
TEST_F(InspectTest, ValuesOfSeveralDevicesAreSeenWhereTheyAre) {
  const std::string path = story_model();
  Watcher one;
  ASSERT_OK_AND_ASSIGN(const auto want, run(one.watch(makes_floats)));
  const auto registry = fake_registry({{}});
  for (const int64_t n_layers : {1, 3, 6}) {
    ASSERT_OK_AND_ASSIGN(
        engine_, Engine::open(*registry, path, {.placement = {.devices = {"fake:0"}, .n_gpu_layers = n_layers}}));
    ASSERT_OK(engine_->load({}));
    Watcher two;
    ASSERT_OK_AND_ASSIGN(const auto got, run(two.watch(makes_floats)));
    EXPECT_TRUE(same_bits(got, want));
    ASSERT_EQ(two.values.size(), one.values.size());
    for (const auto& [key, values] : two.values)
      EXPECT_TRUE(same_bits(values, one.values.at(key))) << one.labels[key.second];
  }
  engine_ = nullptr;  // must be destroyed before its devices
}

TEST_F(InspectTest, LayersAreThoseOfTheWeights) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::plan_session(*engine_, options()));
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, session->step_schedule(1, 1));
  const std::vector<int> layers = layers_of(schedule.graph);
  std::map<int, int> n_products;
  for (NodeId id = 0; id < schedule.graph.size(); ++id)
    if (schedule.graph[id].op == Op::mul_mat) ++n_products[layers[static_cast<size_t>(id)]];
  EXPECT_EQ(n_products, (std::map<int, int>{{-1, 1}, {0, 7}, {1, 7}, {2, 7}, {3, 7}, {4, 7}}));
  for (NodeId id = 0; id < schedule.graph.size(); ++id) {
    if (schedule.graph[id].op != Op::paged_attention) continue;
    EXPECT_EQ(label_of(schedule.graph, id), "cache.k." + std::to_string(layers[static_cast<size_t>(id)]));
  }
}

}  // namespace
}  // namespace tessera
