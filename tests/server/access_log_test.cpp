// The access log: its lines, and requests that never wait for it.
#include "tessera/server/access_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tessera/server/api/time_text.h"
#include "tessera/server/api/token_gaps.h"
#include "tests/server/api_support.h"
#include "tests/support/closed_input.h"

namespace tessera {
namespace {

using namespace testing;

std::vector<ordered_json> lines_of(const std::string& path) {
  std::vector<ordered_json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(ordered_json::parse(line, nullptr, false));
  return lines;
}

class AccessLogApi : public ApiTest {
 protected:
  void SetUp() override { std::filesystem::remove(path); }
  void start_with_log() {
    ApiSetup setup;
    setup.options.access_log = path;
    start(std::move(setup));
  }
  std::string path = temporary_path("access.log");
};

TEST_F(AccessLogApi, EachRequestIsALine) {
  start_with_log();
  EXPECT_EQ(get("/health", "X-Request-Id: mine\r\n").status, 200);
  EXPECT_EQ(post("/completion", R"({"prompt":"My secret text","n_predict":5,"ignore_eos":true})").status, 200);
  EXPECT_EQ(post("/completion", R"({"prompt":5.5})").status, 400);
  EXPECT_EQ(get("/no/such/path").status, 404);
  server_.reset();  // writes what waits
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["id"], "mine");
  EXPECT_EQ(lines[0]["route"], "/health");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[0]["client"], "127.0.0.1");
  EXPECT_FALSE(lines[0].contains("model"));
  const ordered_json& text = lines[1];
  std::vector<std::string> keys;
  for (const auto& [key, value] : text.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"t", "id", "client", "route", "status", "model", "prompt_n", "cache_n",
                                            "predicted_n", "queue_ms", "ttft_ms", "itl_p99_ms", "reason", "total_ms"}));
  EXPECT_EQ(text["model"], "story.gguf");
  EXPECT_EQ(text["predicted_n"], 5);
  EXPECT_GT(text["prompt_n"], 0);
  EXPECT_EQ(text["cache_n"], 0);
  EXPECT_EQ(text["reason"], "length");
  EXPECT_GT(text["itl_p99_ms"], 0);
  EXPECT_LT(text["itl_p99_ms"], text["total_ms"].get<double>() * 1.1 + 0.1);  // 10 % too large at most
  EXPECT_GE(text["total_ms"], text["ttft_ms"]);
  EXPECT_EQ(lines[2]["status"], 400);
  EXPECT_EQ(lines[3]["status"], 404);
  EXPECT_EQ(lines[3]["route"], "");
  std::ifstream file(path);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(all.find("secret"), std::string::npos);
  EXPECT_EQ(all.find("no/such"), std::string::npos);
}

TEST_F(AccessLogApi, SequencesOfARequestAddUp) {
  start_with_log();
  const char* const request = R"({"prompt":["Once upon a time","The little dog ran"],"n_predict":3,"ignore_eos":true})";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(post("/completion", request).status, 200);
  server_.reset();
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["cache_n"], 0);
  EXPECT_EQ(lines[1]["prompt_n"], lines[0]["prompt_n"]);
  EXPECT_EQ(lines[1]["cache_n"], lines[1]["prompt_n"].get<int64_t>() - 2);  // the last token of each is computed
  EXPECT_EQ(lines[1]["predicted_n"], 6);
}

TEST_F(AccessLogApi, AClientThatLeftHasStatus499) {
  ApiSetup setup{.n_ctx = 1 << 17};
  setup.options.access_log = path;
  start(std::move(setup));
  HttpClient client = connect();
  EXPECT_TRUE(client.post("/completion", R"({"prompt":"a","n_predict":-1,"ignore_eos":true,"stream":true})"));
  const HttpReply head = client.read_head();
  EXPECT_TRUE(client.read_piece(head));
  client.reset();
  wait_until_idle();
  server_.reset();
  ASSERT_EQ(lines_of(path).size(), 1u);
  EXPECT_EQ(lines_of(path)[0]["status"], 499);
}

TEST_F(AccessLogApi, AfterAReloadTheFileIsANewOne) {
  start_with_log();
  EXPECT_EQ(get("/health").status, 200);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (lines_of(path).empty() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  const std::string old = path + ".1";
  std::filesystem::rename(path, old);
  EXPECT_OK(server_->reload());
  EXPECT_EQ(get("/v1/health").status, 200);
  server_.reset();
  EXPECT_EQ(lines_of(old).size(), 1u);
  ASSERT_EQ(lines_of(path).size(), 1u);
  EXPECT_EQ(lines_of(path)[0]["route"], "/v1/health");
}

TEST_F(AccessLogApi, AFileThatCannotBeOpenedIsAnErrorOfTheStart) {
  server::ServerOptions options;
  options.http.port = 0;
  options.access_log = "/no/such/folder/log";
  EXPECT_ERROR(server::Server::start(options), "/no/such/folder/log");
}

// Nobody reads the pipe, so the log's thread waits for ever.
TEST(AccessLog, LinesBeyondTheBufferAreDroppedAndCounted) {
  const std::string pipe = temporary_path("access.pipe");
  std::filesystem::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_OK_AND_ASSIGN(auto log, server::AccessLog::open(pipe));
  server::HttpRequest request{.id = std::string(1000, 'x')};
  const size_t n_lines = 3 * server::AccessLog::kBufferBytes / 1000;
  for (size_t i = 0; i < n_lines; ++i) log->add(request, 200);
  // Reads until the log's thread has room again, then adds the line that tells how many are missing.
  std::string all;
  const auto read_some = [&] {
    char bytes[1 << 16];
    const ssize_t n = ::read(reader, bytes, sizeof bytes);
    if (n > 0) all.append(bytes, static_cast<size_t>(n));
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (all.size() < server::AccessLog::kBufferBytes / 2 && std::chrono::steady_clock::now() < deadline) read_some();
  while (all.find("{\"dropped\":") == std::string::npos && std::chrono::steady_clock::now() < deadline) {
    log->add({.id = "last"}, 200);
    read_some();
  }
  EXPECT_NE(all.find("{\"dropped\":"), std::string::npos);
  ::close(reader);  // the rest fails to be written
  log.reset();
}

TEST(AccessLog, TheTimeIsThatOfTheWorld) {
  using namespace std::chrono;
  EXPECT_EQ(server::rfc3339(sys_seconds{}), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(server::rfc3339(sys_days{2026y / December / 31} + 23h + 59min + 58s + 7us),
            "2026-12-31T23:59:58.000007000Z");
}

TEST(AccessLog, TimesAreInThousandthsOrNull) {
  server::HttpRequest request{.id = "r"};
  request.received = std::chrono::steady_clock::now();
  request.note.reason = "stop";
  request.note.queue_ms = 1.23456;
  request.note.first_token_ms = 0;
  request.note.gap_p99_ms = -1;
  const auto line = ordered_json::parse(server::access_log_line(request, 200, {}));
  EXPECT_EQ(line["queue_ms"], 1.235);
  EXPECT_EQ(line["ttft_ms"], 0);
  EXPECT_TRUE(line["itl_p99_ms"].is_null());
}

TEST(AccessLog, WorksWithDescriptorZero) {
  const std::string path = temporary_path("zero.log");
  std::filesystem::remove(path);
  {
    const ClosedInput closed;
    ASSERT_OK_AND_ASSIGN(auto log, server::AccessLog::open(path));
    EXPECT_TRUE(ClosedInput::is_taken());
    log->add({.id = "a"}, 200);
    log.reset();
    EXPECT_FALSE(ClosedInput::is_taken());
  }
  ASSERT_OK_AND_ASSIGN(auto log, server::AccessLog::open(path));
  {
    const ClosedInput closed;  // the descriptor of each write is a new one
    log->add({.id = "b"}, 200);
    log.reset();
    EXPECT_FALSE(ClosedInput::is_taken());
  }
  EXPECT_EQ(lines_of(path).size(), 2u);
}

TEST(TokenGaps, OneOfAHundredMayBeLarger) {
  server::TokenGaps gaps;
  EXPECT_LT(gaps.p99_ms(), 0);
  for (int i = 0; i < 198; ++i) gaps.add(2);
  gaps.add(500);
  EXPECT_NEAR(gaps.p99_ms(), 2, 0.2);
  gaps.add(500);
  gaps.add(500);
  EXPECT_NEAR(gaps.p99_ms(), 500, 50);
  gaps.add(1e9);
  gaps.add(0);
}

}  // namespace
}  // namespace tessera
