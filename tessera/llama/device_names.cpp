#include "tessera/llama/device_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tessera::llama {
namespace {

struct BackendNames {
  std::string_view ours;
  std::string_view ggml;
  bool is_numbered;  // "cuda:0" and "CUDA0"
};
constexpr std::array<BackendNames, 4> kBackendNames = {
    {{"cpu", "CPU", false}, {"blas", "BLAS", false}, {"cuda", "CUDA", true}, {"vulkan", "Vulkan", true}}};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The backend of a device whose name is that of the backend, a mark and, if it is numbered, a number.
const BackendNames* find_backend(std::string_view name, std::string_view BackendNames::*side, std::string_view mark) {
  for (const BackendNames& names : kBackendNames) {
    if (!name.starts_with(names.*side)) continue;
    const std::string_view rest = name.substr((names.*side).size());
    if (names.is_numbered ? rest.starts_with(mark) && is_number(rest.substr(mark.size())) : rest.empty()) return &names;
  }
  return nullptr;
}

}  // namespace

std::string ggml_device_name(std::string_view name) {
  const BackendNames* names = find_backend(name, &BackendNames::ours, ":");
  if (names == nullptr) return std::string(name);
  std::string to(names->ggml);
  if (names->is_numbered) to += name.substr(names->ours.size() + 1);
  return to;
}

std::string ggml_backend_name(std::string_view name) {
  const BackendNames* names = find_backend(name, &BackendNames::ours, ":");
  return std::string(names == nullptr ? name.substr(0, name.find(':')) : names->ggml);
}

std::string device_name_of_ggml(std::string_view name) {
  std::string to;
  const BackendNames* names = find_backend(name, &BackendNames::ggml, "");
  if (names == nullptr) {
    for (const char c : name) to += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return to;
  }
  to = names->ours;
  if (names->is_numbered) to.append(":").append(name.substr(names->ggml.size()));
  return to;
}

}  // namespace tessera::llama
