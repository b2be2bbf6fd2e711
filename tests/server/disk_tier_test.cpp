// The disk tier of the prefix cache: what a server has computed, another one with the same directory reads.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/server/api_support.h"
#include "tests/server/http_server_fixture.h"
#include "tests/support/editable_model.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class DiskTierTest : public ApiTest {
 protected:
  void SetUp() override {
    directory_ = temporary_path("cache");
    fs::remove_all(directory_);
  }

  /// Starts a server anew, with nothing in memory.
  static constexpr int64_t kNever = 100'000'000;  // milliseconds
  void restart(ApiSetup setup = {}, int64_t disk_delay_ms = 10) {
    server_.reset();
    setup.options.api.has_metrics = true;
    setup.options.storage.cache_directory = directory_;
    setup.served.scheduler.always_restores = true;
    setup.served.scheduler.disk_delay_ms = disk_delay_ms;
    start(std::move(setup));
  }
  /// Ends the server, which might write another file, and removes all files.
  void remove_files() {
    server_.reset();
    fs::remove_all(directory_);
  }
  static ordered_json request(int64_t n_tokens, int first = 5) {
    ordered_json ids = ordered_json::array();
    for (int64_t i = 0; i < n_tokens; ++i) ids.push_back((first + i * 7) % 400 + 5);
    return {{"prompt", ids}, {"n_predict", 6}, {"temperature", 0.8}, {"seed", 11}, {"ignore_eos", true}};
  }
  Answer complete(int64_t n_tokens, int first = 5) const { return post_json("/completion", request(n_tokens, first)); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(directory_, error); at != fs::recursive_directory_iterator();
         at.increment(error))
      if (!error && at->is_regular_file(error) && !at->path().filename().string().starts_with("."))
        found.push_back(at->path());
    std::ranges::sort(found);
    return found;
  }
  /// Waits until the directory has n files, and looks again a little later: n must not be passed on the way to more.
  void wait_for_files(size_t n) const {
    EXPECT_TRUE(wait_until([&] { return files().size() == n; })) << list_of_files() << "want " << n;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(files().size(), n) << list_of_files();
  }
  /// A line for each file: its bytes, the time of its last change, kind and name.
  std::string list_of_files() const {
    std::string list;
    for (const fs::path& path : files())
      list += std::to_string(fs::file_size(path)) + " bytes, " +
              std::to_string(fs::last_write_time(path).time_since_epoch().count()) + ", kind " +
              std::to_string(int{read_all(path)[12]}) + ", " + path.string() + "\n";
    return list;
  }
  /// The value of a line of GET /metrics.
  int64_t metric(const std::string& name) const {
    const std::string text = "\n" + get("/metrics").reply.body;
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 2));
  }
  int64_t n_damaged() const { return metric("tessera_damaged_files_total"); }
  static int64_t n_cached(const Answer& answer) { return answer.json["timings"]["cache_n"]; }

  std::string directory_;
};

TEST_F(DiskTierTest, AnotherServerContinuesWithTheSameBits) {
  restart();
  const Answer first = complete(300);
  EXPECT_EQ(n_cached(first), 0);
  wait_for_files(4);  // of 305 tokens
  EXPECT_EQ(n_cached(complete(300)), 299);
  restart();
  const Answer second = complete(300);
  EXPECT_EQ(n_cached(second), 256);
  EXPECT_EQ(second.json["timings"]["prompt_n"], 44);
  EXPECT_EQ(second.json["content"], first.json["content"]);
  EXPECT_EQ(metric("tessera_prefix_tokens_total{model=\"story.gguf\",source=\"disk\"}"), 256);
  EXPECT_EQ(metric("tessera_prefix_tokens_total{model=\"story.gguf\",source=\"ram\"}"), 0);
  EXPECT_EQ(n_cached(complete(300)), 299);  // in memory now
  const Answer longer = complete(400);
  EXPECT_EQ(n_cached(longer), 300);
  wait_for_files(6);
  restart();
  EXPECT_EQ(complete(400).json["content"], longer.json["content"]);
}

TEST_F(DiskTierTest, FilesAreForTheUserOnly) {
  restart();
  complete(100);
  wait_for_files(1);
  struct stat status {};
  ASSERT_EQ(::stat(directory_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(files()[0].c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(metric("tessera_prefix_disk_bytes"), status.st_size);
}

TEST_F(DiskTierTest, ADirectoryInWhichOthersMayWriteIsRefused) {
  fs::create_directory(directory_);
  fs::permissions(directory_, fs::perms::others_write, fs::perm_options::add);
  server::ServerOptions options;
  options.storage.cache_directory = directory_;
  EXPECT_ERROR(server::Server::start(options), "other users may not write");
  options.storage.cache_directory = directory_ + "/no/such";
  EXPECT_ERROR(server::Server::start(options), "--cache-disk");
}

TEST_F(DiskTierTest, PartsThatAreInMemoryAreNotRead) {
  restart();
  complete(300);
  wait_for_files(4);
  restart();
  EXPECT_EQ(n_cached(complete(100)), 64);
  EXPECT_EQ(n_cached(complete(300)), 256);  // the first 105 tokens were in memory, of which 41 are read anew
  EXPECT_EQ(metric("tessera_prefix_tokens_total{model=\"story.gguf\",source=\"disk\"}"), 64 + 156);
}

// The last token is always computed, so its block is not read.
TEST_F(DiskTierTest, WholeBlocksBeforeTheLastTokenAreRead) {
  restart();
  const Answer first = complete(320);
  wait_for_files(5);
  const Answer next = complete(321);
  restart();
  const Answer second = complete(320);
  EXPECT_EQ(n_cached(second), 256);
  EXPECT_EQ(second.json["content"], first.json["content"]);
  restart();
  const Answer third = complete(321);
  EXPECT_EQ(n_cached(third), 320);
  EXPECT_EQ(third.json["content"], next.json["content"]);
}

TEST_F(DiskTierTest, ARequestForASlotUsesWhatTheSlotHolds) {
  restart();
  const Answer first = complete(300);
  wait_for_files(4);
  restart();
  ordered_json body = request(300);
  body["id_slot"] = 1;
  const Answer second = post_json("/completion", body);
  EXPECT_EQ(n_cached(second), 0);
  EXPECT_EQ(second.json["content"], first.json["content"]);
}

TEST_F(DiskTierTest, SaltsAndModelsAreKeptApart) {
  restart();
  ordered_json salted = request(200);
  salted["cache_salt"] = "a";
  post_json("/completion", salted);
  wait_for_files(3);
  restart();
  EXPECT_EQ(n_cached(complete(200)), 0);
  EXPECT_EQ(n_cached(post_json("/completion", salted)), 192);
  restart({.model = arch_model("llama-dense")});
  ordered_json other = salted;
  for (auto& id : other["prompt"]) id = id.get<int>() % 50;
  EXPECT_EQ(n_cached(post_json("/completion", other)), 0);
}

TEST_F(DiskTierTest, KeysAreKeptApartAlsoAfterARestart) {
  ApiSetup setup;
  setup.options.http.api_keys = {"one", "two"};
  const auto n_cached_for = [&](const char* key) {
    return n_cached(post("/completion", request(100).dump(), std::string("X-Api-Key: ") + key + "\r\n"));
  };
  restart(setup);
  EXPECT_EQ(n_cached_for("one"), 0);
  EXPECT_EQ(n_cached_for("two"), 0);
  EXPECT_EQ(n_cached_for("one"), 99);
  wait_for_files(2);
  setup.options.http.api_keys = {"three", "two"};
  restart(setup);
  EXPECT_EQ(n_cached_for("three"), 0);
  EXPECT_EQ(n_cached_for("two"), 64);
  setup.options.api.shares_cache = true;
  restart(setup);
  EXPECT_EQ(n_cached_for("three"), 0);
  EXPECT_EQ(n_cached_for("two"), 99);
}

TEST_F(DiskTierTest, RequestsThatDoNotUseTheCacheWriteNothing) {
  restart();
  ordered_json uncached = request(200);
  uncached["cache_prompt"] = false;
  post_json("/completion", uncached);
  complete(100, 9);
  wait_for_files(1);  // only that of the second
  restart();
  EXPECT_EQ(n_cached(complete(200)), 0);
}

// Either the file is refused and computed anew, or nothing has changed. The text is never another one.
TEST_F(DiskTierTest, AChangedByteNeverChangesTheText) {
  restart();
  const std::string text = complete(70).json["content"];
  wait_for_files(1);
  const fs::path path = files()[0];
  const std::string good = read_all(path);
  ASSERT_GT(good.size(), 400u);
  std::vector<size_t> places;                                // block_file_test.cpp changes every byte
  for (size_t i = 0; i < 352; i += 16) places.push_back(i);  // header and tokens
  for (size_t i = 352; i < good.size() - 8; i += good.size() / 10) places.push_back(i);
  for (size_t i = good.size() - 8; i < good.size(); ++i) places.push_back(i);
  for (const size_t i : places) {
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    server_.reset();
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << changed;
    restart({}, kNever);  // so that the file is not written again at once
    const Answer answer = complete(70);
    ASSERT_EQ(answer.json["content"], text) << "byte " << i;
    ASSERT_EQ(n_cached(answer), 0) << "byte " << i;
    ASSERT_EQ(n_damaged(), 1) << "byte " << i;
    ASSERT_FALSE(fs::exists(path)) << "byte " << i;
  }
}

TEST_F(DiskTierTest, ADamagedFileIsRemovedCountedAndWrittenAgain) {
  restart();
  const std::string text = complete(300).json["content"];
  wait_for_files(4);
  std::vector<fs::path> paths = files();
  for (const fs::path& path : paths) fs::resize_file(path, 100);
  restart();
  const Answer answer = complete(300);
  EXPECT_EQ(answer.json["content"], text);
  EXPECT_EQ(n_cached(answer), 0);
  EXPECT_EQ(n_damaged(), 1);  // later ones are not read
  const auto n_whole = [&] {
    return std::ranges::count_if(files(), [](const auto& p) { return fs::file_size(p) > 100; });
  };
  EXPECT_TRUE(wait_until([&] { return n_whole() == 1; }));
}

TEST_F(DiskTierTest, AMissingFileEndsTheChain) {
  restart();
  const std::string text = complete(300).json["content"];
  wait_for_files(4);
  restart();
  for (const fs::path& path : files()) fs::remove(path);  // as another process may do
  const Answer answer = complete(300);
  EXPECT_EQ(answer.json["content"], text);
  EXPECT_EQ(n_cached(answer), 0);
  EXPECT_EQ(n_damaged(), 0);
}

TEST_F(DiskTierTest, TheSizeHasABoundAndTheLeastRecentlyUsedGo) {
  restart();
  complete(130);
  wait_for_files(2);
  const uint64_t one = fs::file_size(files()[0]);
  ApiSetup setup;
  setup.options.storage.cache_bytes = 4 * one + one / 2;
  restart(setup);
  EXPECT_EQ(n_cached(complete(130)), 128);  // used now
  for (const int first : {40, 80, 120}) {
    complete(70, first);
    complete(130);
    EXPECT_TRUE(wait_until([&] { return n_cached(complete(70, first)) > 0 && files().size() <= 4; }));
  }
  EXPECT_TRUE(wait_until([&] { return metric("tessera_prefix_disk_evictions_total") >= 1; }));
  EXPECT_LE(metric("tessera_prefix_disk_bytes"), static_cast<int64_t>(4 * one + one / 2));
  restart(setup);
  EXPECT_EQ(n_cached(complete(130)), 128);
  EXPECT_EQ(n_cached(complete(70, 40)), 0);
}

TEST_F(DiskTierTest, AFullDiskCostsNoRequest) {
  restart();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Answer answer = complete(100);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(wait_until([&] { return metric("tessera_prefix_disk_errors_total") == 1; }));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(files().size(), 0u);
  EXPECT_EQ(complete(100).json["content"], answer.json["content"]);
}

TEST_F(DiskTierTest, TheEndOfTheServerWritesTheRest) {
  restart({}, kNever);
  complete(300);
  complete(200, 40);
  EXPECT_EQ(files().size(), 0u);
  restart({}, kNever);
  EXPECT_EQ(files().size(), 4u + 3u);
  EXPECT_EQ(n_cached(complete(300)), 256);
  EXPECT_EQ(n_cached(complete(200, 40)), 192);
}

TEST_F(DiskTierTest, TheEndOfTheServerHasALimitOfTime) {
  ApiSetup setup;
  setup.served.scheduler.disk_flush_ms = 0;
  restart(setup, kNever);
  complete(300);
  server_.reset();
  EXPECT_EQ(files().size(), 0u);
}

TEST_F(DiskTierTest, TheServerEndsAlsoOnAFullDisk) {
  restart({}, kNever);
  complete(300);
  complete(200, 40);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  server_.reset();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(files().size(), 0u);
}

TEST_F(DiskTierTest, ClearingEmptiesMemoryAndDisk) {
  restart();
  complete(300);
  wait_for_files(4);
  const Answer cleared = post("/cache?action=clear", "");
  EXPECT_EQ(cleared.status, 200);
  EXPECT_EQ(cleared.json["n_files"], 4);
  EXPECT_GE(cleared.json["n_blocks"], 4);
  EXPECT_EQ(files().size(), 0u);
  EXPECT_EQ(metric("tessera_prefix_disk_bytes"), 0);
  EXPECT_EQ(n_cached(complete(300)), 0);
  wait_for_files(4);
  expect_refused(post("/cache?action=none", ""), 400, "want clear");
}

TEST_F(DiskTierTest, TwoServersShareADirectory) {
  restart();
  const auto first = std::move(server_);
  restart();
  const Answer here = complete(300);
  wait_for_files(4);
  std::swap(server_, const_cast<std::unique_ptr<server::Server>&>(first));
  const Answer there = complete(300);  // it has not read the names again
  EXPECT_EQ(there.json["content"], here.json["content"]);
  EXPECT_EQ(complete(300).json["content"], here.json["content"]);
  EXPECT_EQ(files().size(), 4u);
}

// --- models with windows or recurrent states: they continue at marks

class MarksOnDisk : public DiskTierTest {
 protected:
  void restart_with(const std::string& model) { restart({.model = model, .n_cache_marks = 8}); }
  Answer run(int64_t n_tokens, int first = 5) const {
    ordered_json body = request(n_tokens, first);
    for (auto& id : body["prompt"]) id = id.get<int>() % 200 + 3;
    body["return_tokens"] = true;
    return post_json("/completion", body);
  }
  /// The files of a kind, as the 4 bytes after the version tell.
  std::vector<fs::path> files_of(SavedPart::Kind kind) const {
    std::vector<fs::path> found;
    for (const fs::path& path : files())
      if (read_all(path)[12] == static_cast<char>(kind)) found.push_back(path);
    return found;
  }

  static std::string wide_window() {
    EditableModel model(arch_model("gemma2-dense"));
    model.builder.set("gemma2.attention.sliding_window", uint32_t{150});
    return model.write("wide_window.gguf");
  }
};

// Marks are at 299, the end of the prompt less a token, and at 305, the end of the answer less a token.
TEST_F(MarksOnDisk, AnotherServerContinuesAtTheMarkWithTheSameBits) {
  struct Case {
    std::string model;
    size_t n_files;
  };
  const std::vector<Case> cases = {
      {arch_model("gemma2-dense"), 4 + 2 + 2},    // blocks, their tails, windows within a block
      {wide_window(), 4 + 2 + 2 + 2 + 1},         // windows share a whole block, not their first and last ones
      {arch_model("mamba-dense"), 4 + 2 + 2},     // blocks without rows, and states
      {arch_model("lfm2-dense"), 4 + 2 + 2 + 2},  // blocks, their tails, windows and states
  };
  for (const auto& [model, n_files] : cases) {
    SCOPED_TRACE(model);
    remove_files();
    restart_with(model);
    const Answer first = run(300);
    ASSERT_EQ(first.json["tokens"].size(), 6u);
    EXPECT_EQ(n_cached(first), 0);
    wait_for_files(n_files);
    restart_with(model);
    const Answer second = run(300);
    EXPECT_EQ(n_cached(second), 299);
    EXPECT_EQ(second.json["tokens"], first.json["tokens"]);
    EXPECT_EQ(n_cached(run(300)), 299);  // in memory now
    EXPECT_EQ(n_cached(run(400)), 299);
    EXPECT_EQ(metric("tessera_damaged_files_total"), 0);
  }
}

TEST_F(MarksOnDisk, AMarkMayBeInTheFirstBlockOrAtTheEndOfABlock) {
  struct Case {
    const char* model;
    int64_t n_tokens;
    size_t n_files;
  };
  for (const auto& [model, n_tokens, n_files] :
       {Case{"gemma2-dense", 40, 4}, {"gemma2-dense", 65, 5}, {"lfm2-dense", 40, 6}, {"lfm2-dense", 65, 7}}) {
    SCOPED_TRACE(model + std::to_string(n_tokens));
    remove_files();
    restart_with(arch_model(model));
    const Answer first = run(n_tokens);
    wait_for_files(n_files);
    restart_with(arch_model(model));
    const Answer second = run(n_tokens);
    EXPECT_EQ(n_cached(second), n_tokens - 1);
    EXPECT_EQ(second.json["tokens"], first.json["tokens"]);
  }
}

// The damaged files would be counted if they were read.
TEST_F(MarksOnDisk, MarksThatAreInMemoryAreNotRead) {
  restart_with(arch_model("gemma2-dense"));
  const Answer first = run(300);
  wait_for_files(8);
  for (const fs::path& path : files()) std::ofstream(path, std::ios::binary) << "damaged";
  EXPECT_EQ(n_cached(run(300)), 299);
  EXPECT_EQ(n_cached(run(400)), 299);
  EXPECT_EQ(n_damaged(), 0);
}

TEST_F(MarksOnDisk, AConversationContinuesAfterItsAnswer) {
  const std::vector<std::pair<const char*, size_t>> models_and_files = {
      {"gemma2-dense", 5}, {"mamba-dense", 5}, {"lfm2-dense", 7}, {"jamba-dense", 5}};
  for (const auto& [model, n_files] : models_and_files) {
    SCOPED_TRACE(model);
    remove_files();
    restart_with(arch_model(model));
    ordered_json body = request(100);
    for (auto& id : body["prompt"]) id = id.get<int>() % 200 + 3;
    body["return_tokens"] = true;
    const Answer first = post_json("/completion", body);
    for (const auto& id : first.json["tokens"]) body["prompt"].push_back(id);
    for (int i = 0; i < 30; ++i) body["prompt"].push_back(7);
    wait_for_files(n_files);
    restart_with(arch_model(model));
    const Answer second = post_json("/completion", body);
    EXPECT_EQ(n_cached(second), 105);
    ordered_json alone = body;
    alone["cache_prompt"] = false;
    EXPECT_EQ(post_json("/completion", alone).json["tokens"], second.json["tokens"]);
  }
}

// Of two marks the later one is damaged or gone, so the earlier one serves. The windows of 16 tokens before the marks
// of the shorter prompt are within a block, those of the longer one are in two blocks.
TEST_F(MarksOnDisk, AnEarlierMarkServesIfThePartsOfALaterOneAreBad) {
  for (const char* model : {"gemma2-dense", "lfm2-dense"}) {
    SCOPED_TRACE(model);
    const bool has_states = model == std::string("lfm2-dense");
    const size_t n_short = 1 + 2 * (has_states ? 3 : 2), n_more = 2 + 2 * (has_states ? 4 : 3);
    for (const bool is_damaged : {true, false}) {
      remove_files();
      restart_with(arch_model(model));
      run(100);
      wait_for_files(n_short);
      const std::vector<fs::path> before = files();
      const Answer longer = run(200);
      EXPECT_EQ(n_cached(longer), 99);
      wait_for_files(n_short + n_more);
      restart_with(arch_model(model));
      const auto kind = has_states ? SavedPart::Kind::state : SavedPart::Kind::window;
      int n = 0;
      for (const fs::path& path : files_of(kind)) {
        if (std::ranges::find(before, path) != before.end()) continue;
        ++n;
        if (!is_damaged) {
          fs::remove(path);
          continue;
        }
        std::string bytes = read_all(path);
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
        std::ofstream(path, std::ios::binary) << bytes;
      }
      EXPECT_GE(n, 1);
      const Answer again = run(200);
      EXPECT_EQ(n_cached(again), 99);
      EXPECT_EQ(again.json["tokens"], longer.json["tokens"]);
      EXPECT_EQ(n_damaged() > 0, is_damaged);
    }
  }
}

// Either the part is refused, or nothing has changed. The text is never another one.
TEST_F(MarksOnDisk, AChangedByteNeverChangesTheText) {
  const std::vector<std::pair<const char*, size_t>> models_and_files = {{"gemma2-dense", 7}, {"lfm2-dense", 9}};
  for (const auto& [model, n_files] : models_and_files) {
    SCOPED_TRACE(model);
    remove_files();
    restart_with(arch_model(model));
    const Answer good = run(70);
    wait_for_files(n_files);
    server_.reset();
    const std::vector<fs::path> all = files();
    std::vector<std::string> contents;
    for (const fs::path& path : all) contents.push_back(read_all(path));
    for (size_t changed = 0; changed < all.size(); ++changed)
      for (const size_t share : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
        const size_t at = (contents[changed].size() - 1) * share / 8;
        for (size_t i = 0; i < all.size(); ++i) {
          std::string bytes = contents[i];
          if (i == changed) bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
          fs::create_directories(all[i].parent_path());
          std::ofstream(all[i], std::ios::binary) << bytes;
        }
        restart_with(arch_model(model));
        const Answer answer = run(70);
        ASSERT_EQ(answer.json["tokens"], good.json["tokens"]) << "file " << changed << " byte " << at;
        ASSERT_EQ(n_damaged(), n_cached(answer) == 69 ? 0 : 1) << "file " << changed << " byte " << at;
        server_.reset();
      }
  }
}

TEST_F(MarksOnDisk, TheSizeHasABoundAndLaterRequestsStillContinue) {
  restart_with(arch_model("lfm2-dense"));
  run(130);
  wait_for_files(10);
  uint64_t n_bytes = 0;
  for (const fs::path& path : files()) n_bytes += fs::file_size(path);
  ApiSetup setup{.model = arch_model("lfm2-dense"), .n_cache_marks = 8};
  setup.options.storage.cache_bytes = 2 * n_bytes;
  restart(setup);
  for (const int first : {21, 37, 53, 69}) run(130, first);
  EXPECT_TRUE(wait_until([&] { return metric("tessera_prefix_disk_evictions_total") >= 6; }));
  EXPECT_LE(metric("tessera_prefix_disk_bytes"), static_cast<int64_t>(2 * n_bytes));
  EXPECT_TRUE(wait_until([&] { return metric("tessera_prefix_disk_bytes") > static_cast<int64_t>(n_bytes); }));
  const Answer last = run(130, 69);
  restart(setup);
  EXPECT_TRUE(wait_until([&] {
    const Answer again = run(130, 69);
    EXPECT_EQ(again.json["tokens"], last.json["tokens"]);
    return n_cached(again) == 129;
  }));
}

TEST_F(DiskTierTest, StaleTemporaryFilesGoAndForeignFilesStay) {
  restart();
  complete(100);
  wait_for_files(1);
  server_.reset();
  const fs::path folder = files()[0].parent_path();
  const fs::path stale = folder / ".tessera-1-0123456789abcdef", fresh = folder / ".tessera-2-0123456789abcdef";
  const fs::path foreign = fs::path(directory_) / "notes.txt";
  for (const fs::path& path : {stale, fresh, foreign}) std::ofstream(path) << "x";
  fs::last_write_time(stale, fs::file_time_type::clock::now() - std::chrono::hours(1));
  restart();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(fresh));
  post("/cache?action=clear", "");
  EXPECT_TRUE(fs::exists(foreign));
}

}  // namespace
}  // namespace tessera
