// Downloads by the program: the commands download and models, and models of a hub wherever a file can be given.
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "tessera/hub/cache.h"
#include "tessera/hub/file_lock.h"
#include "tests/cli/cli_support.h"
#include "tests/cli/pty.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/hub_server.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::expect_refusal;
using testing::HubServer;
using testing::ProgramOutput;
using testing::run_program;

// A hub with the trained model, a checkpoint and a large file, and a cache of its own.
class Downloads : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto script = testing::shared_path("tools/hub_server.py");
    if (!script) GTEST_SKIP() << "no tools/hub_server.py under TESSERA_SHARED (default: ../shared)";
    root_ = testing::temporary_path("downloads_hub");
    cache_ = testing::temporary_path("downloads_cache");
    fs::remove_all(root_);
    fs::remove_all(cache_);
    testing::write_below(root_, "me/story/story-F32.gguf", testing::read_all(testing::story_model()));
    testing::write_below(root_, "me/story/large-Q2_K.gguf", testing::random_bytes(40'000, 1));
    testing::write_below(root_, "me/checkpoint/model.safetensors", "12345");
    testing::write_below(root_, "me/checkpoint/config.json", "{}");
    script_ = *script;
  }

  void start(const std::vector<std::string>& args = {}) { server_.emplace(script_, root_, args); }

  std::vector<std::string> environment() const {
    return {"MODEL_ENDPOINT=" + server_->url(), "LLAMA_CACHE=" + cache_, "HF_TOKEN=", "HF_HUB_OFFLINE="};
  }
  ProgramOutput run(const std::vector<std::string>& args, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = more;  // the first entry of a name counts
    for (const std::string& entry : environment()) all.push_back(entry);
    return run_program(args, "", all);
  }
  // A program that can be interrupted.
  std::unique_ptr<testing::Child> child(const std::vector<std::string>& args) const {
    std::vector<std::string> program = {"/usr/bin/env"};
    for (const std::string& entry : environment()) program.push_back(entry);
    program.push_back(testing::program_path());
    return std::make_unique<testing::Child>(args, testing::temporary_path("download.out"), program);
  }

  std::string root_, cache_, script_;
  std::optional<HubServer> server_;
};

TEST_F(Downloads, PrintThePathAndProgressAsLines) {
  start();
  const ProgramOutput output = run({"download", "me/story:F32"});
  EXPECT_EQ(output.status, 0) << output.err;
  ASSERT_TRUE(output.out.ends_with("/story-F32.gguf\n")) << output.out;
  const std::string path = output.out.substr(0, output.out.size() - 1);
  EXPECT_TRUE(path.starts_with(cache_ + "/models--me--story/snapshots/"));
  EXPECT_EQ(testing::read_all(path), testing::read_all(testing::story_model()));
  EXPECT_TRUE(output.err.starts_with("story-F32.gguf: ")) << output.err;
  EXPECT_TRUE(output.err.find("\x1b") == std::string::npos && output.err.find('\r') == std::string::npos);
  const ProgramOutput again = run({"download", "me/story:f32", "--offline"});
  EXPECT_EQ(again.out, output.out);
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(run({"download", "me/story:F32", "-q"}).err, "");
}

TEST_F(Downloads, PrintLinesOfJson) {
  start();
  const ProgramOutput output = run({"download", "me/story", "--hf-file", "story-F32.gguf", "--json"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.err, "");
  std::istringstream lines(output.out);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  ASSERT_GE(rows.size(), 2u);
  const size_t size = fs::file_size(testing::story_model());
  EXPECT_EQ(rows.front()["file"], "story-F32.gguf");
  EXPECT_EQ(rows[rows.size() - 2]["bytes"], size);
  EXPECT_EQ(rows.back()["repository"], "me/story");
  EXPECT_EQ(rows.back()["received"], size);
  EXPECT_TRUE(fs::exists(rows.back()["paths"][0].get<std::string>()));
}

TEST_F(Downloads, AModelOfAHubRuns) {
  start({"--token", "secret"});
  const std::vector<std::string> rest = {"-p", "Once", "-n", "4", "--temp", "0", "-q"};
  const auto with = [&](std::vector<std::string> args) {
    args.insert(args.end(), rest.begin(), rest.end());
    return args;
  };
  const ProgramOutput file = run(with({"run", "-m", testing::story_model()}));
  const ProgramOutput hub = run(with({"run", "-hf", "me/story:F32", "-hft", "secret"}));
  EXPECT_EQ(hub.status, 0) << hub.err;
  EXPECT_EQ(hub.out, file.out);
  EXPECT_EQ(run(with({"run", "--offline", "-hf", "me/story:F32"})).out, file.out);
  EXPECT_EQ(run(with({"run", "--offline"}), {"TESSERA_HF_REPO=me/story:F32"}).out, file.out);
  expect_refusal(run({"inspect", "-hf", "me/story:F32"}), 1, "status 401: Repository not found or gated");
  // The last one given counts, and a file replaces the variable's name.
  EXPECT_EQ(run(with({"run", "-hf", "me/none", "-m", testing::story_model()})).out, file.out);
  EXPECT_EQ(run({"inspect", testing::story_model()}, {"TESSERA_HF_REPO=me/none"}).status, 0);
  expect_refusal(run({"inspect", "--offline", "-m", "x", "-hf", "me/none"}), 1, "me/none is not in the cache");
}

TEST_F(Downloads, AFileOfAUrlRuns) {
  start();
  const ProgramOutput output = run({"inspect", "-mu", server_->cdn_url() + "/me/story/story-F32.gguf", "--keys"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, run({"inspect", testing::story_model(), "--keys"}).out);
  EXPECT_EQ(run({"download", server_->url() + "/me/story/resolve/main/story-F32.gguf"}).status, 0);
  EXPECT_TRUE(fs::exists(cache_ + "/models--me--story/refs/main"));
}

TEST_F(Downloads, ACheckpointIsFetched) {
  start();
  const ProgramOutput output = run({"download", "me/checkpoint"});
  EXPECT_EQ(output.status, 0) << output.err;
  const std::string folder = output.out.substr(0, output.out.size() - 1);
  EXPECT_EQ(testing::read_all(folder + "/model.safetensors"), "12345");
  EXPECT_EQ(testing::read_all(folder + "/config.json"), "{}");
  expect_refusal(run({"run", "-hf", "me/checkpoint"}), 1, "model.safetensors");
}

// The checkpoint of a small llama runs by its name, and is converted once.
TEST_F(Downloads, ACheckpointIsConvertedOnce) {
  const auto golden = testing::shared_path("golden/convert/hf/llama");
  ASSERT_TRUE(golden);
  fs::copy(*golden, root_ + "/me/llama", fs::copy_options::recursive);
  start();
  const ProgramOutput first = run({"run", "-hf", "me/llama", "-p", "a", "-n", "4", "--temp", "0"});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.err.find("me/llama has no GGUF file: its checkpoint is converted to Q8_0 once"), std::string::npos)
      << first.err;
  const ProgramOutput again = run({"run", "-hf", "me/llama", "-p", "a", "-n", "4", "--temp", "0", "--offline"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(again.err.find("converted"), std::string::npos) << again.err;
  // The same file as by hand.
  const std::string folder = run({"download", "me/llama"}).out;
  const std::string by_hand = testing::temporary_path("by_hand.gguf");
  ASSERT_EQ(run({"convert", folder.substr(0, folder.size() - 1), "-o", by_hand, "--type", "q4_k_m"}).status, 0);
  const ProgramOutput typed = run({"inspect", "-hf", "me/llama:q4_k_m", "--keys"});
  EXPECT_NE(typed.err.find("converted to Q4_K_M once"), std::string::npos) << typed.err;
  EXPECT_EQ(typed.out, run({"inspect", by_hand, "--keys"}).out);
  expect_refusal(run({"run", "-hf", "me/llama:Q99"}), 1,
                 "me/llama: has a checkpoint alone, and \"Q99\" is no type of `tessera convert`");
}

// The name of a repository stands for its checkpoint, also where that has GGUF files.
TEST_F(Downloads, ANameIsConverted) {
  fs::copy(testing::hub_llama().write("named-hub"), root_ + "/me/llama", fs::copy_options::recursive);
  testing::write_below(root_, "me/llama/llama-Q8_0.gguf", "no GGUF file");
  start();
  const std::string out = testing::temporary_path("named.gguf"), by_hand = testing::temporary_path("unnamed.gguf");
  const ProgramOutput named = run({"convert", "me/llama", "-o", out});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_NE(named.err.find("model.safetensors (part 2 of 2): "), std::string::npos) << named.err;
  ASSERT_EQ(run({"convert", root_ + "/me/llama", "-o", by_hand}).status, 0);
  EXPECT_TRUE(testing::read_all(out) == testing::read_all(by_hand));
  EXPECT_NE(run({"convert", "me/llama@main", "--dry-run", "--offline"}).out.find("blk.1.ffn_up.weight"),
            std::string::npos);
  expect_refusal(run({"convert", "me/llama:Q4_K_M", "-o", out}), 1,
                 "me/llama:Q4_K_M: a checkpoint has no tag: want me/llama and --type Q4_K_M");
  expect_refusal(run({"convert", "me/none", "-o", out}), 1, "me/none is no file or folder here, and on the hub: ");
  expect_refusal(run({"convert", "me/story", "-o", out}), 1,
                 "me/story is no file or folder here, and on the hub: me/story: no safetensors or PyTorch files");
  expect_refusal(run({"convert", "a/b/c", "-o", out}), 1, "a/b/c: cannot open: No such file or directory");
}

class HubConversions : public Downloads {
 protected:
  void SetUp() override {
    Downloads::SetUp();
    if (IsSkipped()) return;
    fs::copy(testing::slow_llama().write("slow-hub"), root_ + "/me/slow", fs::copy_options::recursive);
    start();
    const std::string folder = run({"download", "me/slow"}).out;
    commit_ = fs::path(folder.substr(0, folder.size() - 1)).filename();
  }
  // The unfinished file of the conversion; empty if there is none.
  std::string partial() const {
    const hub::RepositoryCache cache(cache_, "me/slow");
    for (const std::string& name : cache.converted_names(commit_))
      if (name.ends_with(".part")) return cache.converted(commit_) + "/" + name;
    return "";
  }
  std::string commit_;
};

// Ctrl-C loses nothing: the next run continues the conversion, with the type that was chosen.
TEST_F(HubConversions, AnInterruptedOneIsContinued) {
  bool was_interrupted = false;
  for (int attempt = 0; attempt < 20 && !was_interrupted; ++attempt) {
    fs::remove_all(cache_ + "/models--me--slow/converted");
    const auto running = child({"inspect", "-hf", "me/slow", "--offline"});
    while (running->is_running()) {
      std::error_code none_yet;
      if (fs::file_size(partial(), none_yet) > 1'500'000 && !none_yet) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    running->send(SIGINT);
    was_interrupted = running->wait().status == 130;
  }
  ASSERT_TRUE(was_interrupted);
  const std::string part = partial();
  ASSERT_NE(part, "");
  const std::string type = fs::path(part).filename().string().substr(0, fs::path(part).filename().string().find('.'));
  EXPECT_NE(run({"models"}).out.find("me/slow:" + type + " (unfinished)"), std::string::npos) << run({"models"}).out;
  const ProgramOutput resumed = run({"inspect", "-hf", "me/slow", "--offline"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("is converted to " + type + " once"), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find(" s, resumed after "), std::string::npos) << resumed.err;
  EXPECT_EQ(partial(), "");
  EXPECT_NE(run({"models"}).out.find("me/slow:" + type + " (converted)"), std::string::npos) << run({"models"}).out;
  const std::string by_hand = testing::temporary_path("slow_by_hand.gguf");
  const hub::RepositoryCache cache(cache_, "me/slow");
  ASSERT_EQ(run({"convert", "-q", cache.snapshot(commit_), "-o", by_hand, "--type", type}).status, 0);
  EXPECT_TRUE(testing::read_all(cache.converted(commit_) + "/" + type + ".gguf") == testing::read_all(by_hand));
}

// A type whose conversion was begun is chosen again, though a better one would fit.
TEST_F(HubConversions, ABegunTypeHolds) {
  const hub::RepositoryCache cache(cache_, "me/slow");
  testing::write_below(cache.converted(commit_), "Q3_K_M.gguf.0123456789abcdef.part", "of another plan");
  testing::write_below(cache.converted(commit_), "Q8_0.ggu", "");
  const ProgramOutput output = run({"inspect", "-hf", "me/slow", "--offline"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("is converted to Q3_K_M once"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("of another plan"), std::string::npos) << output.err;
  EXPECT_EQ(partial(), "");
}

// Two processes convert once: the second one waits, and takes the result of the first.
TEST_F(HubConversions, TwoProcessesConvertOnce) {
  const hub::RepositoryCache cache(cache_, "me/slow");
  std::unique_ptr<testing::Child> second;
  {
    ASSERT_OK_AND_ASSIGN(const auto lock, hub::FileLock::try_acquire(cache.converted_lock(commit_)));
    ASSERT_TRUE(lock.has_value());
    second = child({"inspect", "-hf", "me/slow:Q8_0", "--offline"});
    EXPECT_NE(second->wait_for_line("me/slow: another process converts it"), "");
    fs::create_directories(cache.converted(commit_));
    fs::copy(testing::story_model(), cache.converted(commit_) + "/Q8_0.gguf");
  }
  const ProgramOutput output = second->wait();
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.out.find("\nname          story\n"), std::string::npos) << output.out;
}

TEST_F(Downloads, ModelsAreListedAndRemoved) {
  start();
  EXPECT_EQ(run({"models"}).out, "");
  ASSERT_EQ(run({"download", "me/story:F32"}).status, 0);
  ASSERT_EQ(run({"download", "me/checkpoint"}).status, 0);
  const std::string list = run({"models"}).out;
  EXPECT_NE(list.find("me/checkpoint (2 files)"), std::string::npos) << list;
  EXPECT_NE(list.find("me/story:F32"), std::string::npos) << list;
  EXPECT_EQ(run({"download", "--list"}).out, list);
  const std::string one = run({"download", "--list", "me/story"}).out;
  EXPECT_EQ(one.find("checkpoint"), std::string::npos) << one;
  const auto row = nlohmann::json::parse(run({"download", "--list", "--json", "me/story"}).out);
  EXPECT_EQ(row["name"], "me/story:F32");
  EXPECT_EQ(row["size"], fs::file_size(testing::story_model()));
  EXPECT_TRUE(run({"models", "--remove", "me/story:F32"}).out.starts_with("removed me/story:F32: 1 files, "));
  EXPECT_EQ(nlohmann::json::parse(run({"download", "--remove", "--json", "me/checkpoint"}).out)["bytes"], 7);
  EXPECT_EQ(run({"models", "--json"}).out, "");
  expect_refusal(run({"models", "--remove", "me/story"}), 1, "me/story is not in the cache " + cache_);
}

TEST_F(Downloads, TwoProcessesDownloadOnce) {
  start({"--fault", "slow=1"});
  std::vector<ProgramOutput> outputs(2);
  std::vector<std::thread> threads;
  for (ProgramOutput& output : outputs)
    threads.emplace_back([&] { output = run({"download", "me/story", "--hf-file", "large-Q2_K.gguf"}); });
  for (std::thread& thread : threads) thread.join();
  for (const ProgramOutput& output : outputs) {
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(testing::read_all(output.out.substr(0, output.out.size() - 1)), testing::random_bytes(40'000, 1));
  }
  EXPECT_EQ(server_->n_requests("cdn"), 1u);
}

TEST_F(Downloads, AnInterruptKeepsThePart) {
  start({"--fault", "slow=1"});
  const auto running = child({"download", "me/story", "--hf-file", "large-Q2_K.gguf"});
  EXPECT_NE(running->wait_for_line("large-Q2_K.gguf: "), "");
  running->send(SIGINT);
  EXPECT_EQ(running->wait().status, 130);
  const ProgramOutput output = run({"download", "me/story", "--hf-file", "large-Q2_K.gguf"});
  EXPECT_EQ(testing::read_all(output.out.substr(0, output.out.size() - 1)), testing::random_bytes(40'000, 1));
  const auto requests = server_->requests();
  EXPECT_TRUE(requests.back().range.starts_with("bytes=")) << requests.back().range;
}

// On a terminal, one line redraws itself, is never wider than the terminal, and disappears at the end.
TEST_F(Downloads, ATerminalShowsOneLine) {
  const std::string name(60, 'a');
  testing::write_below(root_, "me/long/" + name + "-Q8_0.gguf", testing::random_bytes(40'000, 1));
  start({"--fault", "slow=1"});
  std::vector<std::string> environment = this->environment();
  environment.emplace_back("TERM=xterm");
  testing::PtyChild terminal({testing::program_path(), "download", "me/long"}, environment, 6, 80);
  EXPECT_TRUE(terminal.user().wait_for_text("a-Q8_0.gguf: "));
  EXPECT_TRUE(terminal.user().wait_for_text("/s, 00:00:"));
  EXPECT_TRUE(terminal.screen().row(0).starts_with("...aa")) << terminal.screen().text();
  EXPECT_EQ(terminal.screen().cursor_row(), 0) << terminal.screen().text();
  EXPECT_EQ(terminal.wait_for_exit(), 0);
  EXPECT_TRUE(terminal.screen().row(0).starts_with(cache_.substr(0, 79))) << terminal.screen().text();
}

TEST_F(Downloads, WrongCommandLinesAreRefused) {
  start();
  expect_refusal(run({"download"}), 2, "no model: give a name, such as user/repo:Q4_K_M, or a URL");
  expect_refusal(run({"download", "nope"}), 2, "'nope' is not the name of a model");
  expect_refusal(run({"download", "a/b", "c/d"}), 2, "unexpected argument 'c/d': one model at a time");
  expect_refusal(run({"download", "ftp://a/b"}), 2, "'ftp://a/b' is not a URL of http or https");
  expect_refusal(run({"download", "--list", "--remove", "a/b"}), 2, "--list and --remove: give one of them");
  expect_refusal(run({"download", "http://a/b", "--hf-file", "x"}), 2, "--hf-file: name its repository");
  expect_refusal(run({"run", "-hf", "nope"}), 2, "-hf: 'nope' is not the name of a model");
  expect_refusal(run({"run", "-mu", "nope"}), 2, "-mu: 'nope' is not a URL");
  expect_refusal(run({"run", "-hft", "a b"}), 2, "-hft: the token for the hub has a space");
  expect_refusal(run({"run", "-hff", "x", "-p", "y"}), 1, "--hf-file: name its repository with --hf-repo");
  expect_refusal(run({"run", "-m", "x", "-hff", "x", "-p", "y"}), 1, "--hf-file: name its repository with --hf-repo");
  expect_refusal(run({"models"}, {"MODEL_ENDPOINT=mirror"}), 1, "MODEL_ENDPOINT or HF_ENDPOINT: 'mirror' is not a URL");
  EXPECT_TRUE(server_->requests().empty());
}

}  // namespace
}  // namespace tessera
