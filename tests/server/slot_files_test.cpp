// POST /slots/ID?action=save|restore: files with the tokens and the state of a slot.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/server/api_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

class SlotFiles : public ApiTest {
 protected:
  void SetUp() override {
    directory_ = temporary_path("slots");
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
  }

  void start_with_files(ApiSetup setup = {}) {
    server_.reset();
    setup.options.storage.slot_directory = directory_;
    start(std::move(setup));
  }
  Answer act(const std::string& action, int slot, const std::string& file) const {
    return post_json("/slots/" + std::to_string(slot) + "?action=" + action, ordered_json{{"filename", file}});
  }
  /// Computes a prompt in a slot and generates some tokens.
  Answer complete(int slot, const std::string& salt = "", const std::string& prompt = kPrompt) const {
    return post_json(
        "/completion",
        ordered_json{
            {"prompt", prompt}, {"n_predict", 8}, {"temperature", 0}, {"id_slot", slot}, {"cache_salt", salt}});
  }
  int64_t n_tokens_of(int slot) const { return get("/slots").json[static_cast<size_t>(slot)]["n_tokens"]; }
  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  void rewrite(const std::string& file, const std::string& bytes) const {
    std::ofstream(path(file), std::ios::binary | std::ios::trunc) << bytes;
  }

  static constexpr const char* kPrompt =
      "Once upon a time there was a little dog who liked to play with the cat in the big garden behind the red house. "
      "Every day they ran to the tree and looked for the bird that sang so well.";
  std::string directory_;
};

TEST_F(SlotFiles, ARestoredSlotIsReusedToTheTokenAlsoByAnotherServer) {
  start_with_files();
  const Answer first = complete(1);
  const int64_t n_prompt = first.json["tokens_evaluated"], n_stored = first.json["tokens_cached"];
  const Answer saved = act("save", 1, "a-dog.bin");
  ASSERT_EQ(saved.status, 200) << saved.reply.body;
  std::vector<std::string> keys;
  for (const auto& [key, value] : saved.json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"id_slot", "filename", "n_saved", "n_written", "timings"}));
  EXPECT_EQ(saved.json["id_slot"], 1);
  EXPECT_EQ(saved.json["filename"], "a-dog.bin");
  EXPECT_EQ(saved.json["n_saved"], n_stored);
  EXPECT_EQ(saved.json["n_written"], std::filesystem::file_size(path("a-dog.bin")));
  EXPECT_GE(saved.json["timings"]["save_ms"].get<double>(), 0.0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);  // nothing temporary

  start_with_files();
  EXPECT_EQ(complete(3).json["timings"]["cache_n"], 0);
  EXPECT_EQ(post("/cache?action=clear", "").status, 200);
  const Answer restored = act("restore", 2, "a-dog.bin");
  ASSERT_EQ(restored.status, 200) << restored.reply.body;
  keys.clear();
  for (const auto& [key, value] : restored.json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"id_slot", "filename", "n_restored", "n_read", "timings"}));
  EXPECT_EQ(restored.json["n_restored"], n_stored);
  EXPECT_EQ(restored.json["n_read"], saved.json["n_written"]);
  EXPECT_EQ(n_tokens_of(2), n_stored);
  EXPECT_EQ(complete(0).json["timings"]["cache_n"], 0);  // this slot holds nothing
  const Answer second = complete(2);
  EXPECT_EQ(second.json["timings"]["cache_n"], n_prompt - 1);
  EXPECT_EQ(second.json["content"], first.json["content"]);
}

TEST_F(SlotFiles, TheSaltStaysWithTheTokens) {
  start_with_files();
  const Answer first = complete(0, "mine");
  EXPECT_EQ(act("save", 0, "s").json["n_saved"], first.json["tokens_cached"]);
  EXPECT_EQ(post("/cache?action=clear", "").status, 200);
  EXPECT_EQ(act("restore", 1, "s").status, 200);
  EXPECT_EQ(complete(1, "other").json["timings"]["cache_n"], 0);
  EXPECT_EQ(act("restore", 1, "s").status, 200);
  EXPECT_GT(complete(1, "mine").json["timings"]["cache_n"], 0);
}

TEST_F(SlotFiles, ASlotThatHoldsNothingIsSavedAsNothing) {
  start_with_files();
  EXPECT_EQ(act("save", 2, "empty").json["n_saved"], 0);
  complete(1);
  EXPECT_EQ(act("restore", 1, "empty").json["n_restored"], 0);
  EXPECT_EQ(n_tokens_of(1), 0);
}

// The cache has forgotten the end of the slot's tokens: what is still there is saved.
TEST_F(SlotFiles, EvictedTokensAreNotSaved) {
  start_with_files({.n_slots = 2, .n_ctx = 256});
  const int64_t n_stored = complete(0).json["tokens_cached"];
  EXPECT_EQ(act("save", 0, "whole").json["n_saved"], n_stored);
  ordered_json ids = ordered_json::array();
  for (int i = 0; i < 250; ++i) ids.push_back(5 + i);
  EXPECT_EQ(post_json("/completion", ordered_json{{"prompt", ids}, {"n_predict", 1}, {"id_slot", 1}}).status, 200);
  const Answer saved = act("save", 0, "rest");
  EXPECT_EQ(saved.status, 200);
  EXPECT_LT(saved.json["n_saved"], n_stored);
  EXPECT_EQ(act("restore", 1, "rest").json["n_restored"], saved.json["n_saved"]);
}

TEST_F(SlotFiles, SavingWaitsForTheSlot) {
  start_with_files({.n_slots = 2, .n_ctx = 1 << 17});
  HttpClient running = connect();
  running.post("/completion", R"({"prompt":"a","id_slot":0,"stream":true,"ignore_eos":true})");
  const HttpReply head = running.read_head();
  ASSERT_TRUE(running.read_piece(head).has_value());
  HttpClient saving = connect();
  saving.post("/slots/0?action=save", R"({"filename":"w"})");
  EXPECT_EQ(act("save", 1, "other").status, 200);  // other slots are free
  EXPECT_FALSE(std::filesystem::exists(path("w")));
  running.close();
  const Answer saved = read(saving);
  EXPECT_EQ(saved.status, 200) << saved.reply.body;
  EXPECT_GT(saved.json["n_saved"], 0);
}

TEST_F(SlotFiles, NamesOfOneComponentOnly) {
  start_with_files();
  for (const char* name : {"../x", "a/b", "/etc/passwd", ".hidden", "..", ".", "", "a b", "a\\b", "\xC3\xA9"}) {
    expect_refused(act("save", 0, name), 400, "filename");
    expect_refused(act("restore", 0, name), 400, "filename");
  }
  expect_refused(act("save", 0, std::string(256, 'a')), 400, "filename");
  expect_refused(post("/slots/0?action=save", R"({"filename":"a\u0000b"})"), 400, "filename");
  expect_refused(post("/slots/0?action=save", R"({"filename":5})"), 400, "filename");
  expect_refused(post("/slots/0?action=save", R"({})"), 400, "filename");
  expect_refused(post("/slots/0?action=save", ""), 400, "empty");
  EXPECT_EQ(act("save", 0, std::string(255, 'a')).status, 200);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(SlotFiles, WithoutTheFlagTheyAre501) {
  start();
  for (const char* action : {"save", "restore"}) {
    const Answer answer = act(action, 0, "x");
    EXPECT_EQ(answer.status, 501);
    EXPECT_EQ(answer.json["error"]["type"], "not_supported_error");
    EXPECT_EQ(answer.json["error"]["message"],
              "This server does not support slots action. Start it with `--slot-save-path`");
  }
}

TEST_F(SlotFiles, BadFilesAreRefusedAndChangeNothing) {
  start_with_files();
  const Answer first = complete(1);
  ASSERT_EQ(act("save", 1, "good").status, 200);
  const std::string good = read_all(path("good"));
  const int64_t n_held = n_tokens_of(1);
  const auto expect_bad = [&](const std::string& file, const std::string& part) {
    expect_refused(act("restore", 1, file), 400, part);
    EXPECT_EQ(n_tokens_of(1), n_held);
  };
  expect_bad("nothing", "No such file");
  rewrite("short", good.substr(0, 10));
  expect_bad("short", "10 bytes");
  rewrite("none", "");
  expect_bad("none", "0 bytes");
  rewrite("truncated", good.substr(0, good.size() - 1));
  expect_bad("truncated", "bytes, want");
  rewrite("longer", good + "x");
  expect_bad("longer", "bytes, want");
  std::string changed = good;
  changed[changed.size() / 2] ^= 1;
  rewrite("changed", changed);
  expect_bad("changed", "checksum");
  rewrite("other", std::string(1000, 'x'));
  expect_bad("other", "not a saved slot");
  std::filesystem::create_symlink("good", path("link"));
  expect_bad("link", "symbolic link");
  std::filesystem::create_directory(path("folder"));
  expect_refused(act("restore", 1, "folder"), 500, "directory");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_refused(act("restore", 1, "pipe"), 500, "pipe");
  EXPECT_EQ(n_tokens_of(1), n_held);
  EXPECT_EQ(complete(1).json["content"], first.json["content"]);
}

TEST_F(SlotFiles, EveryChangedByteIsRefused) {
  start_with_files({.n_slots = 1, .n_ctx = 128});
  EXPECT_EQ(post("/completion", R"({"prompt":[5,6],"n_predict":1})").status, 200);
  ASSERT_EQ(act("save", 0, "good").status, 200);
  const std::string good = read_all(path("good"));
  HttpClient client = connect();
  for (size_t i = 0; i < good.size(); i += all_or_few<size_t>(1, 37)) {
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    rewrite("changed", changed);
    ASSERT_TRUE(client.post("/slots/0?action=restore", R"({"filename":"changed"})"));
    ASSERT_EQ(client.read_answer().status, 400) << "byte " << i;
  }
  EXPECT_EQ(n_tokens_of(0), 2);
}

TEST_F(SlotFiles, AnotherModelsFileIsRefused) {
  start_with_files();
  complete(0);
  ASSERT_EQ(act("save", 0, "a").status, 200);
  start_with_files({.model = arch_model("llama-dense")});
  expect_refused(act("restore", 0, "a"), 400, "another model");
}

TEST_F(SlotFiles, AFileForALongerContextIsRefused) {
  start_with_files();
  complete(0);
  ASSERT_EQ(act("save", 0, "a").status, 200);
  start_with_files({.n_ctx = 64});
  expect_refused(act("restore", 0, "a"), 400, "the context of a slot is 64");
}

TEST_F(SlotFiles, AFullDiskIsTheServersFaultAndLeavesTheOldFile) {
  start_with_files();
  complete(0);
  ASSERT_EQ(act("save", 0, "a").status, 200);
  const std::string old = read_all(path("a"));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Answer full = act("save", 0, "a");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  expect_refused(full, 500, "cannot write");
  EXPECT_EQ(read_all(path("a")), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
  EXPECT_EQ(act("save", 0, "a").status, 200);
}

// Models with windows and with recurrent states.
TEST_F(SlotFiles, StatesAndWindowsAreSavedAsWell) {
  for (const char* model : {"mamba-dense", "gemma3-dense"}) {
    SCOPED_TRACE(model);
    const ApiSetup setup{.model = arch_model(model), .n_cache_marks = 8};
    start_with_files(setup);
    ordered_json ids = ordered_json::array();
    for (int i = 0; i < 150; ++i) ids.push_back(5 + i % 50);
    const ordered_json request = {
        {"prompt", ids}, {"n_predict", 4}, {"temperature", 0}, {"id_slot", 1}, {"ignore_eos", true}};
    const Answer first = post_json("/completion", request);
    const int64_t n_stored = first.json["tokens_cached"];
    ASSERT_EQ(act("save", 1, "m").json["n_saved"], n_stored);
    start_with_files(setup);
    ASSERT_EQ(act("restore", 1, "m").json["n_restored"], n_stored);
    ordered_json longer = request;
    for (const auto& id : first.json["tokens"]) longer["prompt"].push_back(id);
    EXPECT_EQ(act("save", 1, "again").json["n_saved"], n_stored);
    EXPECT_EQ(read_all(path("m")), read_all(path("again")));
  }
}

}  // namespace
}  // namespace tessera
