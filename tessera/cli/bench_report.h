// Output of `tessera bench`: rows in the formats and with the names of llama-bench.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/observe/bench_ops.h"
#include "tessera/observe/session_bench.h"

namespace tessera::cli {

enum class BenchFormat : uint8_t { md, csv, json, jsonl };

/// The machine that ran the tests.
struct BenchMachine {
  const Device* device = nullptr;  // the one whose peaks count
  std::string isa;
  std::map<int, DevicePeaks> peaks;  // keyed by the number of threads
};

struct BenchRow {
  std::string model_filename;
  std::string model_type;    // "llama 1.10 B q8_0"
  std::string model_format;  // the most frequent type of weights
  uint64_t model_size = 0;   // bytes of all tensors
  uint64_t model_n_params = 0;
  int64_t n_batch = 0, n_ubatch = 0;
  int n_threads = 0;
  std::string type_k, type_v;
  int64_t n_prompt = 0, n_gen = 0, n_depth = 0;
  std::vector<double> seconds;            // of each repetition; at least one
  double macs = 0;                        // multiply-adds of one repetition
  double bytes = 0;                       // weights and KV cache read by one repetition
  std::optional<StreamCounts> experts{};  // of all repetitions; none without a cache of experts
  double bound_seconds = 0;  // at the machine's peaks: multiply-adds of the prompt, bytes of the generation
  std::vector<observe::ExplainedPhase> phases{};  // with --explain
};

enum class BenchTable : uint8_t { models, ops };  // rows: BenchRow, or observe::BenchOpRow

class BenchReport {
 public:
  BenchReport(BenchTable table, BenchFormat format, BenchMachine machine)
      : table_(table), format_(format), machine_(std::move(machine)) {}

  /// Each function prints immediately. Errors: io.
  Result<> begin() const;
  Result<> add(const BenchRow& row);
  Result<> add(const observe::BenchOpRow& row);
  Result<> end() const;

 private:
  Result<> print_json(const nlohmann::ordered_json& row);

  BenchTable table_;
  BenchFormat format_;
  BenchMachine machine_;
  std::string explanations_;  // printed below the table
  int n_rows_ = 0;
};

}  // namespace tessera::cli
