// tessera convert: converts a checkpoint, as the hubs store models, to a GGUF file, at once in any type that
// `tessera quantize` knows, or a LoRA adapter. --dry-run prints the types and sizes without writing.
#include <fmt/format.h>

#include <filesystem>

#include "tessera/cli/adapter_base.h"
#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/conversion_output.h"
#include "tessera/cli/hub_args.h"
#include "tessera/cli/option_flags.h"
#include "tessera/cli/quantize_args.h"
#include "tessera/cli/quantize_report.h"
#include "tessera/cli/shard_args.h"
#include "tessera/convert/adapter/lora_settings.h"
#include "tessera/convert/conversion.h"
#include "tessera/gguf/weight_facts.h"

namespace tessera::cli {

namespace {

class ConvertCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--output -o", "FILE", "the GGUF file to write", set_string(args_.output));
    table.common(
        "--type", "TYPE", "type of the weights, as `tessera quantize` knows them: BF16, F16, F32, Q8_0, Q4_K_M, ...",
        [this](std::string_view text) -> Result<> {
          TESSERA_ASSIGN(args_.file_type, parse_file_type(text));
          return {};
        },
        "the 16-bit type of the checkpoint");
    args_.add_mix_to(table);
    table.common("--check-tensors", "", "refuse values that are not finite, also where they are only copied",
                 set_switch(args_.options.checks_copies));
    shards_.add_to(table, "no limit");
    table.common("--resume", "", "continue a conversion that was interrupted, and keep the partial file if this one is",
                 set_switch(resumes_));
    table.rare("--vocab", "DIR", "folder with the files of the tokenizer", set_string(settings_.vocabulary.folder),
               "that of the checkpoint");
    table.rare("--pre", "NAME", "name of the pre-tokenizer, where its steps are not known",
               set_string(settings_.vocabulary.options.pre), "by its steps");
    table.rare("--base", "DIR", "of an adapter: folder with the config.json of the model that it is for",
               set_string(base_), "that which the adapter names, as a folder or in the cache");
    table.rare("--no-mtp", "", "leave out the layers that predict further tokens (multi-token prediction)",
               set_switch(settings_.drops_later_layers));
    args_.add_rare_mix_to(table);
    add_threads_flag(table, args_.n_threads);
    add_numa_flag(table, args_.numa);
    hub_.add_access_flags(table);
    table.positional = "DIR|FILE|USER/REPO[@REVISION]";
    table.add_positional = [this](std::string_view text) -> Result<> {
      if (!args_.input.empty())
        return fail(ErrorCode::invalid_argument, "unexpected argument '{}': one checkpoint at a time", text);
      args_.input = text;
      return {};
    };
    return table;
  }

  Result<> check() override {
    if (args_.input.empty())
      return fail(ErrorCode::invalid_argument, "no checkpoint: want a folder, or a file of tensors in it");
    if (args_.output.empty() && !args_.dry_run)
      return fail(ErrorCode::invalid_argument, "no output: want -o FILE, or --dry-run");
    const convert::MixOptions& mix = args_.options.mix;
    const bool has_mix = !args_.imatrix_path.empty() || mix.pure || mix.keep_output || mix.output_type ||
                         mix.embedding_type || !mix.tensor_types.empty();
    const bool is_quantized = args_.size || (args_.file_type && info(info(*args_.file_type).dtype).is_blocked());
    if (has_mix && !is_quantized)
      return fail(ErrorCode::invalid_argument, "flags for single weights require a quantized --type, or --size");
    if (shards_.is_first_tensorless && !shards_.has_any())
      return fail(ErrorCode::invalid_argument,
                  "--no-tensor-first-split requires --split-max-size or --split-max-tensors");
    return args_.check_mix();
  }

  Result<> run(Context& process) override {
    convert::QuantizeOptions options = args_.options;
    options.program_version = TESSERA_VERSION;
    const auto type = args_.size ? std::optional(args_.file_type.value_or(convert::FileType::q8_0)) : args_.file_type;
    TESSERA_TRY(fetch_input(process));
    TESSERA_ASSIGN(const auto conversion, open(type));
    conversion->apply_to(options);
    convert::Imatrix imatrix;
    if (!args_.imatrix_path.empty()) {
      TESSERA_ASSIGN(imatrix, convert::Imatrix::load(args_.imatrix_path));
      convert::apply(args_.imatrix_filter, imatrix);
      options.imatrix = &imatrix;
    }
    const ModelFiles& files = conversion->files();
    TESSERA_ASSIGN(auto plan, convert::plan_quantize(files, options));
    TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = args_.n_threads, .numa = args_.numa}));
    if (args_.size) TESSERA_TRY(fit_plan(args_, files, plan, options, *threads, process));
    if (shards_.has_any())
      TESSERA_TRY(convert::split_output(plan, args_.output.empty() ? args_.input : args_.output, shards_.limits(0)));
    if (!process.quiet) show_warnings(*conversion, plan, options);
    TESSERA_ASSIGN(const uint64_t n_bytes, convert::output_bytes(files, plan, options));
    const QuantizeSizes sizes{.n_values = count_parameters(files),
                              .n_before = convert::bytes_of_files(conversion->checkpoint()),
                              .n_bytes = n_bytes};
    if (args_.dry_run) return args_.json ? print_json(plan, sizes) : print(table_of(plan, sizes));
    if (process.verbose) log(table_of(plan, sizes));
    const PlannedOutput planned{.conversion = *conversion, .plan = plan, .options = options, .n_bytes = n_bytes};
    const auto mode = resumes_ ? PartialFiles::resume : PartialFiles::discard;
    return write_conversion(planned, args_.output, mode, *threads, process);
  }

 private:
  // A name of the hub stands for its checkpoint. The input becomes the folder that has it.
  Result<> fetch_input(const Context& process) {
    std::error_code error;
    const auto name = hub::parse_model_name(args_.input);
    if (std::filesystem::exists(args_.input, error) || !name) return {};
    if (!name->tag.empty())
      return fail(ErrorCode::invalid_argument, "{}: a checkpoint has no tag: want {} and --type {}", args_.input,
                  name->repository, name->tag);
    hub_.name = args_.input;
    auto folder = fetch_checkpoint(hub_, process);
    if (!folder) return forward_error(folder, args_.input + " is no file or folder here, and on the hub");
    args_.input = *std::move(folder);
    return {};
  }

  Result<std::unique_ptr<convert::Conversion>> open(std::optional<convert::FileType> type) const {
    if (convert::find_adapter(args_.input)) {
      TESSERA_ASSIGN(const std::string base, find_adapter_base(args_.input, base_));
      return convert::Conversion::open_adapter(args_.input, base, type);
    }
    if (!base_.empty())
      return fail(ErrorCode::invalid_argument, "--base: {} is no adapter with adapter_config.json", args_.input);
    return convert::Conversion::open(args_.input, type, settings_);
  }

  static void show_warnings(const convert::Conversion& conversion, const convert::QuantizePlan& plan,
                            const convert::QuantizeOptions& options) {
    for (const std::string& warning : conversion.warnings()) log("warning: " + warning);
    if (conversion.is_unquantized()) return;
    for (const std::string& warning : convert::warnings_of(plan, options)) log("warning: " + with_flag_names(warning));
  }

  QuantizeArgs args_;
  HubArgs hub_;
  ShardArgs shards_;
  bool resumes_ = false;
  convert::ConversionOptions settings_;
  std::string base_;
};

}  // namespace

std::unique_ptr<Command> create_convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace tessera::cli
