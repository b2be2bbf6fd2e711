// tessera.h: models in one file or several.
#include "tessera/convert/shards.h"

#include <sys/stat.h>

#include <optional>

#include "tessera/capi/call_support.h"
#include "tessera/convert/quantize.h"
#include "tessera/gguf/weight_facts.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_split_options kSplitDefaults = {};
constexpr tessera_merge_options kMergeDefaults = {};
constexpr uint64_t kUsualFileTensors = 128;

Result<convert::ShardLimits> shard_limits(const tessera_split_options& wanted) {
  TESSERA_TRY(capi::require_flags(wanted.flags, TESSERA_SPLIT_PLAN | TESSERA_SPLIT_KEYS_FIRST));
  const bool is_usual = wanted.max_file_tensors == 0 && wanted.max_file_bytes == 0;
  return convert::ShardLimits{.max_tensors = is_usual ? kUsualFileTensors : wanted.max_file_tensors,
                              .max_bytes = wanted.max_file_bytes,
                              .is_first_tensorless = (wanted.flags & TESSERA_SPLIT_KEYS_FIRST) != 0};
}

tessera_written_info written_info_of(const ModelFiles& files, size_t n_files) {
  tessera_written_info info{};
  info.n_files = static_cast<uint32_t>(n_files);
  info.n_tensors = files.tensors().size();
  info.n_values = count_parameters(files);
  info.n_bytes_before = convert::bytes_of_files(files);
  if (const auto type = convert::recorded_type(files)) capi::copy_text(convert::info(*type).name, info.type);
  return info;
}

}  // namespace

void tessera_split_options_init(tessera_split_options* options, size_t size) {
  capi::write_sized(options, size, kSplitDefaults);
}

tessera_status tessera_split(const char* input, const char* prefix, const tessera_split_options* options,
                             tessera_progress_function progress, void* user, tessera_cancel* cancel,
                             tessera_written_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_ASSIGN(const std::string from, capi::require_text(input, "input"));
    TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kSplitDefaults, "options"));
    TESSERA_ASSIGN(const auto limits, shard_limits(wanted));
    std::optional<std::string> to;
    if ((wanted.flags & TESSERA_SPLIT_PLAN) == 0) {
      TESSERA_ASSIGN(to, capi::require_text(prefix, "prefix"));
    }
    TESSERA_ASSIGN(const auto shown, capi::progress_of(progress, user, cancel));
    TESSERA_TRY(capi::require_info(info));
    TESSERA_ASSIGN(const auto files, ModelFiles::open(from));
    TESSERA_ASSIGN(const auto shards, convert::plan_shards(*files, limits));
    tessera_written_info written = written_info_of(*files, shards.size());
    for (const convert::Shard& shard : shards) written.n_bytes += shard.n_bytes;
    if (to) TESSERA_TRY(convert::write_shards(*files, shards, *to, shown));
    capi::write_info(info, written);
    return {};
  });
}

void tessera_merge_options_init(tessera_merge_options* options, size_t size) {
  capi::write_sized(options, size, kMergeDefaults);
}

tessera_status tessera_merge(const char* first, const char* output, const tessera_merge_options* options,
                             tessera_progress_function progress, void* user, tessera_cancel* cancel,
                             tessera_written_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_ASSIGN(const std::string from, capi::require_text(first, "first"));
    TESSERA_ASSIGN(const std::string to, capi::require_text(output, "output"));
    TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kMergeDefaults, "options"));
    TESSERA_TRY(capi::require_flags(wanted.flags, 0));
    TESSERA_ASSIGN(const auto shown, capi::progress_of(progress, user, cancel));
    TESSERA_TRY(capi::require_info(info));
    TESSERA_ASSIGN(const auto files, ModelFiles::open(from));
    tessera_written_info written = written_info_of(*files, 1);
    TESSERA_TRY(convert::merge_shards(*files, to, shown));
    // stat() takes no memory: nothing may fail once the output is there.
    struct stat merged {};
    if (::stat(to.c_str(), &merged) == 0) written.n_bytes = static_cast<uint64_t>(merged.st_size);
    capi::write_info(info, written);
    return {};
  });
}
