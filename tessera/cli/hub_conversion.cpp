#include "tessera/cli/hub_conversion.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "tessera/base/cpu_info.h"
#include "tessera/cli/console.h"
#include "tessera/convert/conversion.h"
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

Result<> write(const Planned& planned, const std::string& path, const Context& process) {
  TESSERA_TRY(convert::check_output(planned.conversion->checkpoint(), std::span(&path, 1), planned.n_bytes));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = default_thread_count()}));
  ProgressBar bar("converting", process.quiet);
  const auto progress = [&](float share) { bar.update(share); };
  return convert::write_quantized(planned.conversion->files(), planned.plan, planned.options, path,
                                  {*threads, &process.interrupt, progress});
}

// FOLDER/converted/COMMIT/TYPE.gguf beside FOLDER/snapshots/COMMIT. Other tools ignore it.
std::filesystem::path converted_path(const std::string& snapshot, FileType type) {
  const std::filesystem::path path(snapshot);
  return path.parent_path().parent_path() / "converted" / path.filename() / fmt::format("{}.gguf", info(type).name);
}

}  // namespace

Result<std::string> convert_fetched(const hub::Found& found, const hub::Fetched& fetched, const std::string& tag,
                                    const Context& process) {
  std::optional<FileType> wanted;
  if (!tag.empty()) {
    wanted = convert::file_type_from_name(tag);
    if (!wanted)
      return fail(ErrorCode::not_found, "{}: has a checkpoint alone, and {} is no type of `tessera convert`",
                  found.repository, text::quote_text(tag));
  }
  const auto is_there = [&](FileType type) {
    std::error_code error;
    return std::filesystem::exists(converted_path(fetched.folder, type), error);
  };
  if (wanted && is_there(*wanted)) return converted_path(fetched.folder, *wanted).string();
  // A choice that was made once holds, also when other programs take memory.
  if (!wanted)
    for (const FileType type : kOfferedTypes)
      if (is_there(type)) return converted_path(fetched.folder, type).string();
  auto planned = wanted ? plan_conversion(fetched.folder, *wanted) : plan_best(found, fetched.folder);
  if (!planned) return forward_error(planned);
  const std::filesystem::path path = converted_path(fetched.folder, planned->type);
  if (!process.quiet) {
    log(fmt::format("{} has no GGUF file: its checkpoint is converted to {} once, {}", found.repository,
                    info(planned->type).name, human_bytes(static_cast<double>(planned->n_bytes))));
    for (const std::string& warning : planned->conversion->warnings()) log("warning: " + warning);
  }
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail(ErrorCode::io, "{}: {}", path.parent_path().string(), error.message());
  TESSERA_TRY(write(*planned, path.string(), process));
  return path.string();
}

}  // namespace tessera::cli
