// tessera graph: the JSON of every node, a consistent memory map, consistent DOT, and names that stay text. Tests of
// the page in a browser are in graph_page_test.cpp.
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/cli/cli_support.h"
#include "tests/support/diffusion_model.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_encoder.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::read_all;
using testing::run_program;
using testing::temporary_dir;

std::string graph_file(const std::string& model, const std::string& name, std::vector<std::string> flags = {}) {
  const std::string path = (temporary_dir() / name).string();
  std::vector<std::string> args = {"graph", "-m", model, "-p", "24", "-o", path, "-q"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = run_program(args);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, "");
  return read_all(path);
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Graph, JsonTellsWhereEveryNodeRunsAndWhy) {
  const std::string model = testing::story_model();
  const json graph = json::parse(graph_file(model, "g.json"));
  ASSERT_EQ(graph["steps"].size(), 2u);
  EXPECT_EQ(graph["steps"][0]["title"], "prefill");
  EXPECT_EQ(graph["steps"][0]["n_tokens"], 24);
  EXPECT_EQ(graph["steps"][1]["title"], "decode");
  EXPECT_EQ(graph["steps"][1]["n_tokens"], 1);
  for (const json& step : graph["steps"]) {
    EXPECT_EQ(step["slices"].size(), 1u);
    EXPECT_EQ(step["n_copies"], 0);
    const auto n_nodes = step["nodes"].size();
    std::map<std::string, int> ops;
    for (size_t id = 0; id < n_nodes; ++id) {
      const json& node = step["nodes"][id];
      ASSERT_EQ(node["device"], 0);
      ASSERT_TRUE(node["cause"].is_string());
      for (const json& source : node["sources"]) ASSERT_LT(source, id);  // -1: absent
      if (node.contains("at")) ++ops[node["op"]];
    }
    // 5 layers: q, k, v, output, gate, up, down; and the logits.
    EXPECT_EQ(ops["mul_mat"], 5 * 7 + 1);
    EXPECT_EQ(ops["paged_attention"], 5);
    EXPECT_EQ(ops["kv_store"], 10);
    EXPECT_FALSE(ops.contains("view"));
    EXPECT_EQ(step["blocks"].size(), 5u + 2);
  }
}

TEST(Graph, TimesAreOfAStepAndAddUp) {
  const std::string model = testing::story_model();
  const json graph = json::parse(graph_file(model, "t.json", {"-t", "2"}));
  for (const json& step : graph["steps"]) {
    double sum = 0, last = 0;
    int n_timed = 0, n_untimed_products = 0;
    for (const json& node : step["nodes"]) {
      if (node.contains("time")) {
        EXPECT_GE(node["time"][0].get<double>(), last);  // in order of execution
        EXPECT_GE(node["time"][1].get<double>(), 0);
        last = node["time"][0];
        sum += node["time"][1].get<double>();
        ++n_timed;
      } else if (node.contains("at")) {
        EXPECT_EQ(node["op"], "mul_mat");  // k, v and up run with q and gate
        ++n_untimed_products;
      }
    }
    EXPECT_EQ(n_untimed_products, 5 * 3);
    EXPECT_GT(n_timed, 60);
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, step["us"].get<double>());
  }
}

// Two values with overlapping lifetimes share no byte. A value may reuse the memory of another one whose last reader
// computes it.
TEST(Graph, TheMemoryMapIsOne) {
  for (const char* name : {"story", "gemma3-dense", "llama-moe"}) {
    const json graph = json::parse(graph_file(testing::named_model(name), "m.json"));
    for (const json& step : graph["steps"]) {
      const json& values = step["values"];
      ASSERT_GT(values.size(), 20u);
      size_t n_shared = 0;
      for (size_t i = 0; i < values.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          const auto [a, b] = std::pair(values[j], values[i]);
          if (a[1] != b[1] || a[2].get<int64_t>() >= b[2].get<int64_t>() + b[3].get<int64_t>() ||
              b[2].get<int64_t>() >= a[2].get<int64_t>() + a[3].get<int64_t>())
            continue;
          ++n_shared;
          EXPECT_TRUE(a[5] <= b[4] || b[5] <= a[4]) << name << ": " << a << " and " << b;
        }
      EXPECT_GT(n_shared, 20u) << name;
      for (const json& value : values)
        EXPECT_LE(value[2].get<int64_t>() + value[3].get<int64_t>(),
                  graph["memories"][value[1].get<size_t>()]["reserved"].get<int64_t>());
    }
  }
}

TEST(Graph, BoxesOfABlockDoNotOverlap) {
  for (const char* name : {"story", "deepseek2-moe", "mamba-dense"}) {
    const json graph = json::parse(graph_file(testing::named_model(name), "b.json"));
    const double width = graph["node_width"], height = graph["node_height"];
    std::map<size_t, std::vector<std::pair<double, double>>> boxes;
    const json& step = graph["steps"][0];
    for (const json& node : step["nodes"]) {
      if (!node.contains("at")) continue;
      const size_t block = node["at"][0];
      const double x = node["at"][1], y = node["at"][2];
      EXPECT_GE(x, 0);
      EXPECT_LE(x + width, step["blocks"][block]["w"].get<double>() + 1);  // both are rounded
      EXPECT_LE(y + height, step["blocks"][block]["h"].get<double>());
      for (const auto& [x2, y2] : boxes[block])
        EXPECT_TRUE(std::abs(x - x2) >= width || std::abs(y - y2) >= height) << name << ": " << node["label"];
      boxes[block].emplace_back(x, y);
    }
  }
}

TEST(Graph, DotOnStdoutHangsTogether) {
  const std::string model = testing::story_model();
  const ProgramOutput output = run_program({"graph", "-m", model, "-p", "8", "-q"});
  ASSERT_EQ(output.status, 0) << output.err;
  const std::string& dot = output.out;
  EXPECT_TRUE(dot.starts_with("digraph \""));
  EXPECT_EQ(occurrences(dot, "{"), occurrences(dot, "}"));
  EXPECT_NE(dot.find("label=\"slice 0: cpu\""), std::string::npos);
  EXPECT_EQ(occurrences(dot, "subgraph cluster_"), 4u);  // two steps of one slice
  std::set<std::string> nodes;
  const std::regex node_line(R"(\n +(s\d+n\d+) \[label=)"), edge_line(R"(\n +(s\d+n\d+) -> (s\d+n\d+)[; ])");
  for (std::sregex_iterator i(dot.begin(), dot.end(), node_line), end; i != end; ++i) nodes.insert((*i)[1]);
  EXPECT_EQ(nodes.size(), 91u + 89u);  // a step of a single token needs no selection of rows
  size_t n_edges = 0;
  for (std::sregex_iterator i(dot.begin(), dot.end(), edge_line), end; i != end; ++i, ++n_edges) {
    EXPECT_TRUE(nodes.contains((*i)[1])) << (*i)[0];
    EXPECT_TRUE(nodes.contains((*i)[2])) << (*i)[0];
  }
  EXPECT_GT(n_edges, 200u);
  if (std::filesystem::exists("/usr/bin/dot")) {  // Graphviz, if installed
    const std::string path = testing::write_temporary("g.dot", dot);
    EXPECT_EQ(std::system(("/usr/bin/dot -Tsvg " + path + " >/dev/null").c_str()), 0);
  }
}

TEST(Graph, NamesOfAFileStayText) {
  const std::string model = testing::story_model();
  testing::EditableModel edited(model);
  edited.builder.set("general.name", std::string("</script><script>document.title='taken'</script>\"];\n} \xff"));
  const std::string path = edited.write("hostile.gguf");
  const std::string page = graph_file(path, "hostile.html");
  EXPECT_EQ(page.find("<script>document.title"), std::string::npos);
  EXPECT_EQ(occurrences(page, "</script>"), 3u);
  EXPECT_NE(page.find("\\u003c/script>"), std::string::npos);
  const std::string dot = graph_file(path, "hostile.dot");
  EXPECT_EQ(dot.find('\n'), dot.find("{\n") + 1);  // the name does not break the first line
  EXPECT_NE(dot.find("\\\"];"), std::string::npos);
  EXPECT_NO_THROW(json::parse(graph_file(path, "hostile.json")));
}

TEST(Graph, ThePageNeedsNothingFromElsewhere) {
  const std::string model = testing::story_model();
  const std::string page = graph_file(model, "alone.html");
  for (const char* part : {"http://", "https://", "src=", "import(", "fetch(", "@import", "url("})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("/*DATA*/"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(Graph, EncodersAreStepsToo) {
  testing::TinyT5 both("t5");
  json graph = json::parse(graph_file(both.write("t5.gguf"), "t5.json"));
  ASSERT_EQ(graph["steps"].size(), 3u);
  EXPECT_EQ(graph["steps"][0]["title"], "encode");
  EXPECT_EQ(graph["steps"][1]["title"], "prefill");
  testing::TinyEncoder encoder("bert");
  graph = json::parse(graph_file(encoder.write("bert.gguf"), "bert.json"));
  ASSERT_EQ(graph["steps"].size(), 1u);
}

// Dream computes the logits of all masks of a text, up to 128 of them, and LLaDA those of a block.
TEST(Graph, AModelThatFillsInATextHasOneStep) {
  const std::string dream = testing::diffusion_model("dream-dense").write("graph-dream.gguf");
  testing::EditableModel model = testing::diffusion_model("llada-dense");
  model.builder.set("diffusion.shift_logits", false);
  const std::string llada = model.write("graph-llada.gguf");
  const auto expect_step = [](const json& graph, int n_tokens, int n_outputs) {
    ASSERT_EQ(graph["steps"].size(), 1u);
    const json& step = graph["steps"][0];
    EXPECT_EQ(step["title"], "diffusion");
    EXPECT_EQ(step["n_tokens"], n_tokens);
    EXPECT_EQ(step["n_outputs"], n_outputs);
    const auto computes = [](const json& node) { return node["op"] == "paged_attention" && node.contains("time"); };
    EXPECT_EQ(std::ranges::count_if(step["nodes"], computes), 2);
  };
  expect_step(json::parse(graph_file(dream, "dream.json")), 24, 24);
  expect_step(json::parse(graph_file(llada, "llada.json", {"-p", "90"})), 90, 30);
  expect_step(json::parse(graph_file(llada, "llada.json", {"-p", "1"})), 1, 1);
  expect_step(json::parse(graph_file(dream, "dream.json", {"-c", "300", "-p", "300"})), 300, 128);
  EXPECT_NE(run_program({"graph", "-m", dream, "-q"}).out.find("diffusion: 128 tokens"), std::string::npos);
  expect_refusal(run_program({"graph", "-m", dream, "-p", "129", "-q"}), 1,
                 "a text of 129 tokens, micro-batch of 512 (-ub) in a context of 128 (-c)");
}

TEST(Graph, WhatCannotBeShownIsRefused) {
  const std::string model = testing::story_model();
  expect_refusal(run_program({"graph", "-m", model, "-o", "g.png"}), 2, "-o g.png: want a name that ends in .html");
  expect_refusal(run_program({"graph", "-m", model, "-p", "600", "-q"}), 1, "micro-batch of 512 (-ub)");
  expect_refusal(run_program({"graph", "-m", model, "-c", "1", "-q"}), 1, "context of 1 (-c)");
  expect_refusal(run_program({"graph", "-m", model, "-o", "/nowhere/g.html", "-q"}), 1, "/nowhere");
}

}  // namespace
}  // namespace tessera
