// The report of a step on two devices, in JSON and DOT: its slices, copies and causes equal the schedule's.
#include "tessera/observe/graph_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"

namespace tessera {
namespace {

using nlohmann::json;

class GraphReportTest : public ::testing::Test {
 protected:
  // The last two layers and the output are on a device that does not report the times of nodes.
  void SetUp() override {
    registry_ = testing::fake_registry({{}});
    ASSERT_OK_AND_ASSIGN(engine_, Engine::open(*registry_, testing::story_model(),
                                               {.placement = {.devices = {"fake:0"}, .n_gpu_layers = 3}}));
    ASSERT_OK(engine_->load({}));
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, {.n_ctx = 64, .threads = {.n_threads = 2}}));
    report_.model = "two";
    report_.devices = session_->executor().devices();
    report_.memories = session_->executor().memories();
    report_.reserved_bytes = session_->executor().reserved_bytes();
    report_.buffers = session_->allocated_memory();
    session_->observe_steps(
        [&](const StepView& view) { report_.steps.push_back(observe::copy_step(view, "prefill")); });
    ASSERT_OK(session_->decode(Batch::prompt(testing::token_ids(*engine_, 20), 0, 0)));
    ASSERT_EQ(report_.steps.size(), 1u);
  }

  std::shared_ptr<Registry> registry_;
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  observe::GraphReport report_;
};

TEST_F(GraphReportTest, NodesOfLayersNameThem) {
  const json report = json::parse(observe::graph_json(report_));
  std::set<int> layers;
  for (const json& node : report["steps"][0]["nodes"])
    if (node.contains("layer")) layers.insert(node["layer"].get<int>());
  EXPECT_EQ(layers, (std::set<int>{0, 1, 2, 3, 4}));
}

TEST_F(GraphReportTest, SlicesAndCopiesAreTheSchedules) {
  const json report = json::parse(observe::graph_json(report_));
  const json& step = report["steps"][0];
  ASSERT_EQ(report["devices"].size(), 2u);
  EXPECT_EQ(report["devices"][0]["name"], "fake:0");
  EXPECT_EQ(report["memories"].size(), 2u);
  // The CPU runs layers 0 to 2, the device the others.
  ASSERT_EQ(step["slices"].size(), 2u);
  EXPECT_EQ(step["slices"][0]["device"], 1);
  EXPECT_EQ(step["slices"][1]["device"], 0);
  EXPECT_GE(step["slices"][1]["begin_us"].get<double>(), step["slices"][0]["us"].get<double>());
  size_t n_copies = 0;
  for (const json& node : step["nodes"]) {
    if (node.contains("at")) {
      const json& block = step["blocks"][node["at"][0].get<size_t>()];
      EXPECT_EQ(block["slice"], node["slice"]);
      EXPECT_EQ(step["slices"][node["slice"].get<size_t>()]["device"], node["device"]);
    }
    if (node["op"] != "copy") continue;
    ++n_copies;
    EXPECT_EQ(node["device"], 0);
    EXPECT_EQ(node["slice"], 1);
    EXPECT_TRUE(node.contains("time"));
    EXPECT_EQ(node["memory"], "fake:0");
  }
  EXPECT_GT(n_copies, 0u);
  EXPECT_EQ(step["n_copies"], n_copies);
  EXPECT_EQ(step["slices"][1]["copies"].size(), n_copies);
  const auto cause_of = [&](const std::string& label) {
    const auto found = std::ranges::find_if(
        step["nodes"], [&](const json& node) { return node["label"] == label && node["op"] == "mul_mat"; });
    return (*found)["cause"];
  };
  EXPECT_EQ(cause_of("blk.4.attn_q.weight"), "reads");
}

TEST_F(GraphReportTest, OnlyDevicesThatCanTellHaveTimesOfNodes) {
  const json report = json::parse(observe::graph_json(report_));
  size_t n_timed = 0;
  for (const json& node : report["steps"][0]["nodes"]) {
    if (!node.contains("time") || node["op"] == "copy") continue;
    EXPECT_EQ(node["device"], 1) << node;
    ++n_timed;
  }
  EXPECT_GT(n_timed, 30u);
}

TEST_F(GraphReportTest, DotHasAClusterForEachSlice) {
  const std::string dot = observe::graph_dot(report_);
  EXPECT_NE(dot.find("label=\"slice 0: cpu\""), std::string::npos);
  EXPECT_NE(dot.find("label=\"slice 1: fake:0\""), std::string::npos);
  EXPECT_NE(dot.find("style=\"filled,dashed\""), std::string::npos);
  EXPECT_NE(dot.find("[style=dashed];"), std::string::npos);
}

}  // namespace
}  // namespace tessera
