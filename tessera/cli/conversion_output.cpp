#include "tessera/cli/conversion_output.h"

#include <fmt/format.h>

#include <chrono>

#include "tessera/base/counted.h"
#include "tessera/cli/console.h"
#include "tessera/cli/progress.h"
#include "tessera/cli/quantize_report.h"
#include "tessera/gguf/weight_facts.h"

namespace tessera::cli {

Result<> write_conversion(const PlannedOutput& planned, const std::string& path, PartialFiles mode, ThreadPool& threads,
                          const Context& process) {
  const auto& [conversion, plan, options, n_bytes] = planned;
  const bool resumes = mode == PartialFiles::resume;
  const auto start = std::chrono::steady_clock::now();
  const convert::OutputPlan output{
      .path = path, .n_bytes = n_bytes, .resumes = resumes, .program_version = TESSERA_VERSION};
  TESSERA_ASSIGN(auto partial, convert::open_output(conversion, plan, options, output));
  if (resumes && !partial.other().empty() && !process.quiet)
    log(fmt::format("{}: is of another plan (type, options or files): removed, starting anew", partial.other()));
  {
    ProgressBar bar("converting", process.quiet, convert::bytes_of_files(conversion.checkpoint()));
    const auto progress = [&](float share) {
      bar.update(share);
      return true;
    };
    const convert::WorkContext work{threads, &process.interrupt, progress, &partial};
    TESSERA_TRY(convert::write_quantized(conversion.files(), plan, options, path, work));
  }
  if (process.quiet) return {};
  if (const uint64_t n = conversion.rows().n_overflows(); n > 0)
    log(fmt::format("warning: {} too large for F16: infinite in the output", counted(n, "value")));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const std::string resumed =
      partial.n_tensors_found() == 0
          ? ""
          : fmt::format(", resumed after {} of {} tensors", partial.n_tensors_found(), plan.tensors.size());
  const QuantizeSizes sizes{.n_values = count_parameters(conversion.files()),
                            .n_before = convert::bytes_of_files(conversion.checkpoint()),
                            .n_bytes = n_bytes};
  log(fmt::format("{} in {:.1f} s{}", totals(sizes), elapsed.count(), resumed));
  return {};
}

}  // namespace tessera::cli
