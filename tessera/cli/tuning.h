// The settings that `tessera tune` finds for a model on a machine. They change the speed and no result. run, chat,
// serve, bench, plan and trace use them where flags say nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/cli/model_args.h"
#include "tessera/cli/speculation_args.h"

namespace tessera::cli {

struct Tuning {
  int32_t n_threads = 1;
  bool has_cpu_each = false;    // each thread keeps to a CPU of its own (--cpu-strict 1)
  bool is_distributed = false;  // threads are spread over memory nodes (--numa distribute)
  int64_t n_ubatch = 512;
  std::vector<DraftKind> kinds{};  // of guesses; empty: none
  std::string date{};              // "2026-11-27"

  void apply_threads(ThreadPoolOptions& threads) const;
};

/// "2 threads, micro-batch 512, guesses by suffix"
std::string describe(const Tuning& tuning);

/// Identifies the machine: the processor, and the CPUs that this process may use.
std::string machine_identity();
/// Identifies a model by the size, the first and the last bytes of its file. An empty path is the bundled model.
/// Errors: not_found, io.
Result<std::string> model_identity(const std::string& path);

/// Adds --no-tuning.
void add_tuning_flag(FlagTable& table, ContextArgs& context);

/// Sets what no flag has set from the tuning of this model on this machine, and says so on stderr. Does nothing
/// without one. A file of tunings that cannot be read is a warning.
void use_tuning(ModelArgs& model, ContextArgs& context, const SpeculationArgs& speculation, const Context& process);

}  // namespace tessera::cli
