// tessera quantize: converts a model file to smaller types. --dry-run prints the types and sizes without writing.
#include <fmt/format.h>

#include <chrono>

#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/option_flags.h"
#include "tessera/cli/quantize_args.h"
#include "tessera/convert/fit_size.h"
#include "tessera/gguf/printable.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

std::string type_name(DType dtype) { return std::string(info(dtype).name); }

int64_t count_values(const ModelFiles& files) {
  int64_t n = 0;
  for (const ModelFiles::Tensor& tensor : files.tensors()) n += tensor.info.shape.n_elements();
  return n;
}

double bits_per_value(uint64_t n_bytes, int64_t n_values) {
  return static_cast<double>(n_bytes) * 8 / static_cast<double>(std::max<int64_t>(1, n_values));
}

uint64_t count_bytes(const ModelFiles& files) {
  uint64_t n = 0;
  for (const auto& file : files.files()) n += file->bytes().size();
  return n;
}

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
    if (args_.size) TESSERA_TRY(fit(*files, plan, options, *threads, process));
    if (!process.quiet)
      for (const std::string& warning : convert::warnings_of(plan, options))
        log("warning: " + with_flag_names(warning));
    TESSERA_ASSIGN(const uint64_t n_bytes, convert::output_bytes(*files, plan, options));
    if (args_.dry_run) return args_.json ? print_json(*files, plan, n_bytes) : print(table_of(*files, plan, n_bytes));
    if (process.verbose) log(table_of(*files, plan, n_bytes));
    {
      ProgressBar bar("quantizing", process.quiet);
      const auto progress = [&](float share) { bar.update(share); };
      const convert::WorkContext work{*threads, &process.interrupt, progress};
      TESSERA_TRY(convert::write_quantized(*files, plan, options, args_.output, work));
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!process.quiet) log(fmt::format("{} in {:.1f} s", totals(*files, n_bytes), elapsed.count()));
    return {};
  }

 private:
  Result<> fit(const ModelFiles& files, convert::QuantizePlan& plan, const convert::QuantizeOptions& options,
               ThreadPool& threads, Context& process) const {
    uint64_t max_bytes = 0;
    if (const double* bits = std::get_if<double>(&*args_.size))
      max_bytes = static_cast<uint64_t>(*bits / 8 * static_cast<double>(count_values(files)));
    else
      max_bytes = std::get<uint64_t>(*args_.size);
    ProgressBar bar("measuring", process.quiet);
    const auto progress = [&](float share) { bar.update(share); };
    const convert::WorkContext work{threads, &process.interrupt, progress};
    TESSERA_TRY(convert::fit_size(files, plan, options, max_bytes, work));
    if (args_.file_type) plan.file_type = args_.file_type;
    return {};
  }

  static std::string totals(const ModelFiles& files, uint64_t n_bytes) {
    const uint64_t n_before = count_bytes(files);
    const int64_t n_values = count_values(files);
    return fmt::format("{} bytes ({}, {:.2f} bits per value) from {} bytes ({}, {:.2f})", n_bytes,
                       human_bytes(static_cast<double>(n_bytes)), bits_per_value(n_bytes, n_values), n_before,
                       human_bytes(static_cast<double>(n_before)), bits_per_value(n_before, n_values));
  }

  static std::string table_of(const ModelFiles& files, const convert::QuantizePlan& plan, uint64_t n_bytes) {
    std::vector<std::vector<std::string>> rows = {{"tensor", "shape", "from", "to", "bytes", "why"}};
    for (const convert::PlannedTensor& tensor : plan.tensors) {
      const GgufTensor& source = tensor.source.info;
      rows.push_back({printable(source.name), to_string(source.shape), type_name(source.dtype), type_name(tensor.to),
                      std::to_string(tensor.n_bytes), std::string(to_string(tensor.reason))});
    }
    return format_table(rows, "llllrl") + fmt::format("tensors: {} bytes from {}\nfile: {}\n", plan.n_bytes_after(),
                                                      plan.n_bytes_before(), totals(files, n_bytes));
  }

  static Result<> print_json(const ModelFiles& files, const convert::QuantizePlan& plan, uint64_t n_bytes) {
    Output out;
    TESSERA_TRY(out.append(
        fmt::format("{{\n\"file_type\": {},\n\"n_parameters\": {},\n\"n_bytes_before\": {},\n"
                    "\"n_bytes\": {},\n\"tensor_bytes_before\": {},\n\"tensor_bytes\": {},\n"
                    "\"tensors\": [",
                    plan.file_type ? text::json_quoted(info(*plan.file_type).name) : "null", count_values(files),
                    count_bytes(files), n_bytes, plan.n_bytes_before(), plan.n_bytes_after())));
    std::string_view separator = "\n";
    for (const convert::PlannedTensor& tensor : plan.tensors) {
      const GgufTensor& source = tensor.source.info;
      TESSERA_TRY(out.append(fmt::format(
          "{}  {{\"name\": {}, \"shape\": {}, \"from\": \"{}\", \"to\": \"{}\", \"n_bytes\": {}, \"reason\": \"{}\"}}",
          separator, text::json_quoted(source.name), to_string(source.shape), info(source.dtype).name,
          info(tensor.to).name, tensor.n_bytes, to_string(tensor.reason))));
      separator = ",\n";
    }
    TESSERA_TRY(out.append("\n]\n}\n"));
    return out.finish();
  }

  QuantizeArgs args_;
};

}  // namespace

std::unique_ptr<Command> create_quantize_command() { return std::make_unique<QuantizeCommand>(); }

}  // namespace tessera::cli
