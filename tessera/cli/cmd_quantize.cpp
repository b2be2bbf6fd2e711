// tessera quantize: converts a model file to smaller types. --dry-run prints the types and sizes without writing.
#include <fmt/format.h>

#include <chrono>

#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/option_flags.h"
#include "tessera/cli/progress.h"
#include "tessera/cli/quantize_args.h"
#include "tessera/cli/quantize_report.h"
#include "tessera/convert/fit_size.h"
#include "tessera/gguf/weight_facts.h"

namespace tessera::cli {

namespace {

class QuantizeCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    return table;
  }

  Result<> check() override { return args_.check(); }

  Result<> run(Context& process) override {
    const auto start = std::chrono::steady_clock::now();
    convert::QuantizeOptions options = args_.options;
    options.program_version = TESSERA_VERSION;
    TESSERA_ASSIGN(const auto files, ModelFiles::open(args_.input));
    convert::Imatrix imatrix;
    if (!args_.imatrix_path.empty()) {
      TESSERA_ASSIGN(imatrix, convert::Imatrix::load(args_.imatrix_path));
      convert::apply(args_.imatrix_filter, imatrix);
      options.imatrix = &imatrix;
    }
    TESSERA_ASSIGN(auto plan, convert::plan_quantize(*files, options));
    if (!args_.dry_run) TESSERA_TRY(convert::require_other_files(*files, plan, args_.output));
    TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = args_.n_threads, .numa = args_.numa}));
    if (args_.size) TESSERA_TRY(fit_plan(args_, *files, plan, options, *threads, process));
    if (!process.quiet)
      for (const std::string& warning : convert::warnings_of(plan, options))
        log("warning: " + with_flag_names(warning));
    TESSERA_ASSIGN(const uint64_t n_bytes, convert::output_bytes(*files, plan, options));
    const QuantizeSizes sizes{
        .n_values = count_parameters(*files), .n_before = convert::bytes_of_files(*files), .n_bytes = n_bytes};
    if (args_.dry_run) return args_.json ? print_json(plan, sizes) : print(table_of(plan, sizes));
    if (process.verbose) log(table_of(plan, sizes));
    {
      ProgressBar bar("quantizing", process.quiet);
      const auto progress = [&](float share) {
        bar.update(share);
        return true;
      };
      const convert::WorkContext work{*threads, &process.interrupt, progress};
      TESSERA_TRY(convert::write_quantized(*files, plan, options, args_.output, work));
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!process.quiet) log(fmt::format("{} in {:.1f} s", totals(sizes), elapsed.count()));
    return {};
  }

 private:
  QuantizeArgs args_;
};

}  // namespace

std::unique_ptr<Command> create_quantize_command() { return std::make_unique<QuantizeCommand>(); }

}  // namespace tessera::cli
