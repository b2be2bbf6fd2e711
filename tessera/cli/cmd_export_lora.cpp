// tessera export-lora: writes a model file with LoRA adapters merged into its weights.
#include <fmt/format.h>

#include <filesystem>

#include "tessera/base/cpu_info.h"
#include "tessera/cli/adapter_args.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/progress.h"
#include "tessera/convert/file_types.h"
#include "tessera/convert/merge_lora.h"

namespace tessera::cli {

namespace {

class ExportLoraCommand final : public Command {
 public:
  ExportLoraCommand() { n_threads_ = default_thread_count(); }

  FlagTable flags() override {
    FlagTable table;
    add_model_flag(table, model_);
    add_lora_flags(table, loras_);
    table.common("--output -o", "FILE", "the merged model", set_string(output_));
    table.common(
        "--type", "TYPE", "type of the merged weights, e.g. f16",
        [this](std::string_view text) -> Result<> {
          type_ = convert::weight_type_from_name(text);
          if (!type_) return fail(ErrorCode::invalid_argument, "'{}' is not a type of weights, e.g. f16", text);
          return {};
        },
        "each weight's own");
    table.rare("--keep-split", "", "write one output for each part of a split input", set_switch(keep_split_));
    add_threads_flag(table, n_threads_);
    add_numa_flag(table, numa_);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(require_model(model_));
    if (loras_.empty()) return fail(ErrorCode::invalid_argument, "no adapter: give one with --lora FILE");
    if (output_.empty()) return fail(ErrorCode::invalid_argument, "no output: give one with -o FILE");
    return {};
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto files, ModelFiles::open(model_));
    convert::LoraMerge merge;
    for (const auto& [path, scale] : loras_) {
      TESSERA_ASSIGN(const LoraFile lora, LoraFile::open(path, *files));
      TESSERA_TRY(require_other(path));
      TESSERA_TRY(merge.add(lora, scale));
    }
    convert::QuantizeOptions options;
    options.mix.copy_all = true;
    options.keep_split = keep_split_;
    options.edit = &merge;
    options.program_version = TESSERA_VERSION;
    TESSERA_ASSIGN(auto plan, convert::plan_quantize(*files, options));
    TESSERA_TRY(merge.apply_to(plan, type_));
    TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads_, .numa = numa_}));
    {
      ProgressBar bar("merging", process.quiet);
      const auto progress = [&](float share) {
        bar.update(share);
        return true;
      };
      const convert::WorkContext work{*threads, &process.interrupt, progress};
      TESSERA_TRY(convert::write_quantized(*files, plan, options, output_, work));
    }
    if (!process.quiet) log(summary(plan));
    return {};
  }

 private:
  // Fails if the output would overwrite this adapter.
  Result<> require_other(const std::string& lora) const {
    std::error_code none;
    if (!std::filesystem::equivalent(lora, output_, none)) return {};
    return fail(ErrorCode::invalid_argument, "{}: is an adapter of the input: give another output", output_);
  }

  static std::string summary(const convert::QuantizePlan& plan) {
    size_t n_merged = 0, n_quantized = 0;
    for (const convert::PlannedTensor& tensor : plan.tensors) {
      n_merged += tensor.is_edited ? 1 : 0;
      n_quantized += tensor.is_edited && info(tensor.to).is_blocked() ? 1 : 0;
    }
    const std::string note = n_quantized == 0 ? "" : fmt::format(", {} of them quantized again", n_quantized);
    return fmt::format("merged into {} of {} tensors{}", n_merged, plan.tensors.size(), note);
  }

  std::string model_, output_;
  std::vector<AdapterSource> loras_;
  std::optional<DType> type_;
  int32_t n_threads_ = 1;
  NumaPolicy numa_ = NumaPolicy::none;
  bool keep_split_ = false;
};

}  // namespace

std::unique_ptr<Command> create_export_lora_command() { return std::make_unique<ExportLoraCommand>(); }

}  // namespace tessera::cli
