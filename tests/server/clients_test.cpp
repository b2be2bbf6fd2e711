// Client libraries of other makers against the program: the scripts of tests/server/clients, run by Node. npm installs
// the libraries once into the build folder. Without Node or the registry the tests are skipped.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <mutex>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using namespace testing;
namespace fs = std::filesystem;

ProgramOutput run_tool(std::vector<std::string> words, const std::string& name) {
  words.insert(words.begin(), "/usr/bin/env");
  return Child({}, temporary_path(name + ".out"), std::move(words)).wait();
}

/// A folder with the scripts and their libraries, or the reason why there is none.
struct ClientFolder {
  fs::path path{};
  std::string missing{};
  std::string failure{};
};

ClientFolder install_clients() {
  for (const char* tool : {"node", "npm"})
    if (run_tool({tool, "--version"}, tool).status != 0) return {.missing = std::string("no ") + tool};
  constexpr int kLeastNode = 20;
  const std::string version = run_tool({"node", "--version"}, "node").out;
  if (std::atoi(version.substr(1).c_str()) < kLeastNode) return {.missing = "Node 20 or later, got " + version};

  ClientFolder folder{.path = fs::path(program_path()).parent_path().parent_path() / "tests" / "clients"};
  fs::create_directories(folder.path);
  for (const auto& file : fs::directory_iterator(fs::path(source_dir()) / "tests/server/clients"))
    if (file.is_regular_file())
      fs::copy_file(file.path(), folder.path / file.path().filename(), fs::copy_options::overwrite_existing);
  const std::string lock = read_all((folder.path / "package-lock.json").string());
  const fs::path stamp = folder.path / "node_modules" / "installed-lock.json";
  if (fs::exists(stamp) && read_all(stamp.string()) == lock) return folder;

  const auto installed = run_tool({"npm", "--prefix", folder.path.string(), "ci", "--ignore-scripts", "--no-audit",
                                   "--no-fund", "--fetch-retries=1"},
                                  "npm-ci");
  if (installed.status == 0) {
    fs::copy_file(folder.path / "package-lock.json", stamp, fs::copy_options::overwrite_existing);
    return folder;
  }
  if (run_tool({"npm", "ping", "--fetch-retries=0"}, "npm-ping").status != 0)
    return {.missing = "no npm registry can be reached"};
  return {.failure = installed.err};
}

const ClientFolder& client_folder() {
  static const ClientFolder folder = install_clients();
  return folder;
}

// A template with tools, results and reasoning. A line break after a tag is dropped.
constexpr const char* kClientTemplate =
    "{% if tools %}{{ tools|tojson }}{% endif %}{% for message in messages %}<|im_start|>{{ message.role + '\\n' }}"
    "{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}"
    "{{ message.content or '' }}{% for call in message.tool_calls %}{{ '<tool_call>\\n' }}{{ call.function|tojson }}"
    "{{ '\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}";

// No stream fills it, so one that occupies the slot does so until its client leaves.
constexpr const char* kEndlessContext = "131072";

class Clients : public ::testing::Test {
 protected:
  void SetUp() override {
    TESSERA_SKIP_UNLESS_ALL_CASES();
    const ClientFolder& folder = client_folder();
    if (!folder.missing.empty()) GTEST_SKIP() << folder.missing;
    ASSERT_EQ(folder.failure, "");
  }

  void TearDown() override {
    if (!server_) return;
    server_->send(SIGTERM);
    EXPECT_EQ(server_->wait().status, 0);
    server_.reset();
  }

  void serve(const std::vector<std::string>& flags = {}) {
    const std::string chat_template = write_temporary("client.jinja", kClientTemplate);
    std::vector<std::string> args = {"-m",    story_model(),          "--metrics",  "--alias",
                                     "story", "--chat-template-file", chat_template};
    args.insert(args.end(), flags.begin(), flags.end());
    start(args);
  }

  void start(const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"serve", "--port", "0"};
    args.insert(args.end(), flags.begin(), flags.end());
    server_ = std::make_unique<Child>(args, temporary_path("serve.out"));
    url_ = server_->wait_for_line("listening on ");
    ASSERT_NE(url_, "") << server_->err_so_far();
  }

  /// Runs a script, which must end with status 0.
  void run_script(const std::string& name, const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> words = {"TESSERA_URL=" + url_};
    words.insert(words.end(), environment.begin(), environment.end());
    words.insert(words.end(), {"node", (client_folder().path / name).string()});
    const ProgramOutput output = run_tool(words, name);
    EXPECT_EQ(output.status, 0) << output.out << output.err << server_->err_so_far();
    EXPECT_NE(output.out.find("ok: "), std::string::npos) << output.out;
  }

  std::unique_ptr<Child> server_;
  std::string url_;
};

TEST_F(Clients, OfAnthropicAreServed) {
  serve();
  run_script("anthropic.js");
}

TEST_F(Clients, OfOpenAiAreServed) {
  serve();
  run_script("openai.js");
}

TEST_F(Clients, OfEmbeddingsAreServed) {
  serve({"--embeddings"});
  run_script("embeddings.js");
}

TEST_F(Clients, OfOllamaAreServed) {
  serve();
  run_script("ollama.mjs");
}

TEST_F(Clients, OfResponsesAreServed) {
  serve();
  run_script("openai_responses.js");
}

TEST_F(Clients, SendRequestsAgainThatTheirOwnQueueRefused) {
  serve({"-np", "1", "-c", kEndlessContext, "--max-queue-client", "1"});
  run_script("openai_retries.js", {"TESSERA_REFUSAL=429"});
}

TEST_F(Clients, SendRequestsAgainThatAFullQueueRefused) {
  serve({"-np", "1", "-c", kEndlessContext, "--max-queue", "1"});
  run_script("openai_retries.js", {"TESSERA_REFUSAL=503"});
}

// The bundled model in a browser. Its answers end only when they are stopped where the script asks for that.
TEST_F(Clients, TheChatPageTalksWithTheBundledModel) {
  constexpr const char* kChromium = "/usr/bin/chromium";
  if (!fs::exists(kChromium)) GTEST_SKIP() << "no " << kChromium;
  start({"-np", "2", "-c", kEndlessContext});
  run_script("page.js", {std::string("CHROMIUM=") + kChromium});
}

}  // namespace
}  // namespace tessera
