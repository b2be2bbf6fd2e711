// tessera split: splits one model into several files.
#include <fmt/format.h>

#include "tessera/cli/console.h"
#include "tessera/cli/progress.h"
#include "tessera/cli/shard_args.h"
#include "tessera/cli/two_paths.h"
#include "tessera/convert/shards.h"

namespace tessera::cli {

namespace {

constexpr uint64_t kDefaultTensors = 128;  // of a shard

class SplitCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    shards_.add_to(table, "128; with --split-max-size: no limit");
    table.common("--dry-run", "", "print the shards and write nothing", set_switch(is_dry_run_));
    paths_.add_to(table, "IN.gguf", "OUT_PREFIX");
    return table;
  }

  Result<> check() override { return paths_.check(); }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto files, ModelFiles::open(paths_.in));
    TESSERA_ASSIGN(const auto shards, convert::plan_shards(*files, shards_.limits(kDefaultTensors)));
    if (!is_dry_run_) {
      ProgressBar bar("splitting", process.quiet);
      TESSERA_TRY(convert::write_shards(*files, shards, paths_.out, [&](float share) {
        bar.update(share);
        return !process.interrupt.cancelled();
      }));
    }
    if (is_dry_run_ || !process.quiet) return print(table_of(shards));
    return {};
  }

 private:
  std::string table_of(std::span<const convert::Shard> shards) const {
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string path = split_path(paths_.out, static_cast<uint32_t>(i), static_cast<uint32_t>(shards.size()));
      rows.push_back(
          {path, fmt::format("{} tensors", shards[i].n_tensors), human_bytes(static_cast<double>(shards[i].n_bytes))});
    }
    return format_table(rows, "lrr");
  }

  TwoPaths paths_;
  ShardArgs shards_;
  bool is_dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> create_split_command() { return std::make_unique<SplitCommand>(); }

}  // namespace tessera::cli
