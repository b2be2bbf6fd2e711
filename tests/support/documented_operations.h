// The column "further operations" of docs/models.md, compared with the graphs of models. Tests that have a model call
// expect_documented(). At the end of their program, EveryOperationWasSeen finds the names that no graph had.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/app/app.h"
#include "tessera/engine/session.h"
#include "tessera/graph/op_info.h"
#include "tests/support/testing.h"

namespace tessera::testing {

using OpNames = std::set<std::string>;

/// A row of the tables.
struct DocumentedModel {
  std::string section;  // the heading above the table
  std::string checks;   // "checked against": "logits", "twin", "formulas" or "twin, formulas"
  OpNames further;
};

struct DocumentedOperations {
  OpNames llama, mixtral;  // of which the rows say nothing
  std::map<std::string, DocumentedModel> models;
};

inline OpNames op_names(const std::string& words) {
  std::istringstream stream(words);
  return OpNames(std::istream_iterator<std::string>(stream), {});
}

/// The names between `begin` and the next full stop, separated by commas.
inline OpNames names_after(std::string_view page, std::string_view begin) {
  const size_t at = page.find(begin), end = page.find('.', at);
  if (at == std::string_view::npos || end == std::string_view::npos) return {};
  std::string words(page.substr(at + begin.size(), end - at - begin.size()));
  std::ranges::replace(words, ',', ' ');
  return op_names(words);
}

inline std::vector<std::string> table_cells(std::string_view line) {
  std::vector<std::string> cells;
  for (size_t begin = 1; begin < line.size();) {
    const size_t end = std::min(line.find('|', begin), line.size());
    std::string_view cell = line.substr(begin, end - begin);
    while (cell.starts_with(' ')) cell.remove_prefix(1);
    while (cell.ends_with(' ')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    begin = end + 1;
  }
  return cells;
}

/// Reads the sentences and the tables of a page.
inline DocumentedOperations operations_on_page(const std::string& page) {
  DocumentedOperations all{
      .llama = names_after(page, "Those of llama are:"), .mixtral = names_after(page, "Mixtral adds:"), .models = {}};
  std::istringstream lines(page);
  std::string section;
  bool is_table_of_models = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
    if (!line.starts_with("|")) is_table_of_models = false;
    if (line.starts_with("|---")) continue;
    const std::vector<std::string> cells = line.starts_with("|") ? table_cells(line) : std::vector<std::string>();
    if (is_table_of_models && cells.size() == 4)
      EXPECT_TRUE(all.models.try_emplace(cells[0], section, cells[2], op_names(cells[3])).second) << cells[0];
    else if (is_table_of_models)
      ADD_FAILURE() << "docs/models.md: not four cells: " << line;
    else if (!cells.empty() && cells.back() == "further operations")
      is_table_of_models = true;
  }
  return all;
}

inline const DocumentedOperations& documented_operations() {
  static const DocumentedOperations all = operations_on_page(read_all(source_dir() + "/docs/models.md"));
  return all;
}

inline OpNames without(const OpNames& names, const OpNames& others) {
  OpNames rest;
  std::ranges::set_difference(names, others, std::inserter(rest, rest.end()));
  return rest;
}

/// The operations of models of an architecture.
struct ModelOperations {
  std::string architecture;
  OpNames names{};

  void add(const Graph& graph) {
    for (const Node& node : graph.nodes())
      if (node.is_work() && node.op != Op::copy) names.emplace(info(node.op).name);
  }
  /// Those that belong in the row.
  OpNames further() const {
    return without(without(names, documented_operations().llama), documented_operations().mixtral);
  }
};

/// The operations of a file's graphs, which are built without its weights.
inline Result<ModelOperations> operations_of_file(const std::string& path) {
  TESSERA_ASSIGN(const auto registry, create_registry(""));
  TESSERA_ASSIGN(const auto engine, Engine::open(*registry, path, {}));
  const ModelInfo& model = engine->model().info();
  ModelOperations operations{model.architecture};
  for (const bool embeddings : {false, true}) {
    // The encoder of a model with logits is the model for embeddings.
    if (embeddings ? model.has_logits && !model.has_encoder() : !model.has_logits) continue;
    // The choice of the precision would read weights.
    TESSERA_ASSIGN(const auto session,
                   Session::plan_session(
                       *engine, {.n_outputs = 4, .embeddings = embeddings, .attention = AttentionPrecision::float32}));
    TESSERA_ASSIGN(const Schedule schedule, session->step_schedule(4, 2));
    operations.add(schedule.graph);
  }
  return operations;
}

/// Expects that a row has the operations of the models of its architecture. It may have more.
inline void expect_in_row(const std::string& architecture, const OpNames& further) {
  const auto& models = documented_operations().models;
  ASSERT_TRUE(models.contains(architecture)) << architecture << " is in no table of docs/models.md";
  EXPECT_EQ(without(further, models.at(architecture).further), OpNames())
      << "docs/models.md lacks operations of " << architecture;
}

/// Expects that a row has no other operations.
inline void expect_row_in(const std::string& architecture, const OpNames& further) {
  EXPECT_EQ(without(documented_operations().models.at(architecture).further, further), OpNames())
      << "docs/models.md lists operations of " << architecture << " that no model of the tests has";
}

/// The operations of the compared models of this program, by architecture.
inline std::map<std::string, OpNames>& seen_operations() {
  static std::map<std::string, OpNames> seen;
  return seen;
}

/// Expects that the row of a model has its operations. Other models of the architecture may have more of the row.
inline void expect_documented(const ModelOperations& operations) {
  seen_operations()[operations.architecture].merge(operations.further());
  expect_in_row(operations.architecture, operations.further());
}

/// The same for a file. Nothing is compared with a row that does not name `check`, because models of other tests have
/// parts that real files of the architecture lack.
inline void expect_documented(const std::string& path, std::string_view check) {
  ASSERT_OK_AND_ASSIGN(const ModelOperations operations, operations_of_file(path));
  const auto row = documented_operations().models.find(operations.architecture);
  if (row == documented_operations().models.end() || row->second.checks.find(check) != std::string::npos)
    expect_documented(operations);
}

/// The same for a step of a session.
inline void expect_documented(const Session& session) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, session.step_schedule(4, 2));
  ModelOperations operations{session.engine().model().info().architecture};
  operations.add(schedule.graph);
  expect_documented(operations);
}

/// At the end of a program that ran all of its tests: of each architecture whose row is `wanted` there was a model, and
/// its models together had each operation of the row.
class EveryOperationWasSeen : public ::testing::Environment {
 public:
  using IsWanted = std::function<bool(const DocumentedModel&)>;
  explicit EveryOperationWasSeen(IsWanted wanted) : wanted_(std::move(wanted)) {}

  void TearDown() override {
    const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
    // Tests that were left out, or stopped at a failure, may have had the models.
    if (tests.test_to_run_count() != tests.total_test_count() || tests.Failed() || !runs_all_cases()) return;
    for (const auto& [name, row] : documented_operations().models) {
      if (!wanted_(row)) continue;
      EXPECT_TRUE(seen_operations().contains(name)) << name << ": no test compared it with docs/models.md";
      expect_row_in(name, seen_operations()[name]);
    }
  }

 private:
  IsWanted wanted_;
};

}  // namespace tessera::testing
