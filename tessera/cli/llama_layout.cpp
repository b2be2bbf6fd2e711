#include "tessera/cli/llama_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>

#include "tessera/base/checked.h"

namespace tessera::cli {

namespace {

constexpr LlamaLayout kLlamaLayouts[] = {
#define TESSERA_LLAMA_LAYOUT(name, version, model_bytes, context_bytes, threads_at, mmap_at, extra_at, users) \
  {name, version, model_bytes, context_bytes, threads_at, mmap_at, extra_at, users},
#include "tessera/llama/layouts/layouts.def"
#undef TESSERA_LLAMA_LAYOUT
};

constexpr size_t kPointerBytes = 8;  // the structs have pointers, so their sizes are multiples of this
constexpr int32_t kDefaultThreads = 4;

// The members that all layouts begin with, and their defaults.
struct FirstMember {
  size_t at;
  int32_t value;
};
constexpr FirstMember kFirstMembers[] = {
    {0, 512}, {4, 2048}, {8, 512}, {12, 1}};  // n_ctx, n_batch, n_ubatch, n_seq_max
constexpr size_t kFirstBytes = 16;

std::optional<int32_t> number_at(std::span<const std::byte> bytes, size_t at) {
  if (at + sizeof(int32_t) > bytes.size()) return std::nullopt;
  int32_t number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

bool has_threads_at(std::span<const std::byte> context, size_t at) {
  return number_at(context, at) == kDefaultThreads && number_at(context, at + sizeof(int32_t)) == kDefaultThreads;
}

bool flag_is(std::span<const std::byte> model, size_t at, bool value) {
  return at < model.size() && model[at] == std::byte{value};
}

bool is_version_of(std::string_view version, std::string_view row) {
  if (version.empty() || row.empty()) return true;
  return version.starts_with(row) && (version.size() == row.size() || version[row.size()] == '.');
}

// Our libraries tell the same version in all layouts.
bool is_ours(std::string_view version) { return version.ends_with("-tessera"); }

bool has_layout(const LlamaDefaults& defaults, const LlamaLayout& layout) {
  const auto& [model, context, version] = defaults;
  const bool has_first_members = std::ranges::all_of(
      kFirstMembers, [&](const FirstMember& member) { return number_at(context, member.at) == member.value; });
  return has_first_members && round_up(model.size(), kPointerBytes) == layout.model_bytes &&
         round_up(context.size(), kPointerBytes) == layout.context_bytes &&
         has_threads_at(context, layout.threads_at) && flag_is(model, layout.extra_at, true) &&
         flag_is(model, layout.extra_at - 1, false) && (layout.mmap_at == 0 || flag_is(model, layout.mmap_at, true)) &&
         (is_ours(version) || is_version_of(version, layout.version));
}

std::string threads_text(std::span<const std::byte> context) {
  for (size_t at = kFirstBytes; at < context.size(); at += sizeof(int32_t))
    if (has_threads_at(context, at)) return fmt::format("n_threads at {}", at);
  return "n_threads nowhere";
}

}  // namespace

std::span<const LlamaLayout> llama_layouts() { return kLlamaLayouts; }

Result<const LlamaLayout*> find_llama_layout(std::string_view name) {
  std::vector<std::string_view> names;
  for (const LlamaLayout& layout : kLlamaLayouts) {
    if (layout.name == name) return &layout;
    names.push_back(layout.name);
  }
  return fail(ErrorCode::invalid_argument, "'{}' is no layout: want {}", name, fmt::join(names, ", "));
}

Result<const LlamaLayout*> match_llama_layout(const LlamaDefaults& defaults) {
  const auto found =
      std::ranges::find_if(kLlamaLayouts, [&](const LlamaLayout& layout) { return has_layout(defaults, layout); });
  if (found != std::end(kLlamaLayouts)) return &*found;
  return fail(ErrorCode::unsupported,
              "no known layout of llama.h: llama_model_params of {} bytes, llama_context_params of {} with {}, {}",
              defaults.model.size(), defaults.context.size(), threads_text(defaults.context),
              defaults.version.empty() ? "no version" : "version " + defaults.version);
}

}  // namespace tessera::cli
