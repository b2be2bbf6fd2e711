// Shared by the tests of downloads: a clock that does not wait, a repository, and a Hub on a server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/hub/hub.h"
#include "tests/support/hub_server.h"

namespace tessera::hub {

class FakeClock final : public Clock {
 public:
  TimePoint now() override { return now_; }
  void sleep_until(TimePoint time, const CancelToken&) override {
    sleeps.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(time - now_).count());
    now_ = time;
    if (on_sleep) on_sleep();
  }
  double noise() override { return noise_value; }

  std::vector<int64_t> sleeps;  // ms
  std::function<void()> on_sleep;
  double noise_value = 0;

 private:
  TimePoint now_{};
};

constexpr size_t kModelBytes = 300'000;
constexpr uint64_t kRangeBytes = 65'536;

/// The bytes of the repository's Q4_K_M file.
inline const std::string& model_bytes() {
  static const std::string bytes = testing::random_bytes(kModelBytes, 7);
  return bytes;
}

/// Writes the repository me/tiny below a folder of its own, and returns the folder.
inline std::string write_repository(const std::string& name) {
  const std::string root = testing::temporary_path(name);
  std::filesystem::remove_all(root);
  testing::write_below(root, "me/tiny/tiny-Q4_K_M.gguf", model_bytes());
  testing::write_below(root, "me/tiny/tiny-Q8_0.gguf", testing::random_bytes(1000, 8));
  testing::write_below(root, "me/tiny/F16/tiny-F16-00001-of-00002.gguf", testing::random_bytes(2000, 9));
  testing::write_below(root, "me/tiny/F16/tiny-F16-00002-of-00002.gguf", testing::random_bytes(1500, 10));
  testing::write_below(root, "me/tiny/config.json", "{\"a\": 1}\n");
  testing::write_below(root, "me/tiny/empty.txt", "");
  return root;
}

/// The server of all tests that need no faults and change no files of its repository.
inline testing::HubServer& plain_server(const std::string& script) {
  static testing::HubServer server(script, write_repository("repo_plain"));
  server.forget();
  return server;
}

/// A Hub, its cache, and all that it reports.
struct TestHub {
  Settings settings;
  FakeClock clock;
  CancelToken cancel;
  std::vector<std::string> notes;
  std::vector<DownloadProgress> progress;
  std::function<void(const DownloadProgress&)> on_progress;

  TestHub(const std::string& endpoint, const std::string& cache_name) {
    settings.endpoint = parse_url(endpoint).value();
    settings.endpoint.target = "";
    settings.cache_dir = testing::temporary_path(cache_name);
    settings.range_bytes = kRangeBytes;
    std::filesystem::remove_all(settings.cache_dir);
  }

  Hub hub() {
    return Hub(settings,
               {.on_progress =
                    [this](const DownloadProgress& state) {
                      progress.push_back(state);
                      if (on_progress) on_progress(state);
                    },
                .on_note = [this](const std::string& note) { notes.push_back(note); }},
               cancel, &clock);
  }

  /// Finds and fetches a model.
  Result<Fetched> get(const std::string& name, const std::string& path = "") {
    Hub one = hub();
    TESSERA_ASSIGN(const ModelName parsed, parse_model_name(name));
    TESSERA_ASSIGN(const Found found, one.find(parsed, path));
    return one.fetch(found);
  }
  Result<Fetched> get_url(const std::string& url) {
    Hub one = hub();
    TESSERA_ASSIGN(const Found found, one.find_url(url));
    return one.fetch(found);
  }

  std::string folder() const { return settings.cache_dir + "/models--me--tiny"; }
  /// Names in blobs/, in order.
  std::vector<std::string> blobs() const { return RepositoryCache(settings.cache_dir, "me/tiny").blob_names(); }
};

inline std::string sha256_of(const std::string& bytes) { return sha256_hex(bytes).value(); }

/// Sets `script` to the path of hub_server.py, or skips the test.
#define TESSERA_HUB_SERVER_OR_SKIP(script) TESSERA_SHARED_OR_SKIP(script, "tools/hub_server.py")

}  // namespace tessera::hub
