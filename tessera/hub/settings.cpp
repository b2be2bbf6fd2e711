#include "tessera/hub/settings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "tessera/base/file.h"
#include "tessera/hub/ascii.h"

namespace tessera::hub {

namespace {

constexpr const char* kHub = "https://huggingface.co";
constexpr uint64_t kMaxTokenBytes = 4096;

struct Place {
  const char* variable;
  const char* below;  // folder below its value
};

// The value of the first variable that is set, with the folder below it.
std::optional<std::string> first_place(const Environment& environment, std::initializer_list<Place> places) {
  for (const Place& place : places)
    if (const auto value = environment(place.variable); value && !value->empty()) return *value + place.below;
  return std::nullopt;
}

bool is_on(const std::optional<std::string>& value) {
  if (!value) return false;
  const std::string lower = lower_case(*value);
  return lower == "1" || lower == "true" || lower == "yes" || lower == "on";
}

std::string trimmed(std::string text) {
  constexpr const char* kSpaces = " \t\r\n";
  text.erase(text.find_last_not_of(kSpaces) + 1);
  return text.erase(0, std::min(text.find_first_not_of(kSpaces), text.size()));
}

Result<std::string> find_token(const Environment& environment) {
  if (const auto token = environment("HF_TOKEN"); token && !trimmed(*token).empty()) return trimmed(*token);
  const auto path = first_place(environment, {{"HF_TOKEN_PATH", ""},
                                              {"HF_HOME", "/token"},
                                              {"XDG_CACHE_HOME", "/huggingface/token"},
                                              {"HOME", "/.cache/huggingface/token"}});
  std::error_code absent;
  if (!path || !std::filesystem::is_regular_file(*path, absent)) return std::string();
  TESSERA_ASSIGN(std::string token, read_file(*path, kMaxTokenBytes));
  return trimmed(std::move(token));
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<> check_token(const std::string& token) {
  if (std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7f; })) return {};
  return fail(ErrorCode::invalid_argument, "the token for the hub has a space, control character or non-ASCII byte");
}

Result<Settings> settings_from_environment(const Environment& environment) {
  Settings settings;
  const std::string endpoint = first_place(environment, {{"MODEL_ENDPOINT", ""}, {"HF_ENDPOINT", ""}}).value_or(kHub);
  auto url = parse_url(endpoint);
  if (!url) return forward_error(url, "MODEL_ENDPOINT or HF_ENDPOINT");
  settings.endpoint = std::move(*url);
  while (settings.endpoint.target.ends_with('/')) settings.endpoint.target.pop_back();
  TESSERA_ASSIGN(settings.token, find_token(environment));
  TESSERA_TRY(check_token(settings.token));
  const auto cache = first_place(environment, {{"LLAMA_CACHE", ""},
                                               {"HF_HUB_CACHE", ""},
                                               {"HUGGINGFACE_HUB_CACHE", ""},
                                               {"HF_HOME", "/hub"},
                                               {"XDG_CACHE_HOME", "/huggingface/hub"},
                                               {"HOME", "/.cache/huggingface/hub"}});
  if (!cache) return fail(ErrorCode::invalid_argument, "no folder for downloads: set HF_HUB_CACHE or HOME");
  settings.cache_dir = *cache;
  settings.is_offline = is_on(environment("HF_HUB_OFFLINE"));
  settings.ca_file = first_place(environment, {{"CURL_CA_BUNDLE", ""}, {"SSL_CERT_FILE", ""}}).value_or("");
  settings.ca_dir = environment("SSL_CERT_DIR").value_or("");
  return settings;
}

}  // namespace tessera::hub
