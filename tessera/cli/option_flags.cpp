#include "tessera/cli/option_flags.h"

#include <algorithm>
#include <utility>

namespace tessera::cli {

namespace {

// A test compares this list with the messages in all folders.
constexpr std::pair<std::string_view, std::string_view> kFlagOfOption[] = {
    {"base_file", "--kl-divergence-base"},
    {"checkpoint_path", "--checkpoint"},
    {"devices", "--device"},
    {"expert_cache", "--expert-cache"},
    {"imatrix", "--imatrix"},
    {"lora", "--lora"},
    {"n_cpu_expert_layers", "-ncmoe"},
    {"n_ctx", "-c"},
    {"n_gpu_layers", "-ngl"},
    {"n_keep", "--keep"},
    {"n_micro", "--micro-batch"},
    {"n_ubatch", "-ub"},
    {"pre", "--pre"},
    {"recomputes", "--recompute"},
    {"resume", "--resume"},
    {"schedule.peak", "--lr"},
    {"seed", "--seed"},
};
constexpr std::string_view kMark = "option ";

}  // namespace

std::string with_flag_names(std::string_view message) {
  std::string text;
  for (size_t at = 0; (at = message.find(kMark)) != std::string_view::npos;) {
    const size_t begin = at + kMark.size();
    const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.", begin);
    const std::string_view name = message.substr(begin, end - begin);
    const auto* found = std::ranges::find(kFlagOfOption, name, [](const auto& row) { return row.first; });
    if (found == std::end(kFlagOfOption)) {
      text += message.substr(0, begin);
      message.remove_prefix(begin);
    } else {
      text.append(message.substr(0, at)).append(found->second);
      message.remove_prefix(begin + name.size());
    }
  }
  return text += message;
}

}  // namespace tessera::cli
