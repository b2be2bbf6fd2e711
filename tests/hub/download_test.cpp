// Downloads from the hub on loopback: the file is right or absent, whatever the server does.
#include <sys/resource.h>

#include <csignal>
#include <thread>

#include "tessera/hub/file_lock.h"
#include "tests/hub/hub_support.h"

namespace tessera::hub {
namespace {

namespace fs = std::filesystem;
using testing::HubServer;
using testing::read_all;

TEST(Download, FreshThenAgainWithoutABody) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_fresh");
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  ASSERT_EQ(fetched.paths.size(), 1u);
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  EXPECT_EQ(fetched.n_received, kModelBytes);
  const std::string oid = sha256_of(model_bytes());
  EXPECT_EQ(hub.blobs(), std::vector{oid});
  EXPECT_EQ(fs::read_symlink(fetched.paths[0]), "../../blobs/" + oid);
  const std::string commit = fs::path(fetched.folder).filename();
  EXPECT_EQ(read_all(hub.folder() + "/refs/main"), commit);
  EXPECT_TRUE(fs::exists(hub.settings.cache_dir + "/.locks/models--me--tiny/" + oid + ".lock"));
  EXPECT_EQ(hub.progress.back().n_bytes, kModelBytes);
  EXPECT_EQ(hub.progress.back().all_size, kModelBytes);
  EXPECT_TRUE(std::ranges::is_sorted(hub.progress, {}, &DownloadProgress::n_bytes));
  // Five ranges of 64 KiB: the first one alone, then up to four.
  EXPECT_EQ(server.n_requests("cdn"), 5u);
  EXPECT_EQ(server.requests().back().agent, "tessera");

  const size_t n_before = server.requests().size();
  ASSERT_OK_AND_ASSIGN(const Fetched again, hub.get("me/tiny:q4_k_m"));
  EXPECT_EQ(again.paths, fetched.paths);
  EXPECT_EQ(again.n_received, 0u);
  EXPECT_EQ(server.requests().size(), n_before + 1);  // the branches
  ASSERT_OK(hub.get("me/tiny@" + commit));
  EXPECT_EQ(server.requests().size(), n_before + 1);  // none with a commit
}

TEST(Download, AllPartsOfASplitModelAndFilesByPath) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_split");
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny:F16"));
  ASSERT_EQ(fetched.paths.size(), 2u);
  EXPECT_EQ(read_all(fetched.paths[0]), testing::random_bytes(2000, 9));
  EXPECT_EQ(read_all(fetched.paths[1]), testing::random_bytes(1500, 10));
  EXPECT_EQ(fs::read_symlink(fetched.paths[1]), "../../../blobs/" + sha256_of(testing::random_bytes(1500, 10)));
  EXPECT_EQ(hub.progress.back().number, 2u);
  EXPECT_EQ(hub.progress.back().n_all_bytes, 3500u);
  // Small files have git's hashes, and the empty one needs no bytes.
  ASSERT_OK_AND_ASSIGN(const Fetched config, hub.get("me/tiny", "config.json"));
  EXPECT_EQ(read_all(config.paths[0]), "{\"a\": 1}\n");
  ASSERT_OK_AND_ASSIGN(const Fetched empty, hub.get("me/tiny", "empty.txt"));
  EXPECT_EQ(read_all(empty.paths[0]), "");
  EXPECT_EQ(fs::read_symlink(empty.paths[0]), "../../blobs/e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

TEST(Download, CutConnectionsContinueWhereTheyWereCut) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_drop"), {"--fault", "drop=3"});
  TestHub hub(server.url(), "cache_drop");
  hub.settings.range_bytes = uint64_t{1} << 20;
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  EXPECT_EQ(fetched.n_received, kModelBytes);
  EXPECT_EQ(hub.clock.sleeps, (std::vector<int64_t>{1000, 2000, 4000}));
  std::vector<std::string> ranges;
  for (const auto& request : server.requests())
    if (request.on == "cdn") ranges.push_back(request.range);
  EXPECT_EQ(ranges,
            (std::vector<std::string>{"", "bytes=150000-299999", "bytes=225000-299999", "bytes=262500-299999"}));
}

TEST(Download, RetriesEndAndTheNextRunContinues) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_cut"), {"--fault", "drop=6"});
  TestHub hub(server.url(), "cache_cut");
  hub.settings.range_bytes = uint64_t{1} << 20;
  EXPECT_ERROR(hub.get("me/tiny"), "tiny-Q4_K_M.gguf: http://127.0.0.1:");
  EXPECT_EQ(hub.clock.sleeps, (std::vector<int64_t>{1000, 2000, 4000, 8000, 16000}));
  ASSERT_EQ(hub.notes.size(), 5u);
  EXPECT_NE(hub.notes[4].find("; retry 5 of 5 in 16.0 s"), std::string::npos) << hub.notes[4];
  const std::string part = sha256_of(model_bytes()) + ".incomplete";
  EXPECT_EQ(hub.blobs(), std::vector{part});
  const uint64_t n_kept = fs::file_size(hub.folder() + "/blobs/" + part);
  EXPECT_EQ(n_kept, 295312u);  // each of six cuts halves the rest
  EXPECT_FALSE(fs::exists(hub.folder() + "/refs/main"));

  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  EXPECT_EQ(fetched.n_received, kModelBytes - n_kept);
}

TEST(Download, RetriesAreCountedAnewAfterProgress) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_anew"), {"--fault", "drop=6"});
  TestHub hub(server.url(), "cache_anew");
  hub.settings.range_bytes = uint64_t{1} << 20;
  hub.settings.retry.progress_bytes = 225'000;
  ASSERT_OK(hub.get("me/tiny"));
  EXPECT_EQ(hub.clock.sleeps, (std::vector<int64_t>{1000, 1000, 2000, 4000, 8000, 16000}));
}

TEST(Download, ErrorsOfTheServerAreRetried) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_500"), {"--fault", "e500=2", "--fault", "e429=1"});
  TestHub hub(server.url(), "cache_500");
  hub.clock.noise_value = 0.5;
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  // 1 s, 2 s, then 4 s and the second of Retry-After; each with an eighth of noise.
  EXPECT_EQ(hub.clock.sleeps, (std::vector<int64_t>{1125, 2250, 5625}));
  EXPECT_NE(hub.notes[0].find("/api/models/me/tiny/refs: status 500: Internal; retry 1 of 5"), std::string::npos)
      << hub.notes[0];
}

TEST(Download, ErrorsOfTheServerEndAfterFiveRetries) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_503"), {"--fault", "e500=6"});
  TestHub hub(server.url(), "cache_503");
  EXPECT_ERROR(hub.get("me/tiny"), "status 500: Internal");
  EXPECT_EQ(server.requests().size(), 6u);
  EXPECT_FALSE(fs::exists(hub.settings.cache_dir));
}

TEST(Download, AServerWithoutRangesSendsAllAgain) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_norange"), {"--fault", "drop=1", "--fault", "norange=9"});
  TestHub hub(server.url(), "cache_norange");
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  EXPECT_EQ(server.n_requests("cdn"), 2u);  // one stream, that was cut, and one from the start
  EXPECT_EQ(fetched.n_received, kModelBytes);
}

TEST(Download, ARangeThatIsRefusedIsRetried) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_416"), {"--fault", "e416=2"});
  TestHub hub(server.url(), "cache_416");
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
}

TEST(Download, AWrongByteRemovesTheFile) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_corrupt"), {"--fault", "corrupt=1"});
  TestHub hub(server.url(), "cache_corrupt");
  const std::string oid = sha256_of(model_bytes());
  EXPECT_ERROR(hub.get("me/tiny"), ", wanted is " + oid + "; the file was removed");
  EXPECT_TRUE(hub.blobs().empty());
  EXPECT_FALSE(fs::exists(hub.folder() + "/snapshots"));
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
}

TEST(Download, ALengthThatLiesIsRetried) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_short"), {"--fault", "short=2"});
  TestHub hub(server.url(), "cache_short");
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  ASSERT_EQ(hub.notes.size(), 2u);
  EXPECT_NE(hub.notes[0].find("the answer has 65537 bytes, wanted are 65536"), std::string::npos) << hub.notes[0];
}

TEST(Download, RedirectsOfBadKindsEnd) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_loop"), {"--fault", "loop=11", "--fault", "foreign=1"});
  TestHub hub(server.url(), "cache_loop");
  EXPECT_ERROR(hub.get("me/tiny"), "more than 10 redirects");
  EXPECT_EQ(server.n_requests("hub", "/resolve/"), 11u);
  EXPECT_ERROR(hub.get("me/tiny"), "redirect: 'file:///etc/passwd' is not a URL of http or https");
  EXPECT_TRUE(hub.blobs().empty());
  EXPECT_TRUE(hub.clock.sleeps.empty());
}

TEST(Download, TheTokenGoesToTheHubAlone) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_token"), {"--token", "secret"});
  TestHub hub(server.url(), "cache_token");
  EXPECT_ERROR(
      hub.get("me/tiny"),
      "/api/models/me/tiny/refs: status 401: Repository not found or gated (if it is gated, accept its terms on "
      "the hub and set HF_TOKEN)");
  EXPECT_EQ(server.requests().size(), 1u);
  hub.settings.token = "wrong";
  EXPECT_ERROR(hub.get("me/tiny"), "accept its terms on the hub with this token's account");
  hub.settings.token = "secret";
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  for (const auto& request : server.requests())
    if (request.on == "cdn" || request.status < 400) {
      EXPECT_EQ(request.has_token, request.on == "hub") << request.path;
    }
  EXPECT_EQ(server.n_requests("cdn"), 5u);
}

TEST(Download, OfflineTakesTheCacheOnly) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_offline");
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  const size_t n_before = server.requests().size();
  hub.settings.is_offline = true;
  ASSERT_OK_AND_ASSIGN(const Fetched again, hub.get("me/tiny"));
  EXPECT_EQ(again.paths, fetched.paths);
  EXPECT_ERROR(hub.get("me/tiny:Q8_0"), "tiny-Q8_0.gguf of me/tiny is not in the cache");
  EXPECT_ERROR(hub.get("me/tiny@v2"), "me/tiny@v2 is not in the cache");
  EXPECT_ERROR(hub.get("me/other"), "me/other is not in the cache");
  EXPECT_ERROR(hub.get("me/other@0123456789012345678901234567890123456789"), "is not in the cache");
  EXPECT_EQ(server.requests().size(), n_before);
  // Of a snapshot that another tool has made, the files that are there count.
  fs::remove_all(hub.folder() + "/listings");
  ASSERT_OK_AND_ASSIGN(const Fetched other, hub.get("me/tiny"));
  EXPECT_EQ(other.paths, fetched.paths);
  EXPECT_ERROR(hub.get("me/tiny:Q8_0"), "no GGUF file with the tag 'Q8_0' (there are Q4_K_M)");
}

TEST(Download, ChangedFilesAreNoticed) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const std::string root = write_repository("repo_changed");
  const HubServer server(script, root);
  TestHub hub(server.url(), "cache_changed");
  Hub one = hub.hub();
  ASSERT_OK_AND_ASSIGN(const Found found, one.find(parse_model_name("me/tiny").value()));
  ASSERT_OK_AND_ASSIGN(const Found config, one.find(parse_model_name("me/tiny").value(), "config.json"));
  testing::write_below(root, "me/tiny/tiny-Q4_K_M.gguf", testing::random_bytes(kModelBytes, 99));
  EXPECT_ERROR(one.fetch(found), "the file has changed: the server has " +
                                     sha256_of(testing::random_bytes(kModelBytes, 99)) + ", wanted is " +
                                     sha256_of(model_bytes()));
  testing::write_below(root, "me/tiny/tiny-Q4_K_M.gguf", testing::random_bytes(kModelBytes - 1, 99));
  EXPECT_ERROR(one.fetch(found), "the server has 299999 bytes, wanted are 300000");
  testing::write_below(root, "me/tiny/config.json", "{\"b\": 1}\n");
  EXPECT_ERROR(one.fetch(config), "the file has changed");
  EXPECT_TRUE(hub.blobs().empty());
  // The next run gets the new version, and the ref follows.
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), testing::random_bytes(kModelBytes - 1, 99));
  EXPECT_EQ(read_all(hub.folder() + "/refs/main"), fs::path(fetched.folder).filename());
}

TEST(Download, CancellingKeepsThePart) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_cancel");
  hub.settings.n_ranges = 1;  // so that a request is missing whenever progress is told before the end
  hub.on_progress = [&](const DownloadProgress& state) {
    if (state.n_bytes > 100'000) hub.cancel.cancel();
  };
  const auto stopped = hub.get("me/tiny");
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  const std::string part = hub.folder() + "/blobs/" + sha256_of(model_bytes()) + ".incomplete";
  ASSERT_TRUE(fs::exists(part));
  const std::string kept = read_all(part);
  EXPECT_GE(kept.size(), kRangeBytes);
  EXPECT_EQ(kept, model_bytes().substr(0, kept.size()));
  EXPECT_EQ(hub.blobs().size(), 1u);
  hub.cancel.reset();
  hub.on_progress = nullptr;
  hub.progress.clear();
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  EXPECT_EQ(fetched.n_received, kModelBytes - kept.size());
  EXPECT_TRUE(hub.progress.front().is_checking);
}

TEST(Download, CancellingEndsAWaitForARetry) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_wait"), {"--fault", "e500=1"});
  TestHub hub(server.url(), "cache_wait");
  hub.clock.on_sleep = [&] { hub.cancel.cancel(); };
  const auto stopped = hub.get("me/tiny");
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

TEST(Download, AFullDiskKeepsThePart) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_full");
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small { 200'000, before.rlim_max };
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto full = hub.get("me/tiny");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_action);
  EXPECT_ERROR(full, "cannot write: File too large");
  EXPECT_TRUE(hub.clock.sleeps.empty());
  ASSERT_EQ(hub.blobs(), std::vector{sha256_of(model_bytes()) + ".incomplete"});
  const std::string kept = read_all(hub.folder() + "/blobs/" + hub.blobs()[0]);
  EXPECT_EQ(kept, model_bytes().substr(0, kept.size()));
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
}

TEST(Download, TwoAtOnceDownloadOnce) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_two"), {"--fault", "slow=1"});
  TestHub first(server.url(), "cache_two"), second(server.url(), "cache_two");
  first.settings.range_bytes = second.settings.range_bytes = uint64_t{1} << 20;
  // The second begins when the first has the lock, and waits on its fake clock, so its sleep is real here.
  second.clock.on_sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  std::optional<std::thread> thread;
  std::optional<Result<Fetched>> of_second;
  first.on_progress = [&](const DownloadProgress&) {
    if (!thread) thread.emplace([&] { of_second = second.get("me/tiny:Q8_0"); });
  };
  ASSERT_OK(first.get("me/tiny:Q8_0"));
  thread->join();
  ASSERT_OK(*of_second);
  EXPECT_EQ(server.n_requests("cdn"), 1u);
}

TEST(Download, WaitsForTheLockOfAnotherProcess) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_lock");
  const RepositoryCache cache(hub.settings.cache_dir, "me/tiny");
  const std::string oid = sha256_of(model_bytes());
  ASSERT_OK_AND_ASSIGN(auto held, FileLock::try_acquire(cache.lock(oid)));
  ASSERT_TRUE(held.has_value());
  // The holder finishes the download while we wait.
  hub.clock.on_sleep = [&] {
    EXPECT_OK(cache.create_folders());
    std::ofstream(cache.blob(oid), std::ios::binary) << model_bytes();
    held.reset();
  };
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  EXPECT_EQ(fetched.n_received, 0u);
  EXPECT_EQ(server.n_requests("cdn"), 0u);
  EXPECT_EQ(hub.notes, std::vector<std::string>{"tiny-Q4_K_M.gguf: another process downloads it; waiting"});
  EXPECT_EQ(hub.clock.sleeps.size(), 1u);
}

TEST(Download, TakesOverPartsOfOtherTools) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  const std::string oid = sha256_of(model_bytes());
  for (const std::string end : {".incomplete", ".downloadInProgress"}) {
    TestHub hub(server.url(), "cache_parts");
    testing::write_below(hub.folder(), "blobs/" + oid + end, model_bytes().substr(0, 200'000));
    ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
    EXPECT_EQ(fetched.n_received, kModelBytes - 200'000) << end;
    EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
    EXPECT_EQ(hub.blobs(), std::vector{oid});
  }
}

TEST(Download, TooLittleSpaceIsNoticedBefore) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_space");
  Hub one = hub.hub();
  ASSERT_OK_AND_ASSIGN(Found found, one.find(parse_model_name("me/tiny").value()));
  found.selection.files[0].size = uint64_t{1} << 60;
  EXPECT_ERROR(one.fetch(found), "me/tiny: needs 1152921.5 TB, ");
  EXPECT_EQ(server.n_requests("hub", "/resolve/"), 0u);
}

TEST(Download, ASlowServerIsWaitedFor) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_slow"), {"--fault", "slow=1"});
  TestHub hub(server.url(), "cache_slow");
  hub.settings.stall_seconds = 1;  // below 1 KB/s; the server sends 16 KiB/s
  hub.settings.range_bytes = 20'000;
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get("me/tiny"));
  // On a busy machine nothing may come for a second: then a part is asked for again.
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
}

TEST(Download, GoesThroughTheProxyOfTheEnvironment) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const HubServer server(script, write_repository("repo_proxy"));
  TestHub hub("http://hub.invalid", "cache_proxy");
  ::setenv("http_proxy", server.url().c_str(), 1);
  ::setenv("no_proxy", "127.0.0.1", 1);  // the CDN
  const auto fetched = hub.get("me/tiny:Q8_0");
  ::setenv("no_proxy", "hub.invalid", 1);
  hub.settings.retry.n_retries = 0;
  const auto direct = hub.get("me/tiny");
  ::unsetenv("http_proxy");
  ::unsetenv("no_proxy");
  ASSERT_OK(fetched);
  EXPECT_EQ(read_all(fetched->paths[0]), testing::random_bytes(1000, 8));
  for (const auto& request : server.requests()) EXPECT_EQ(request.is_proxied, request.on == "hub") << request.path;
  EXPECT_ERROR(direct, "http://hub.invalid/api/models/me/tiny/refs: Could not resolve host");
}

TEST(Download, UrlsHaveAPlaceInTheCacheToo) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  const std::string root = write_repository("repo_url");
  const HubServer server(script, root, {"--fault", "drop=1"});
  TestHub hub(server.url(), "cache_url");
  const std::string url = server.cdn_url() + "/me/tiny/tiny-Q4_K_M.gguf";
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get_url(url));
  EXPECT_EQ(read_all(fetched.paths[0]), model_bytes());
  EXPECT_EQ(fs::path(fetched.paths[0]).filename(), "tiny-Q4_K_M.gguf");
  const size_t n_before = server.requests().size();
  ASSERT_OK(hub.get_url(url));
  EXPECT_EQ(server.requests().size(), n_before + 1);
  EXPECT_EQ(server.requests().back().range, "bytes=0-0");
  // Another version is another file; offline, the last one counts.
  testing::write_below(root, "me/tiny/tiny-Q4_K_M.gguf", testing::random_bytes(500, 3));
  ASSERT_OK_AND_ASSIGN(const Fetched changed, hub.get_url(url));
  EXPECT_EQ(read_all(changed.paths[0]), testing::random_bytes(500, 3));
  hub.settings.is_offline = true;
  ASSERT_OK_AND_ASSIGN(const Fetched offline, hub.get_url(url));
  EXPECT_EQ(offline.paths, changed.paths);
  EXPECT_ERROR(hub.get_url(url + "x"), "is not in the cache");
}

TEST(Download, UrlsOfTheHubAreFilesOfItsRepositories) {
  TESSERA_HUB_SERVER_OR_SKIP(script);
  HubServer& server = plain_server(script);
  TestHub hub(server.url(), "cache_huburl");
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, hub.get_url(server.url() + "/me/tiny/resolve/main/tiny-Q8_0.gguf"));
  EXPECT_EQ(hub.blobs(), std::vector{sha256_of(testing::random_bytes(1000, 8))});
  ASSERT_OK_AND_ASSIGN(const Fetched split,
                       hub.get_url(server.url() + "/me/tiny/blob/main/F16/tiny-F16-00001-of-00002.gguf?download=true"));
  EXPECT_EQ(split.paths.size(), 2u);
  // Elsewhere, all parts are found by their names.
  ASSERT_OK_AND_ASSIGN(const Fetched parts,
                       hub.get_url(server.cdn_url() + "/me/tiny/F16/tiny-F16-00001-of-00002.gguf?a=b"));
  ASSERT_EQ(parts.paths.size(), 2u);
  EXPECT_EQ(read_all(parts.paths[1]), testing::random_bytes(1500, 10));
}

}  // namespace
}  // namespace tessera::hub
