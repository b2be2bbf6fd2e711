// tessera serve as a process: its first minute, its signals, and refusals of its command line.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/server/http_client.h"
#include "tests/support/lora_support.h"
#include "tests/support/tiny_encoder.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;

TEST(Serve, AnswersUntilASignalAndEndsWithSuccess) {
  Child server({"serve", "--port", "0", "-c", "512", "-np", "2", "-t", "1", "--cache-ram", "1"});
  const std::string address = server.wait_for_line("listening on ");
  EXPECT_TRUE(address.starts_with("http://127.0.0.1:")) << address;
  server.send(SIGTERM);
  const ProgramOutput output = server.wait();
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("no model given: using the bundled one"), std::string::npos);
  const ProgramOutput plan = run_program({"plan", "--json", "-c", "512", "-np", "2", "-t", "1", "--cache-ram", "1"});
  const auto n_bytes = nlohmann::json::parse(plan.out)["kv_bytes"].get<double>();
  const std::string kv = fmt::format(" KV buffer size = {:.2f} MiB", n_bytes / (1 << 20));
  EXPECT_NE(output.err.find(kv), std::string::npos) << output.err << kv;
  EXPECT_NE(output.err.find("2 slots, 256 tokens each, 512 in all"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("shutting down"), std::string::npos);
}

// The vectors of a server are those of `tessera embed`, bit for bit: both print the shortest form of a float.
void expect_vectors_of_embed(const std::string& model, const std::vector<std::string>& flags) {
  std::vector<std::string> args = {"serve", "-m", model, "--port", "0", "-t", "1"};
  args.insert(args.end(), flags.begin(), flags.end());
  Child server(args);
  HttpClient client = HttpClient::connect(server.wait_for_port());
  ASSERT_TRUE(client.post("/v1/embeddings", R"({"input":["a b c","d"]})"));
  const HttpReply reply = client.read_answer();
  ASSERT_EQ(reply.status, 200) << reply.body;
  const ProgramOutput embedded = run_program({"embed", "-m", model, "-q"}, "a b c\nd\n");
  const auto got = nlohmann::json::parse(reply.body), want = nlohmann::json::parse(embedded.out);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(got["data"][i]["embedding"].get<std::vector<float>>(),
              want["data"][i]["embedding"].get<std::vector<float>>());
  server.send(SIGTERM);
  const ProgramOutput output = server.wait();
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("embeddings of texts of up to "), std::string::npos) << output.err;
}

// The plan has the memory of adapters that are not applied yet, and no more than that of applied ones.
TEST(Serve, AdaptersMayWaitForTheirScales) {
  const std::string lora = write_lora(story_model(), "served_lora.gguf", 4, 8, 1);
  const std::vector<std::string> flags = {"-m", story_model(), "-c", "256", "-np", "2", "-t", "1", "--lora", lora};
  std::vector<std::string> serve = {"serve", "--port", "0", "--lora-init-without-apply"}, plan = {"plan", "--json"};
  for (std::vector<std::string>* words : {&serve, &plan}) words->insert(words->end(), flags.begin(), flags.end());
  Child server(serve);
  HttpClient client = HttpClient::connect(server.wait_for_port());
  ASSERT_TRUE(client.get("/lora-adapters"));
  EXPECT_EQ(client.read_answer().body,
            R"([{"id":0,"path":")" + lora + R"(","scale":0,"task_name":"","prompt_prefix":""}])");
  ASSERT_TRUE(client.post("/completion", R"({"prompt":"a","n_predict":2,"lora":[{"id":0,"scale":1}]})"));
  EXPECT_EQ(client.read_answer().status, 200);
  server.send(SIGTERM);
  EXPECT_EQ(server.wait().status, 0);
  const ProgramOutput applied = run_program(plan);
  EXPECT_EQ(applied.status, 0) << applied.err;
  plan.emplace_back("--lora-init-without-apply");
  EXPECT_EQ(run_program(plan).out, applied.out);
}

TEST(Serve, EmbeddingsAreThoseOfEmbed) {
  expect_vectors_of_embed(story_model(), {"--embeddings", "-c", "512", "-np", "2"});
  expect_vectors_of_embed(TinyEncoder("bert").write("served.gguf"), {});
}

TEST(Serve, ScoresNeedARankHead) {
  expect_refusal(run_program({"serve", "-m", story_model(), "--port", "0", "--reranking"}), 1, "no rank head");
  expect_refusal(run_program({"serve", "--pooling", "max"}), 2, "'max' is not one of none, mean");
  TinyEncoder tiny("bert");
  tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  Child server({"serve", "-m", tiny.write("ranker.gguf"), "--port", "0", "-t", "1", "--reranking"});
  HttpClient client = HttpClient::connect(server.wait_for_port());
  ASSERT_TRUE(client.post("/v1/rerank", R"({"query":"a","documents":["b","c"]})"));
  EXPECT_EQ(client.read_answer().status, 200);
  server.send(SIGTERM);
  EXPECT_EQ(server.wait().status, 0);
}

// Sanitizers have allocators of their own, which keep freed memory.
#if !defined(TESSERA_SANITIZED)
TEST(Serve, TheMemoryOfALargeRequestIsGivenBack) {
  Child server({"serve", "-m", story_model(), "--port", "0", "-t", "1"});
  HttpClient client = HttpClient::connect(server.wait_for_port());
  const auto tokenize = [&](size_t n_bytes) {
    EXPECT_TRUE(client.post("/tokenize", R"({"content":")" + std::string(n_bytes, 'a') + "\"}"));
    EXPECT_EQ(client.read_answer().status, 200);
  };
  const auto resident_bytes = [&] {
    const std::string status = read_all(fmt::format("/proc/{}/status", server.pid()));
    return std::stoll(status.substr(status.find("VmRSS:") + 6)) * 1024;
  };
  tokenize(1000);
  const int64_t before = resident_bytes();
  constexpr int64_t kLarge = 4 << 20;
  for (int i = 0; i < 3; ++i) tokenize(kLarge);
  // The buffers of a request may go a moment after its answer.
  EXPECT_TRUE(wait_until([&] { return resident_bytes() - before < 2 * kLarge + (1 << 20); })) << resident_bytes();
  server.send(SIGTERM);
  EXPECT_EQ(server.wait().status, 0);
}
#endif

TEST(Serve, RefusesWhatItDoesNotOffer) {
  expect_refusal(run_program({"serve", "--host", "0.0.0.0", "--port", "0"}), 2, "--api-key");
  expect_refusal(run_program({"serve", "--tools", "all"}), 2, "not offered");
  expect_refusal(run_program({"serve", "--mmproj", "x.gguf"}), 2, "images");
  expect_refusal(run_program({"serve", "--port", "70000"}), 2, "--port");
  expect_refusal(run_program({"serve", "--ssl-key-file", "x"}), 2, "--ssl-cert-file");
  expect_refusal(run_program({"serve", "--parallel", "0"}), 2, "--parallel");
  expect_refusal(run_program({"serve", "-m", "/no/such/model.gguf"}), 1, "/no/such/model.gguf");
  expect_refusal(run_program({"serve", "-m", "a.gguf", "--models-dir", "."}), 2, "requests name a model");
  expect_refusal(run_program({"serve", "--models-dir", "/no/such/folder", "--port", "0"}), 1, "/no/such/folder");
  expect_refusal(run_program({"serve", "-m", story_model(), "--memory", "1M", "--port", "0"}), 1,
                 "--memory is 1048576");
  expect_refusal(run_program({"serve", "--port", "0", "--cache-disk", "/no/such/directory"}), 1, "--cache-disk");
  expect_refusal(run_program({"serve", "--port", "0", "--slot-save-path", "/no/such"}), 1, "--slot-save-path");
  expect_refusal(run_program({"serve", "--cache-disk-size", "x"}), 2, "--cache-disk-size");
}

TEST(Serve, LoadsTheModelsOfAFolderWithTheirPresets) {
  const std::filesystem::path folder = temporary_path("served_models");
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(story_model(), folder / "story.gguf", std::filesystem::copy_options::overwrite_existing);
  const std::string presets = write_temporary(
      "models.ini", "[*]\nc = 256\n[story]\nLLAMA_ARG_CTX_SIZE = 128\n[twin]\nmodel = served_models/story.gguf\n");
  Child server({"serve", "--models-dir", folder.string(), "--models-preset", presets, "--port", "0", "-np", "2", "-t",
                "1", "--cache-ram", "0", "--temp", "0"});
  const std::string address = server.wait_for_line("listening on ");
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  for (const char* name : {"story", "twin"}) {
    HttpClient client = HttpClient::connect(port);
    EXPECT_TRUE(client.post("/completion", fmt::format(R"({{"model":"{}","prompt":"a","n_predict":2}})", name)));
    const HttpReply reply = client.read_answer();
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_NE(reply.body.find(R"("temperature":0,)"), std::string::npos) << reply.body;  // of the command line
  }
  server.send(SIGTERM);
  const ProgramOutput output = server.wait();
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("2 models; each is loaded when a request asks for it"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("story: 2 slots, 64 tokens each, 128 in all"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("twin: 2 slots, 128 tokens each, 256 in all"), std::string::npos) << output.err;
}

// --- names of models by clients

class NamedModels : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = temporary_path("named_models");
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(story_model(), folder_ / "story.gguf");
    server_ = std::make_unique<Child>(
        std::vector<std::string>{"serve", "--models-dir", folder_.string(), "--port", "0", "-np", "2", "-c", "512",
                                 "-t", "1", "--cache-ram", "0", "--models-write", "--max-body", "1M"},
        temporary_path("named.out"));
    port_ = server_->wait_for_port();
  }
  void TearDown() override {
    server_->send(SIGTERM);
    const ProgramOutput output = server_->wait();
    EXPECT_EQ(output.status, 0) << output.err;
  }

  HttpReply ask(const std::string& method, const std::string& path, const std::string& body = "") const {
    HttpClient client = HttpClient::connect(port_);
    EXPECT_TRUE(client.send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", method,
                                        path, body.size(), body)));
    return method == "HEAD" ? client.read_head() : client.read_answer();
  }
  int status(const std::string& method, const std::string& path, const std::string& body) const {
    return ask(method, path, body).status;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const nlohmann::json tags = nlohmann::json::parse(ask("GET", "/api/tags").body);
    for (const auto& model : tags["models"]) names.push_back(model["name"]);
    return names;
  }
  bool has_file(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  // Stores a blob and returns its digest as the route names it.
  std::string store(const std::string& bytes) const {
    const std::string wrong = "sha256:" + std::string(64, '0');
    const HttpReply refused = ask("POST", "/api/blobs/" + wrong, bytes);
    EXPECT_EQ(refused.status, 400);
    const size_t at = refused.body.find("sha256:");
    EXPECT_NE(at, std::string::npos) << refused.body;
    const std::string digest = refused.body.substr(at, wrong.size());
    EXPECT_EQ(ask("HEAD", "/api/blobs/" + digest).status, 404);
    EXPECT_EQ(ask("POST", "/api/blobs/" + digest, bytes).status, 201);
    EXPECT_EQ(ask("HEAD", "/api/blobs/" + digest).status, 200);
    return digest;
  }

  std::filesystem::path folder_;
  std::unique_ptr<Child> server_;
  uint16_t port_ = 0;
};

using Names = std::vector<std::string>;

TEST_F(NamedModels, ACopyIsAModelUntilItIsDeleted) {
  EXPECT_EQ(status("POST", "/api/copy", R"({"source":"story","destination":"b:small"})"), 200);
  EXPECT_EQ(names(), (Names{"b:small", "story:latest"}));
  EXPECT_TRUE(has_file("b:small.json"));
  const HttpReply reply = ask("POST", "/api/generate", R"({"model":"b:small","prompt":"a","stream":false})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  // The file of a model stays until the last name of the model is deleted.
  EXPECT_EQ(status("DELETE", "/api/delete", R"({"model":"story"})"), 200);
  EXPECT_EQ(names(), Names{"b:small"});
  EXPECT_TRUE(has_file("story.gguf"));
  EXPECT_EQ(status("POST", "/api/show", R"({"model":"story"})"), 404);
  EXPECT_EQ(status("DELETE", "/api/delete", R"({"model":"b:small"})"), 200);
  EXPECT_TRUE(wait_until([&] { return names().empty(); }));  // a loaded model goes once nobody uses it
  EXPECT_FALSE(has_file("story.gguf") || has_file("story.json") || has_file("b:small.json"));
}

TEST_F(NamedModels, NamesAreOfTheFolderOnly) {
  for (const char* name : {"../x", "a/b", "/etc/x", ".hidden", "", "a b", "a:b:c", "a:", "story"})
    EXPECT_EQ(status("POST", "/api/copy", fmt::format(R"({{"source":"story","destination":"{}"}})", name)), 400)
        << name;
  EXPECT_EQ(status("POST", "/api/copy", R"({"source":"no","destination":"b"})"), 404);
  EXPECT_EQ(status("DELETE", "/api/delete", R"({"model":"../story"})"), 404);
  for (const char* digest : {"sha256:..", "md5:00", "sha256:ABCD"})
    EXPECT_EQ(status("POST", std::string("/api/blobs/") + digest, "x"), 400) << digest;
  EXPECT_EQ(names(), Names{"story:latest"});
  for (const auto& file : std::filesystem::directory_iterator(folder_)) EXPECT_EQ(file.path().filename(), "story.gguf");
}

TEST_F(NamedModels, ANewNameHasSettingsOfItsOwn) {
  const auto text_of = [&](const std::string& model, const std::string& more) {
    const HttpReply reply =
        ask("POST", "/api/chat",
            fmt::format(R"({{"model":"{}","stream":false,"messages":[{{"role":"user","content":"Hi"}}],
                                                "options":{{"temperature":0,"num_predict":4}}{}}})",
                        model, more));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return nlohmann::json::parse(reply.body);
  };
  const std::string adapter = store(read_all(write_lora(story_model(), "named_lora.gguf", 4, 8, 1)));
  EXPECT_EQ(ask("POST", "/api/create",
                R"({"model":"poet","from":"story","system":"Answer in verse.","stream":false,
                    "messages":[{"role":"user","content":"A"},{"role":"assistant","content":"B"}],
                    "parameters":{"seed":3,"top_k":5}})")
                .body,
            R"({"status":"success"})");
  const int64_t plain = text_of("story", "")["prompt_eval_count"], poet = text_of("poet", "")["prompt_eval_count"];
  EXPECT_GT(poet, plain + 20);
  const HttpReply lines =
      ask("POST", "/api/create", R"({"model":"tuned","from":"story","adapters":{"a.gguf":")" + adapter + R"("}})");
  EXPECT_TRUE(lines.body.ends_with("{\"status\":\"success\"}\n")) << lines.body;
  EXPECT_NE(text_of("tuned", "")["message"], text_of("story", "")["message"]);
  const std::string blob = store(read_all(story_model()));
  EXPECT_EQ(status("POST", "/api/create", R"({"model":"new","files":{"m.gguf":")" + blob + R"("}})"), 200);
  EXPECT_EQ(text_of("new", "")["message"], text_of("story", "")["message"]);
  EXPECT_EQ(names(), (Names{"new:latest", "poet:latest", "story:latest", "tuned:latest"}));
  EXPECT_EQ(status("DELETE", "/api/delete", R"({"model":"new"})"), 200);
  EXPECT_EQ(ask("HEAD", "/api/blobs/" + blob).status, 404);  // its last name is gone
}

// Blobs go to the disk as they come, so --max-body (1 MiB here) and the memory for bodies do not limit them.
TEST_F(NamedModels, ABlobMayBeLargerThanOtherBodies) {
  const auto peak_kb = [&] {
    const std::string status = read_all(fmt::format("/proc/{}/status", server_->pid()));
    return std::stoll(status.substr(status.find("VmHWM:") + 6));
  };
  store("first");
  [[maybe_unused]] const int64_t before = peak_kb();
  const std::string bytes(64 << 20, 'x'), digest = store(bytes);
  EXPECT_TRUE(read_all(folder_ / "blobs" / ("sha256-" + digest.substr(7))) == bytes);
#if !defined(TESSERA_SANITIZED)  // address sanitizers keep freed memory
  EXPECT_LT(peak_kb(), before + (16 << 10));
#endif
}

TEST_F(NamedModels, AnUploadThatEndsEarlyLeavesNothing) {
  const auto n_files = [&] {
    std::error_code error;
    return std::distance(std::filesystem::directory_iterator(folder_ / "blobs", error), {});
  };
  HttpClient client = HttpClient::connect(port_);
  client.send(fmt::format("POST /api/blobs/sha256:{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc",
                          std::string(64, '0')));
  EXPECT_TRUE(wait_until([&] { return n_files() == 1; }));
  client.close();
  EXPECT_TRUE(wait_until([&] { return n_files() == 0; }));
  const auto stale = folder_ / "blobs" / ".tessera-1-0123456789abcdef";
  std::ofstream(stale) << "x";
  std::filesystem::last_write_time(stale, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  store("abc");
  EXPECT_FALSE(std::filesystem::exists(stale));
}

TEST_F(NamedModels, AnErrorOfTheDiskEndsAnUpload) {
  std::ofstream(folder_ / "blobs") << "a file";
  const std::string path = "/api/blobs/sha256:" + std::string(64, '0');
  EXPECT_EQ(status("POST", path, "abc"), 500);
  EXPECT_EQ(status("POST", path, std::string(64 << 20, 'x')), 500);  // not all of it is read
  EXPECT_EQ(names(), Names{"story:latest"});
}

TEST_F(NamedModels, MistakesOfANewNameAreRefused) {
  const std::pair<const char*, int> bad[] = {
      {R"({"model":"b"})", 400},
      {R"({"model":"b","from":"no"})", 404},
      {R"({"model":"b","from":"story","quantize":"q4_0"})", 501},
      {R"({"model":"b","files":{"a.safetensors":"sha256:00"}})", 501},
      {R"({"model":"b","files":{"a.gguf":"sha256:00"}})", 400},
      {R"({"model":"b","from":"story","template":"{{ .Prompt }}"})", 400},
      {R"({"model":"b","from":"story","parameters":{"top_p":2}})", 400},
      {R"({"model":"b","from":"story","parameters":5})", 400},
      {R"({"model":"b","from":"story","messages":[{"role":"x","content":"a"}]})", 400},
      {R"({"model":"b","from":"story","messages":[{"role":"user"}]})", 400},
      {R"({"model":"b","from":"story","adapters":["a"]})", 400},
      {R"({"model":"../b","from":"story"})", 400},
  };
  for (const auto& [body, wanted] : bad) EXPECT_EQ(status("POST", "/api/create", body), wanted) << body;
  EXPECT_EQ(names(), Names{"story:latest"});
  expect_refusal(run_program({"serve", "--models-write", "--port", "0"}), 2, "--models-dir");
}

TEST(Serve, TheLogHasTheFormThatFlagsGive) {
  const std::string path = temporary_path("serve.log");
  std::filesystem::remove(path);
  Child server({"serve", "--port", "0", "-c", "256", "-np", "1", "-t", "1", "--cache-ram", "0", "--log-file", path,
                "--log-prefix", "--perf"});
  EXPECT_TRUE(server.wait_for_line("I listening on ").starts_with("http://127.0.0.1:"));
  server.send(SIGTERM);
  const ProgramOutput output = server.wait();
  EXPECT_EQ(output.status, 0);
  EXPECT_NE(output.err.find("W warning: --perf has no effect\n"), std::string::npos) << output.err;
  EXPECT_EQ(read_all(path), output.err);
  const std::vector<std::string> missing = {"serve", "-m", "/no/such\n\x01.gguf"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), missing.begin(), missing.end());
    return run_program(flags).err;
  };
  const auto json = nlohmann::json::parse(with({"--log-jsonl"}));
  EXPECT_EQ(json["level"], "error");
  EXPECT_NE(json["message"].get<std::string>().find("/no/such"), std::string::npos);
  EXPECT_TRUE(with({"--log-timestamps"}).starts_with("0."));
  // Errors are told all the same.
  EXPECT_TRUE(with({"--log-disable", "--perf"}).starts_with("error: "));
  EXPECT_TRUE(with({"--log-verbosity", "2", "--perf"}).starts_with("error: "));
  expect_refusal(run_program({"serve", "--log-file", "/no/such/folder/x"}), 1, "/no/such/folder/x");
}

// A model's file that shrinks costs the requests that need it, not the process. A file that is whole again is loaded.
TEST(Serve, AFileThatShrinksEndsNoProcess) {
  const std::string path = temporary_path("shrinking.gguf");
  const auto copy = [&] {
    std::filesystem::copy_file(story_model(), path, std::filesystem::copy_options::overwrite_existing);
  };
  copy();
  Child server({"serve", "-m", path, "--port", "0", "-np", "1", "-t", "1", "--no-repack"});
  const uint16_t port = server.wait_for_port();
  const auto complete = [&] {
    HttpClient client = HttpClient::connect(port);
    client.post("/completion", R"({"prompt":"Once","n_predict":4,"seed":1,"cache_prompt":false})");
    return client.read_answer();
  };
  const auto content = [](const HttpReply& reply) { return nlohmann::json::parse(reply.body)["content"]; };
  const HttpReply before = complete();
  ASSERT_EQ(before.status, 200);
  std::filesystem::resize_file(path, 0);
  const HttpReply lost = complete();
  EXPECT_EQ(lost.status, 500) << lost.body;
  EXPECT_NE(lost.body.find("shrinking.gguf: the file changed while it was mapped"), std::string::npos) << lost.body;
  copy();
  HttpReply after;
  EXPECT_TRUE(wait_until([&] {
    after = complete();
    return after.status == 200;
  })) << after.body;
  EXPECT_EQ(content(after), content(before));
  server.send(SIGTERM);
  EXPECT_EQ(server.wait().status, 0);
}

TEST(Serve, TheVariablesOfThePeerCount) {
  const auto refused = [](const std::string& variable, const std::string& message,
                          const std::vector<std::string>& flags = {}) {
    std::vector<std::string> args = {"serve", "-m", "/no/such/model.gguf"};
    args.insert(args.end(), flags.begin(), flags.end());
    expect_refusal(run_program(args, "", {variable}), 2, message);
  };
  refused("LLAMA_ARG_CTX_SIZE=many", "LLAMA_ARG_CTX_SIZE: 'many' is not a whole number");
  refused("LLAMA_ARG_N_PARALLEL=0", "LLAMA_ARG_N_PARALLEL: 0 is out of range");  // of an alias or another name
  refused("LLAMA_ARG_N_GPU_LAYERS=x", "LLAMA_ARG_N_GPU_LAYERS");
  refused("LLAMA_ARG_ENDPOINT_METRICS=perhaps", "LLAMA_ARG_ENDPOINT_METRICS=perhaps: want 0 or 1");
  refused("LLAMA_ARG_UI=perhaps", "LLAMA_ARG_UI=perhaps");
  refused("LLAMA_ARG_HOST=0.0.0.0", "--api-key");
  // The command line comes first, then our own names.
  expect_refusal(
      run_program({"serve", "-m", "/no/such/model.gguf", "--host", "127.0.0.1"}, "", {"LLAMA_ARG_HOST=0.0.0.0"}), 1,
      "/no/such/model.gguf");
  expect_refusal(
      run_program({"serve", "-m", "/no/such/model.gguf"}, "", {"TESSERA_HOST=127.0.0.1", "LLAMA_ARG_HOST=0.0.0.0"}), 1,
      "/no/such/model.gguf");
}

TEST(Serve, ALinkWithTheNameOfAServerIsOne) {
  for (const char* name : {"tessera-serve", "llama-server"}) {
    const std::string link = temporary_path(name);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(std::filesystem::absolute(program_path()), link);
    ::setenv("TESSERA_PROGRAM", link.c_str(), 1);
    const ProgramOutput missing = run_program({"-m", "/no/such/model.gguf"});
    const ProgramOutput version = run_program({"--version"});
    ::unsetenv("TESSERA_PROGRAM");
    expect_refusal(missing, 1, "/no/such/model.gguf");
    EXPECT_EQ(version.status, 0) << version.err;
  }
}

TEST(Serve, MistakesInPresetsAreFoundAtTheStart) {
  const auto refused = [](const std::string& settings, const std::string& message) {
    const std::string presets = write_temporary("wrong.ini", "[a]\nmodel = a.gguf\n" + settings);
    expect_refusal(run_program({"serve", "--models-preset", presets, "--port", "0"}), 1, message);
  };
  refused("port = 5\n", "wrong.ini: line 3: \"port\" is no flag of a model");
  refused("ctx-size = many\n", "line 3: ctx-size: 'many' is not a whole number");
  refused("mlock = perhaps\n", "line 3: mlock: 'perhaps' is none of on and off");
}

TEST(Serve, APortInUseIsAnError) {
  Child server({"serve", "--port", "0", "-c", "256", "-np", "1", "-t", "1"});
  const std::string address = server.wait_for_line("listening on ");
  const ProgramOutput second = run_program({"serve", "-q", "--port", address.substr(address.rfind(':') + 1)});
  expect_refusal(second, 1, "in use");
  server.send(SIGINT);
  EXPECT_EQ(server.wait().status, 0);
}

}  // namespace
}  // namespace tessera
