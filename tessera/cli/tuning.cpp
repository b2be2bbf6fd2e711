#include "tessera/cli/tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/app/bundled_model.h"
#include "tessera/base/counted.h"
#include "tessera/base/cpu_info.h"
#include "tessera/base/file.h"
#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/tuning_file.h"

namespace tessera::cli {

void Tuning::apply_threads(ThreadPoolOptions& threads) const {
  threads.n_threads = n_threads;
  threads.affinity = has_cpu_each ? Affinity::strict : Affinity::shared;
  threads.numa = is_distributed ? NumaPolicy::distribute : NumaPolicy::none;
}

std::string describe(const Tuning& tuning) {
  std::string text = counted(tuning.n_threads, "thread");
  if (tuning.has_cpu_each) text += " with a CPU each";
  if (tuning.is_distributed) text += " spread over memory nodes";
  text += fmt::format(", micro-batch {}", tuning.n_ubatch);
  if (!tuning.kinds.empty()) text += ", guesses by " + names_of(tuning.kinds);
  return text;
}

std::string machine_identity() {
  const CpuMask cpus = thread_affinity();
  return fmt::format("{}, {}, {} for threads", cpu_brand(), counted(cpus.count(), "CPU"),
                     counted(default_thread_count(cpus), "core"));
}

Result<std::string> model_identity(const std::string& path) {
  constexpr size_t kEnd = size_t{64} << 10;
  const auto of_ends = [](uint64_t size, std::span<const std::byte> first, std::span<const std::byte> last) {
    return fmt::format("{}-{:016x}", size, Hash64().add(first).add(last).value());
  };
  if (path.empty()) {
    const std::span<const std::byte> bytes = bundled_model();
    const size_t n = std::min(bytes.size(), kEnd);
    return of_ends(bytes.size(), bytes.first(n), bytes.last(n));
  }
  TESSERA_ASSIGN(const File file, File::open(path));
  std::vector<std::byte> first(std::min<uint64_t>(file.size(), kEnd)), last(first.size());
  TESSERA_TRY(file.read_at(0, first));
  TESSERA_TRY(file.read_at(file.size() - last.size(), last));
  return of_ends(file.size(), first, last);
}

void add_tuning_flag(FlagTable& table, ContextArgs& context) {
  table.rare("--no-tuning", "", "ignore what `tessera tune` has found for this model", set_switch(context.is_untuned));
}

void use_tuning(ModelArgs& model, ContextArgs& context, const SpeculationArgs& speculation, const Context& process) {
  if (context.is_untuned) return;
  const std::string path = TuningFile::default_path();
  if (path.empty()) return;
  const Result<TuningFile> file = TuningFile::read(path);
  if (!file) {
    if (!process.quiet) log("warning: " + file.error().message());
    return;
  }
  if (file->is_empty()) return;
  const auto identity = model_identity(model.options.path);
  if (!identity) return;  // opening the model reports its error
  const Tuning* tuning = file->find(machine_identity(), *identity);
  if (tuning == nullptr) return;
  Tuning used = *tuning;
  if (context.places_threads()) {
    used.n_threads = context.session.threads.n_threads;
    used.has_cpu_each = used.is_distributed = false;
  } else {
    used.apply_threads(context.session.threads);
  }
  if (!context.has_ubatch) context.session.n_ubatch = used.n_ubatch;
  used.n_ubatch = context.session.n_ubatch;
  std::vector<DraftKind>& kinds = model.options.speculation.kinds;
  if (!speculation.is_given && kinds.empty()) kinds = used.kinds;
  used.kinds = kinds;
  if (!process.quiet) log(fmt::format("tuned on {}: {} (--no-tuning ignores this)", used.date, describe(used)));
}

}  // namespace tessera::cli
