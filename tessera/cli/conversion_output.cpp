#include "tessera/cli/conversion_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "tessera/base/counted.h"
#include "tessera/cli/console.h"
#include "tessera/cli/progress.h"
#include "tessera/cli/quantize_report.h"
#include "tessera/gguf/weight_facts.h"

namespace tessera::cli {

uint64_t count_bytes(const convert::Checkpoint& checkpoint) {
  uint64_t n = 0;
  for (const std::string& path : checkpoint.paths()) {
    std::error_code error;
    if (const auto size = std::filesystem::file_size(path, error); !error) n += size;
  }
  return n;
}

Result<> write_conversion(const PlannedOutput& planned, const std::string& path, PartialFiles mode, ThreadPool& threads,
                          const Context& process) {
  const auto& [conversion, plan, options, n_bytes] = planned;
  const bool resumes = mode == PartialFiles::resume;
  const auto start = std::chrono::steady_clock::now();
  TESSERA_ASSIGN(const uint64_t fingerprint, fingerprint_of(conversion, plan, options, TESSERA_VERSION));
  TESSERA_ASSIGN(auto partial, convert::PartialOutput::open(path, fingerprint, resumes));
  if (resumes && !partial.other().empty() && !process.quiet)
    log(fmt::format("{}: is of another plan (type, options or files): removed, starting anew", partial.other()));
  const uint64_t n_wanted = n_bytes - std::min(n_bytes, partial.n_bytes_found());
  TESSERA_TRY(convert::check_output(conversion.checkpoint(), convert::output_paths(plan, path), n_wanted));
  {
    ProgressBar bar("converting", process.quiet, count_bytes(conversion.checkpoint()));
    const auto progress = [&](float share) { bar.update(share); };
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
                            .n_before = count_bytes(conversion.checkpoint()),
                            .n_bytes = n_bytes};
  log(fmt::format("{} in {:.1f} s{}", totals(sizes), elapsed.count(), resumed));
  return {};
}

}  // namespace tessera::cli
