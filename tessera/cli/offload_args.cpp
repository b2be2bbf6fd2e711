#include "tessera/cli/offload_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tessera/app/job.h"
#include "tessera/cli/console.h"

namespace tessera::cli {

namespace {

constexpr int64_t kMaxLayerFlag = INT32_MAX;

Result<std::vector<std::string>> split_list(std::string_view text, std::string_view separators, std::string_view what) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    if (parts.back().empty())
      return fail(ErrorCode::invalid_argument, "'{}': want {} with commas between them", text, what);
    begin = end + 1;
  }
  return parts;
}

Result<> set_devices(PlacementOptions& placement, std::string_view text) {
  if (text == "auto") {
    placement.devices.clear();
    return {};
  }
  TESSERA_ASSIGN(placement.devices, split_list(text, ",", "names of devices"));
  return {};
}

Result<> set_layers(PlacementOptions& placement, std::string_view text) {
  if (text == "auto" || text == "all") {
    placement.n_gpu_layers = text == "all" ? kAllLayers : kAutoLayers;
    return {};
  }
  TESSERA_ASSIGN(placement.n_gpu_layers, parse_integer(text, -1, kMaxLayerFlag));
  return {};
}

Result<> set_split(PlacementOptions& placement, std::string_view text) {
  if (text != "none" && text != "layer" && text != "row")
    return fail(ErrorCode::invalid_argument, "'{}' is not one of none, layer, row", text);
  placement.split = text == "none" ? SplitMode::none : text == "row" ? SplitMode::row : SplitMode::layer;
  return {};
}

Result<> set_shares(PlacementOptions& placement, std::string_view text) {
  TESSERA_ASSIGN(const std::vector<std::string> parts, split_list(text, ",/", "numbers"));
  placement.shares.clear();
  for (const std::string& part : parts) {
    TESSERA_ASSIGN(const float share, parse_real(part, 0.0f, 1e30f));
    placement.shares.push_back(share);
  }
  return {};
}

// A comma inside a pattern, as in {1,2}, does not end a rule. A rule ends after its target.
Result<> add_rules(PlacementOptions& placement, std::string_view text) {
  while (true) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return fail(ErrorCode::invalid_argument, "'{}': want REGEX=DEVICE", text);
    const size_t end = std::min(text.find(',', equals), text.size());
    const std::string_view target = text.substr(equals + 1, end - equals - 1);
    if (target.empty()) return fail(ErrorCode::invalid_argument, "'{}': want REGEX=DEVICE", text);
    placement.rules.push_back({std::string(text.substr(0, equals)), std::string(target)});
    TESSERA_TRY(TensorPattern::compile(placement.rules.back().pattern));
    if (end == text.size()) return {};
    text = text.substr(end + 1);
  }
}

Result<> set_expert_reads(PlacementOptions& placement, std::string_view text) {
  if (text != "auto" && text != "direct" && text != "cached")
    return fail(ErrorCode::invalid_argument, "'{}' is not one of auto, direct, cached", text);
  placement.expert_reads = text == "auto"     ? ExpertReads::automatic
                           : text == "direct" ? ExpertReads::direct
                                              : ExpertReads::cached;
  return {};
}

Result<> set_fit(FitOptions& fit, std::string_view text) {
  if (text != "on" && text != "off") return fail(ErrorCode::invalid_argument, "'{}' is not one of on, off", text);
  fit.is_on = text == "on";
  return {};
}

Result<> set_margin(FitOptions& fit, std::string_view text) {
  TESSERA_ASSIGN(const int64_t mib, parse_integer(text, 0, int64_t{1} << 40));
  fit.margin_bytes = static_cast<uint64_t>(mib) << 20;
  return {};
}

// Flags of a job of mpirun. Without a job they have no effect, so that a command works in both ways.
void add_job_flags(FlagTable& table) {
  struct Files {
    mpi::FileMode mode = mpi::FileMode::automatic;
    std::string path;
  };
  const auto files = std::make_shared<Files>();
  const auto apply = [files] {
    if (Job* job = Job::current()) job->set_files(files->mode, files->path);
  };
  table.rare(
      "--mpi-files", "HOW",
      "how other ranks of mpirun get their weights: auto, local (from the same file on their disk), send (from rank 0)",
      [files, apply](std::string_view text) -> Result<> {
        if (text != "auto" && text != "local" && text != "send")
          return fail(ErrorCode::invalid_argument, "'{}' is not one of auto, local, send", text);
        files->mode = text == "auto"    ? mpi::FileMode::automatic
                      : text == "local" ? mpi::FileMode::local
                                        : mpi::FileMode::send;
        apply();
        return {};
      },
      "auto: local, if they have the same file");
  table.rare(
      "--mpi-model", "PATH", "path of the model on the other ranks of mpirun",
      [files, apply](std::string_view text) -> Result<> {
        files->path = text;
        apply();
        return {};
      },
      "that of rank 0");
  table.rare(
      "--mpi-timeout", "S", "seconds after which a rank of mpirun that is silent counts as lost",
      [](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(const float seconds, parse_real(text, 0.1f, 3600.0f));
        if (Job* job = Job::current())
          job->set_timeout(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
        return {};
      },
      "5");
}

}  // namespace

void add_memory_flag(FlagTable& table, FitOptions& fit) {
  table.common(
      "--memory", "SIZE",
      "bound on all memory of the model, e.g. 12G (2^30) or 12GB (10^9): finds the largest context (or -c), if "
      "necessary with a smaller micro-batch, a q8_0 cache, or experts that stay in the file",
      [&fit](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(fit.most_bytes, parse_bytes(text));
        return {};
      });
}

std::string describe(const std::optional<StreamCounts>& counts) {
  if (!counts) return "";
  return fmt::format("; experts: {:.1f} % found in memory, {} read", 100 * counts->hit_share(),
                     human_bytes(static_cast<double>(counts->n_read_bytes)));
}

void add_offload_flags(FlagTable& table, PlacementOptions& placement, FitOptions& fit) {
  const auto placed = [&placement](auto set) {
    return [&placement, set](std::string_view text) { return set(placement, text); };
  };
  const auto fitted = [&fit](auto set) { return [&fit, set](std::string_view text) { return set(fit, text); }; };
  table.common("--device -dev", "LIST", "devices to run on, in order of preference; none: only the CPU",
               placed(set_devices), "auto: all GPUs");
  table.common("--n-gpu-layers -ngl --gpu-layers", "N",
               "layers to offload, counted from the last; the output layer counts as one; auto, all",
               placed(set_layers), "auto: as many as fit");
  table.rare("--split-mode -sm", "MODE",
             "how to split a model over devices: none (use one device), layer, row (rows of each matrix)",
             placed(set_split), "layer");
  table.rare("--tensor-split -ts", "LIST", "share of the model for each device, e.g. 3,1", placed(set_shares),
             "in proportion to free memory");
  table.rare("--main-gpu -mg", "N",
             "main device, counted from 0; it holds everything with -sm none, and everything except split matrices "
             "with -sm row",
             set_integer(placement.main_device, 0, INT32_MAX));
  table.rare("--override-tensor -ot", "REGEX=WHERE,...",
             "place weights whose names match on this device or in this buffer type; may be repeated",
             placed(add_rules));
  table.rare("--cpu-moe -cmoe", "", "keep the experts of all layers on the CPU",
             [&placement](std::string_view) -> Result<> {
               placement.n_cpu_expert_layers = kAllLayers;
               return {};
             });
  table.rare("--n-cpu-moe -ncmoe", "N", "keep the experts of the first N layers on the CPU",
             set_integer(placement.n_cpu_expert_layers, 0, kMaxLayerFlag));
  table.common(
      "--expert-cache", "SIZE",
      "leave the experts of a mixture of experts in the file and read them when they are used, with SIZE "
      "of memory for those used last, e.g. 8G (2^30)",
      [&placement](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(placement.expert_cache, parse_bytes(text));
        return {};
      },
      "all experts in memory, if they fit");
  table.rare("--expert-reads", "HOW",
             "how experts are read from the file: auto, direct (past the system's page cache), cached (through it)",
             placed(set_expert_reads), "auto: cached, if the free memory holds all experts");
  add_job_flags(table);
  table.rare("--no-kv-offload -nkvo", "", "keep the KV cache, and with it attention, on the CPU",
             set_switch(placement.offload_caches, false));
  table.rare("--fit -fit", "on|off",
             "fit offloaded layers, context and micro-batch to the free memory, unless a flag sets them",
             fitted(set_fit), "on");
  table.rare("--fit-target -fitt", "MIB", "memory that --fit leaves free on each device, in MiB", fitted(set_margin),
             "1024; for the CPU at most 1/16 of its memory");
  table.rare("--fit-ctx -fitc", "N", "smallest context that --fit chooses", set_integer(fit.least_ctx, 1, kMaxContext));
}

}  // namespace tessera::cli
