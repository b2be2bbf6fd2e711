#include "tessera/cli/hub_conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/cpu_info.h"
#include "tessera/cli/console.h"
#include "tessera/cli/conversion_output.h"
#include "tessera/convert/conversion.h"
#include "tessera/hub/cache.h"
#include "tessera/hub/clock.h"
#include "tessera/hub/file_lock.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

using convert::FileType;

// From the best to the smallest.
constexpr FileType kOfferedTypes[] = {FileType::q8_0, FileType::q6_k, FileType::q4_k_m, FileType::q3_k_m,
                                      FileType::q2_k};

// A model needs memory beside its weights, for its cache and for other programs: three tenths of what is free.
uint64_t room_for_weights() { return memory_info().available_bytes / 10 * 7; }

// A conversion to a type, and what it would write.
struct Planned {
  FileType type;
  std::unique_ptr<convert::Conversion> conversion;
  convert::QuantizeOptions options;
  convert::QuantizePlan plan;
  uint64_t n_bytes = 0;
};

Result<Planned> plan_conversion(const std::string& folder, FileType type) {
  Planned planned{.type = type, .conversion = {}, .options = {}, .plan = {}};
  TESSERA_ASSIGN(planned.conversion, convert::Conversion::open(folder, type));
  planned.options.mix.file_type = type;
  planned.options.program_version = TESSERA_VERSION;
  planned.conversion->apply_to(planned.options);
  TESSERA_ASSIGN(planned.plan, convert::plan_quantize(planned.conversion->files(), planned.options));
  TESSERA_ASSIGN(planned.n_bytes, convert::output_bytes(planned.conversion->files(), planned.plan, planned.options));
  return planned;
}

Result<Planned> plan_best(const hub::Found& found, const std::string& folder) {
  const uint64_t room = room_for_weights();
  uint64_t n_least = 0;
  for (const FileType type : kOfferedTypes) {
    TESSERA_ASSIGN(Planned planned, plan_conversion(folder, type));
    if (planned.n_bytes <= room) return planned;
    n_least = planned.n_bytes;
  }
  return fail(ErrorCode::limit, "{}: {} as {}, and the memory has room for {}: choose a type, as in {}:IQ2_XS",
              found.repository, human_bytes(static_cast<double>(n_least)), info(std::rbegin(kOfferedTypes)[0]).name,
              human_bytes(static_cast<double>(room)), found.repository);
}

std::string file_name(FileType type) { return fmt::format("{}.gguf", info(type).name); }

// The converted files of a commit, finished or not.
class ConvertedFiles {
 public:
  ConvertedFiles(const hub::RepositoryCache& cache, const std::string& commit)
      : folder_(cache.converted(commit)), names_(cache.converted_names(commit)) {}

  std::string path(FileType type) const { return folder_ + "/" + file_name(type); }
  bool has(FileType type) const { return std::ranges::find(names_, file_name(type)) != names_.end(); }
  bool has_begun(FileType type) const {
    const std::string start = file_name(type) + ".";
    return std::ranges::any_of(names_, [&](const std::string& name) { return name.starts_with(start); });
  }
  // A choice that was made once holds, also when other programs take memory.
  std::optional<FileType> earlier_choice() const {
    for (const FileType type : kOfferedTypes)
      if (has(type)) return type;
    for (const FileType type : kOfferedTypes)
      if (has_begun(type)) return type;
    return std::nullopt;
  }

 private:
  std::string folder_;
  std::vector<std::string> names_;
};

Result<std::optional<FileType>> type_of_tag(const hub::Found& found, const std::string& tag) {
  if (tag.empty()) return std::nullopt;
  if (const auto type = convert::file_type_from_name(tag)) return type;
  return fail(ErrorCode::not_found, "{}: has a checkpoint alone, and {} is no type of `tessera convert`",
              found.repository, text::quote_text(tag));
}

}  // namespace

Result<std::string> convert_fetched(const hub::Found& found, const std::string& cache_dir, const std::string& tag,
                                    const Context& process) {
  TESSERA_ASSIGN(const std::optional<FileType> wanted, type_of_tag(found, tag));
  const hub::RepositoryCache cache(cache_dir, found.repository);
  const auto choice = [&](const ConvertedFiles& files) { return wanted ? wanted : files.earlier_choice(); };
  const ConvertedFiles before(cache, found.commit);
  if (const auto type = choice(before); type && before.has(*type)) return before.path(*type);

  const auto clock = hub::create_system_clock();
  const auto on_wait = [&] {
    if (!process.quiet) log(fmt::format("{}: another process converts it; waiting", found.repository));
  };
  TESSERA_ASSIGN(const auto lock,
                 hub::FileLock::acquire(cache.converted_lock(found.commit), *clock, process.interrupt, on_wait));
  const ConvertedFiles files(cache, found.commit);
  const auto type = choice(files);
  if (type && files.has(*type)) return files.path(*type);
  const std::string snapshot = cache.snapshot(found.commit);
  auto planned = type ? plan_conversion(snapshot, *type) : plan_best(found, snapshot);
  if (!planned) return forward_error(planned);
  if (!process.quiet) {
    log(fmt::format("{} has no GGUF file: its checkpoint is converted to {} once, {}", found.repository,
                    info(planned->type).name, human_bytes(static_cast<double>(planned->n_bytes))));
    for (const std::string& warning : planned->conversion->warnings()) log("warning: " + warning);
  }
  TESSERA_TRY(hub::create_folder(cache.converted(found.commit)));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = default_thread_count()}));
  const std::string path = files.path(planned->type);
  const PlannedOutput output{.conversion = *planned->conversion,
                             .plan = planned->plan,
                             .options = planned->options,
                             .n_bytes = planned->n_bytes};
  TESSERA_TRY(write_conversion(output, path, PartialFiles::resume, *threads, process));
  return path;
}

}  // namespace tessera::cli
