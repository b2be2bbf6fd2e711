// tessera split: splits one model into several files.
#include <fmt/format.h>

#include <charconv>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/two_paths.h"
#include "tessera/convert/shards.h"
#include "tessera/gguf/limits.h"

namespace tessera::cli {

namespace {

// Parses "500M" or "2G" in decimal units, the units in which file hosts state their limits.
Result<uint64_t> parse_shard_bytes(std::string_view text) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, to_size(text.data() + text.size() - end));
  const uint64_t scale = unit == "M" ? 1'000'000 : unit == "G" ? 1'000'000'000 : 0;
  const auto n_bytes = checked_mul(count, scale);
  if (error != std::errc() || scale == 0 || count == 0 || !n_bytes)
    return fail(ErrorCode::invalid_argument, "'{}' is not a shard size: want e.g. 500M or 2G (decimal)", text);
  return *n_bytes;
}

class SplitCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--split-max-tensors", "N", "largest number of tensors in a shard",
                 set_integer(max_tensors_, 1, int64_t{kGgufMaxTensors}), "128; with --split-max-size: no limit");
    table.common("--split-max-size", "N(M|G)", "largest size of the tensors in a shard, in decimal units",
                 [this](std::string_view text) -> Result<> {
                   TESSERA_ASSIGN(limits_.max_bytes, parse_shard_bytes(text));
                   return {};
                 });
    table.common("--no-tensor-first-split", "", "put only the keys into the first shard",
                 set_switch(limits_.is_first_tensorless));
    table.common("--dry-run", "", "print the shards and write nothing", set_switch(is_dry_run_));
    paths_.add_to(table, "IN.gguf", "OUT_PREFIX");
    return table;
  }

  Result<> check() override {
    if (max_tensors_ != 0)
      limits_.max_tensors = static_cast<uint64_t>(max_tensors_);
    else if (limits_.max_bytes != 0)
      limits_.max_tensors = 0;
    return paths_.check();
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto files, ModelFiles::open(paths_.in));
    TESSERA_ASSIGN(const auto shards, convert::plan_shards(*files, limits_));
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
  int64_t max_tensors_ = 0;
  convert::ShardLimits limits_;
  bool is_dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> create_split_command() { return std::make_unique<SplitCommand>(); }

}  // namespace tessera::cli
