// The program under failing calls of the system: memory, reads, writes, new connections, files. A preloaded library
// lets the call number N of a kind fail, alone or with many after it, while a request is answered. The program must
// live, and the next request gets its usual answer. By default few N are tried; TESSERA_TEST_FAULTS=all tries each.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tessera/server/sha256.h"
#include "tests/cli/cli_support.h"
#include "tests/server/faults/fault_plan.h"
#include "tests/server/http_client.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;

/// A fault plan in a file that the program maps too.
class SharedPlan {
 public:
  SharedPlan() : path_(write_temporary("fault.plan", std::string(sizeof(FaultPlan), '\0'))) {
    const int descriptor = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    void* address = ::mmap(nullptr, sizeof(FaultPlan), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    plan_ = address == MAP_FAILED ? nullptr : static_cast<FaultPlan*>(address);
  }
  ~SharedPlan() { ::munmap(plan_, sizeof(FaultPlan)); }
  SharedPlan(const SharedPlan&) = delete;
  SharedPlan& operator=(const SharedPlan&) = delete;

  FaultPlan* operator->() const { return plan_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FaultPlan* plan_;
};

struct Request {
  const char* method;
  std::string path;
  std::string body;
};

struct KindOfFault {
  FaultKind kind;
  const char* name;
};

constexpr KindOfFault kKinds[] = {
    {FaultKind::memory, "memory"}, {FaultKind::map, "map"},       {FaultKind::read, "read"},
    {FaultKind::write, "write"},   {FaultKind::accept, "accept"}, {FaultKind::open, "open"},
    {FaultKind::rename, "rename"}, {FaultKind::sync, "sync"},
};

const std::string kMessages = R"("messages":[{"role":"user","content":"Hello"}],"max_tokens":4,"seed":1)";

const std::vector<Request> kRequests{
    {"GET", "/", ""},
    {"GET", "/props", ""},
    {"GET", "/metrics", ""},
    {"POST", "/tokenize", R"({"content":"Once upon a time"})"},
    {"POST", "/completion", R"({"prompt":"Once upon","n_predict":4,"seed":1,"n_probs":2,"stream":true})"},
    {"POST", "/completion", R"({"prompt":"One","n_predict":4,"grammar":"root ::= [a-d]+","n":2})"},
    {"POST", "/v1/completions", R"({"prompt":"One day","max_tokens":2,"echo":true,"logprobs":1})"},
    {"POST", "/v1/chat/completions",
     "{" + kMessages +
         R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"stream":true})"},
    {"POST", "/v1/messages", "{" + kMessages + R"(,"stream":true})"},
    {"POST", "/v1/responses", R"({"input":"Hello","max_output_tokens":16})"},
    {"POST", "/api/chat", "{" + kMessages + "}"},
    {"POST", "/v1/embeddings", R"({"input":["a text","another"]})"},
    {"POST", "/slots/0?action=save", R"({"filename":"a.bin"})"},
    {"POST", "/slots/0?action=restore", R"({"filename":"a.bin"})"},
};

// Faults of one kind in a row.
struct Burst {
  int64_t n_failing = 1;
  uint64_t n_least_bytes = 0;  // of memory
};

bool tries_all() {
  const char* wanted = std::getenv("TESSERA_TEST_FAULTS");
  return wanted != nullptr && std::string_view(wanted) == "all";
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    injector_ =
        (std::filesystem::path(program_path()).parent_path().parent_path() / "tests/libfault_injector.so").string();
    if (!std::filesystem::exists(injector_))
      GTEST_SKIP() << "built with a sanitizer, which has an allocator of its own";
  }

  // The program with the injector, and these flags of serve.
  std::vector<std::string> command_with(const std::vector<std::string>& flags) const {
    std::vector<std::string> words{"/usr/bin/env",
                                   "LD_PRELOAD=" + injector_,
                                   std::string(kFaultPlanVariable) + "=" + plan_.path(),
                                   program_path(),
                                   "serve",
                                   "--port",
                                   "0",
                                   "-np",
                                   "2",
                                   "-t",
                                   "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
  std::vector<std::string> command(const std::vector<std::string>& flags) const {
    const std::string folder = temporary_dir().string();
    std::vector<std::string> words{
        "-m",   story_model(),  "--metrics",        "--embeddings",   "--slot-save-path",
        folder, "--cache-disk", folder + "/blocks", "--log-requests", folder + "/requests.log"};
    words.insert(words.end(), flags.begin(), flags.end());
    return command_with(words);
  }

  void start(const std::vector<std::string>& flags = {}) { run(command(flags)); }
  void run(const std::vector<std::string>& command) {
    server_ = std::make_unique<Child>(std::vector<std::string>{}, temporary_path("serve.out"), command);
    port_ = server_->wait_for_port();
    ASSERT_NE(port_, 0) << server_->err_so_far();
  }

  void TearDown() override {
    if (!server_) return;
    plan_->disarm();
    server_->send(SIGTERM);
    EXPECT_EQ(server_->wait().status, 0);
  }

  HttpReply send(const Request& request) const {
    HttpClient client = HttpClient::connect(port_);
    if (!client.is_open()) return {};
    if (std::string_view(request.method) == "GET") {
      client.get(request.path, "Connection: close\r\n");
    } else {
      client.post(request.path, request.body, "Connection: close\r\n");
    }
    return client.read_answer();
  }

  /// The answer of a server without faults, which never changes. It may lack memory for a moment after a fault.
  void expect_health() const {
    HttpReply text;
    for (int i = 0; i < 60'000 && server_->is_running(); ++i) {
      text = send({"POST", "/completion", R"({"prompt":"Once","n_predict":3,"seed":1})"});
      if (text.status == 200) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(text.status, 200) << text.body;
    const auto json = nlohmann::json::parse(text.body, nullptr, false);
    if (usual_text_.empty()) usual_text_ = json.value("content", "");
    EXPECT_EQ(json.value("content", ""), usual_text_) << text.body;
  }

  /// A request, in which the calls of a kind from n_skipped on fail. What comes is an answer, or a closed connection.
  void send_with_fault(const Request& request, FaultKind kind, int64_t n_skipped, const Burst& burst) {
    plan_->arm(kind, n_skipped, burst.n_failing, burst.n_least_bytes);
    const HttpReply reply = send(request);
    plan_->disarm();
    const bool is_file_error = kind != FaultKind::memory && std::string_view(request.path).starts_with("/slots/");
    if (reply.is_complete && !is_file_error) {
      EXPECT_NE(reply.status, 500) << reply.body;
    }
  }

  int64_t count_calls(const Request& request, FaultKind kind, const Burst& burst) {
    plan_->arm(kind, INT64_MAX, 0, burst.n_least_bytes);
    send(request);
    plan_->disarm();
    return plan_->n_calls;
  }

  /// Sends each request with faults at about n_points of its calls.
  void try_faults(FaultKind kind, const Burst& burst, int64_t n_points) {
    for (const Request& request : kRequests) {
      const int64_t n_calls = count_calls(request, kind, burst);
      const int64_t step = tries_all() ? 1 : std::max<int64_t>(n_calls / n_points, 1);
      for (int64_t n = 0; n < n_calls; n += step) {
        SCOPED_TRACE("call " + std::to_string(n) + " of " + request.path);
        send_with_fault(request, kind, n, burst);
        ASSERT_TRUE(server_->is_running()) << server_->err_so_far();
        ASSERT_NO_FATAL_FAILURE(expect_health());
      }
    }
  }

  SharedPlan plan_;
  std::string injector_;
  std::unique_ptr<Child> server_;
  uint16_t port_ = 0;
  mutable std::string usual_text_;
};

TEST_F(Faults, OfOneCallLeaveTheServerAlive) {
  start();
  expect_health();
  for (const auto& [kind, name] : kKinds) {
    SCOPED_TRACE(name);
    try_faults(kind, {}, 5);
    if (HasFailure()) return;
  }
}

// The first answer of a thread needs memory that later ones do not.
TEST_F(Faults, AtTheFirstAnswerLeaveTheServerAlive) {
  const Request request{"GET", "/props", ""};
  start();
  const int64_t n_calls = count_calls(request, FaultKind::memory, {});
  for (int64_t n = 0; n < n_calls; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    TearDown();
    start();
    send_with_fault(request, FaultKind::memory, n, {});
    ASSERT_TRUE(server_->is_running()) << server_->err_so_far();
  }
}

// The memory reserve (tessera/cli/memory_reserve.h) helps with small blocks, so larger ones fail: for more calls than
// it has blocks and pauses.
TEST_F(Faults, OfManyCallsLeaveTheServerAlive) {
  start();
  expect_health();
  for (const auto& [kind, name] : kKinds) {
    SCOPED_TRACE(name);
    const bool is_memory = kind == FaultKind::memory;
    try_faults(kind, is_memory ? Burst{80, 1024} : Burst{20}, is_memory ? 2 : 1);
    if (HasFailure()) return;
  }
}

// The program starts without what it can do without, or ends with an error.
TEST_F(Faults, AtTheStartEndWithAnError) {
  for (const auto& [kind, name] : kKinds) {
    if (kind == FaultKind::write) continue;  // lines of the start are lost, and nothing else
    plan_->arm(kind, INT64_MAX, 0);
    start();
    const int64_t n_calls = plan_->n_calls;
    TearDown();
    server_.reset();
    const int64_t step = std::max<int64_t>(n_calls / (tries_all() ? 500 : 4), 1);
    for (int64_t n = 0; n < n_calls; n += step) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(n));
      plan_->arm(kind, n, 1);
      Child child({}, temporary_path("start.out"), command({}));
      child.wait_for_port();
      child.send(SIGTERM);
      const ProgramOutput output = child.wait();
      plan_->disarm();
      EXPECT_LE(output.status, 2) << output.err;
      if (output.status != 0) {
        EXPECT_NE(output.err.find("error: "), std::string::npos) << output.err;
      }
    }
  }
}

// An upload in which calls fail ends with an answer or a closed connection. Its file is whole or absent, and no other
// file is left.
TEST_F(Faults, OfAnUploadLeaveNoFile) {
  const std::filesystem::path folder = temporary_path("uploads");
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(story_model(), folder / "story.gguf");
  run(command_with({"--models-dir", folder.string(), "--models-write"}));
  const std::string bytes(3'000'000, 'b');
  const std::string digest = server::hex_text(server::Sha256().add(std::as_bytes(std::span(bytes))).finish());
  const Request upload{"POST", "/api/blobs/sha256:" + digest, bytes};
  const auto n_files = [&] {
    const auto files = std::filesystem::directory_iterator(folder / "blobs");
    return std::distance(begin(files), end(files));
  };
  ASSERT_EQ(send(upload).status, 201);
  const std::filesystem::path file = folder / "blobs" / ("sha256-" + digest);
  for (const auto& [kind, name] : kKinds) {
    const Burst burst{.n_least_bytes = kind == FaultKind::memory ? uint64_t{1024} : 0};
    std::filesystem::remove(file);
    const int64_t n_calls = count_calls(upload, kind, burst);
    for (int64_t n = 0; n < n_calls; n += tries_all() ? 1 : std::max<int64_t>(n_calls / 8, 1)) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(n));
      std::filesystem::remove(file);
      plan_->arm(kind, n, burst.n_failing, burst.n_least_bytes);
      const HttpReply reply = send(upload);
      plan_->disarm();
      ASSERT_TRUE(server_->is_running()) << server_->err_so_far();
      const bool is_stored = reply.status == 201;
      EXPECT_TRUE(is_stored || reply.status >= 500 || !reply.is_complete) << reply.status << reply.body;
      // A connection that was lost while the answer was sent leaves a whole file.
      EXPECT_TRUE(wait_until([&] { return n_files() == (std::filesystem::exists(file) ? 1 : 0); }));
      if (is_stored) {
        EXPECT_TRUE(std::filesystem::exists(file));
      }
      if (std::filesystem::exists(file)) {
        EXPECT_EQ(std::filesystem::file_size(file), bytes.size());
      }
    }
  }
  std::filesystem::remove(file);
  EXPECT_EQ(send(upload).status, 201);
}

// A stream begins, something happens to the program, and the stream goes on.
class Interruptions : public Faults {
 protected:
  void SetUp() override {
    Faults::SetUp();
    if (IsSkipped()) return;
    start({"-c", "131072"});
    client_ = std::make_unique<HttpClient>(HttpClient::connect(port_));
    client_->post("/completion", R"({"prompt":"Once","n_predict":-1,"ignore_eos":true,"stream":true})");
    head_ = client_->read_head();
    ASSERT_EQ(head_.status, 200);
    expect_pieces();
  }

  void expect_pieces() {
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(client_->read_piece(head_).has_value());
  }

  std::unique_ptr<HttpClient> client_;
  HttpReply head_{};
};

TEST_F(Interruptions, AStopOfTheProcess) {
  server_->send(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  server_->send(SIGCONT);
  expect_pieces();
  expect_health();
}

TEST_F(Interruptions, JumpsOfTheClock) {
  constexpr int64_t kDay = 86'400;
  for (const int64_t offset : {kDay, -kDay, 400 * kDay}) {
    plan_->clock_offset_s = offset;
    expect_pieces();
    expect_health();
    const HttpReply chat = send({"POST", "/v1/chat/completions", "{" + kMessages + "}"});
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    const int64_t created = nlohmann::json::parse(chat.body).value("created", int64_t{0});
    EXPECT_NEAR(static_cast<double>(created), static_cast<double>(now + offset), 600);  // the jump has arrived
  }
}

}  // namespace
}  // namespace tessera
