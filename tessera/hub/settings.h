// Settings of downloads, and their values in the environment. Names and order of the variables are those of the hub's
// own tools and of llama.cpp, so that all share one cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/hub/url.h"

namespace tessera::hub {

/// Returns a variable of the environment, or nothing.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

struct RetryPolicy {
  int n_retries = 5;                            // of one request, in a row
  std::chrono::milliseconds first_delay{1000};  // doubled each time
  std::chrono::seconds max_retry_after{300};    // of the server's Retry-After
  uint64_t progress_bytes = uint64_t{1} << 20;  // after so many bytes, retries are counted anew
};

struct Settings {
  Url endpoint{};
  std::string token;  // sent to the endpoint alone; "": none
  std::string cache_dir;
  bool is_offline = false;
  std::string ca_file;  // certificates; "": the system's
  std::string ca_dir;
  std::string user_agent = "tessera";
  RetryPolicy retry{};
  uint64_t range_bytes = uint64_t{64} << 20;  // of one request
  int n_ranges = 4;                           // requests at once
  int stall_seconds = 30;                     // below 1 KB/s for so long, a transfer is begun anew
};

/// Reads the settings. Endpoint: MODEL_ENDPOINT, HF_ENDPOINT, else the hub. Token: HF_TOKEN, else the file that
/// HF_TOKEN_PATH names, HF_HOME/token, ~/.cache/huggingface/token. Cache: LLAMA_CACHE, HF_HUB_CACHE,
/// HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. HF_HUB_OFFLINE.
/// Certificates: CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR. An empty variable counts as absent.
/// Errors: invalid_argument (an endpoint that is no URL; a token with control characters; no place for a cache).
Result<Settings> settings_from_environment(const Environment& environment = process_environment);

/// Checks a token: printable ASCII without spaces. Errors: invalid_argument.
Result<> check_token(const std::string& token);

}  // namespace tessera::hub
