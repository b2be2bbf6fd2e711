#include "tessera/cli/quantize_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/cli/console.h"
#include "tessera/cli/progress.h"
#include "tessera/convert/fit_size.h"
#include "tessera/gguf/printable.h"
#include "tessera/gguf/weight_facts.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

std::string type_name(DType dtype) { return std::string(info(dtype).name); }

double bits_per_value(uint64_t n_bytes, uint64_t n_values) {
  return static_cast<double>(n_bytes) * 8 / static_cast<double>(std::max<uint64_t>(1, n_values));
}

}  // namespace

std::string totals(const QuantizeSizes& sizes) {
  return fmt::format("{} bytes ({}, {:.2f} bits per value) from {} bytes ({}, {:.2f})", sizes.n_bytes,
                     human_bytes(static_cast<double>(sizes.n_bytes)), bits_per_value(sizes.n_bytes, sizes.n_values),
                     sizes.n_before, human_bytes(static_cast<double>(sizes.n_before)),
                     bits_per_value(sizes.n_before, sizes.n_values));
}

std::string table_of(const convert::QuantizePlan& plan, const QuantizeSizes& sizes) {
  std::vector<std::vector<std::string>> rows = {{"tensor", "shape", "from", "to", "bytes", "why"}};
  for (const convert::PlannedTensor& tensor : plan.tensors) {
    const GgufTensor& source = tensor.source.info;
    rows.push_back({printable(source.name), to_string(source.shape), type_name(source.dtype), type_name(tensor.to),
                    std::to_string(tensor.n_bytes), std::string(to_string(tensor.reason))});
  }
  const std::string files = plan.n_parts == 1 ? "file" : fmt::format("{} files", plan.n_parts);
  return format_table(rows, "llllrl") + fmt::format("tensors: {} bytes from {}\n{}: {}\n", plan.n_bytes_after(),
                                                    plan.n_bytes_before(), files, totals(sizes));
}

Result<> print_json(const convert::QuantizePlan& plan, const QuantizeSizes& sizes) {
  Output out;
  TESSERA_TRY(out.append(
      fmt::format("{{\n\"file_type\": {},\n\"n_parameters\": {},\n\"n_bytes_before\": {},\n"
                  "\"n_bytes\": {},\n\"tensor_bytes_before\": {},\n\"tensor_bytes\": {},\n"
                  "\"n_files\": {},\n\"tensors\": [",
                  plan.file_type ? text::json_quoted(info(*plan.file_type).name) : "null", sizes.n_values,
                  sizes.n_before, sizes.n_bytes, plan.n_bytes_before(), plan.n_bytes_after(), plan.n_parts)));
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

Result<> fit_plan(const QuantizeArgs& args, const ModelFiles& files, convert::QuantizePlan& plan,
                  const convert::QuantizeOptions& options, ThreadPool& threads, Context& process) {
  uint64_t max_bytes = 0;
  if (const double* bits = std::get_if<double>(&*args.size))
    max_bytes = convert::bytes_of_bits(*bits, files);
  else
    max_bytes = std::get<uint64_t>(*args.size);
  ProgressBar bar("measuring", process.quiet);
  const auto progress = [&](float share) {
    bar.update(share);
    return true;
  };
  const convert::WorkContext work{threads, &process.interrupt, progress};
  TESSERA_TRY(convert::fit_size(files, plan, options, max_bytes, work));
  if (args.file_type) plan.file_type = args.file_type;
  return {};
}

}  // namespace tessera::cli
