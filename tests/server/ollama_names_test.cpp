// Names that clients give to the models of a directory, over the Ollama API.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tessera/server/sha256.h"
#include "tests/server/api_support.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;

using NameList = std::vector<std::string>;

/// The models of a directory.
class FolderModels final : public server::ModelSource {
 public:
  explicit FolderModels(std::string directory) : directory_(std::move(directory)) {
    registry_ = create_registry("").value();
  }

  Result<std::vector<server::CatalogEntry>> list() override {
    auto entries = server::read_catalog({.directory = directory_});
    if (entries && !outside.empty()) entries->push_back({.name = "zoo", .path = outside});
    return entries;
  }

  Result<server::PlannedModel> plan(const server::CatalogEntry& entry) override {
    return server::PlannedModel{
        .n_bytes = 1, .load = [registry = registry_, entry](const LoadProgress&) -> Result<server::ReadyModel> {
          server::ReadyModel ready;
          TESSERA_ASSIGN(ready.loaded, open_model(registry, {.path = entry.path}));
          TESSERA_TRY(load_session(ready.loaded, {.n_ctx = 256, .n_sequences = 1, .n_outputs = 1}));
          ready.options.path = entry.path;
          ready.options.scheduler.n_slots = 1;
          ready.options.named = entry.named;
          return ready;
        }};
  }

  std::string outside{};  // a model "zoo" whose file is not in the directory

 private:
  const std::string directory_;
  std::shared_ptr<Registry> registry_;
};

class OllamaNames : public ApiTest {
 protected:
  void SetUp() override {
    folder_ = temporary_path("ollama_names");
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(story_model(), folder_ / "story.gguf");
    source_ = std::make_unique<FolderModels>(folder_.string());
    server::ServerOptions setup;
    setup.http.port = 0;
    setup.api.named_models = folder_.string();
    ASSERT_OK_AND_ASSIGN(server_, server::Server::start(setup));
    ASSERT_OK(server_->serve(*source_, {}, {}));
  }
  void TearDown() override { server_.reset(); }

  Answer send_with(const std::string& method, const std::string& path, const std::string& body) const {
    HttpClient client = connect();
    EXPECT_TRUE(client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body));
    if (method != "HEAD") return read(client);
    return {.status = client.read_head().status};
  }
  int erase(const std::string& model) const {
    return send_with("DELETE", "/api/delete", ordered_json{{"model", model}}.dump()).status;
  }
  int copy(const std::string& source, const std::string& destination) const {
    return post_json("/api/copy", {{"source", source}, {"destination", destination}}).status;
  }
  Answer create(const std::string& model, ordered_json body) const {
    body["model"] = model;
    return post_json("/api/create", body);
  }
  NameList names() const {
    NameList names;
    const ordered_json tags = get("/api/tags").json;
    for (const auto& model : tags["models"]) names.push_back(model["name"]);
    return names;
  }
  /// The names of all files of the directory and of its folder of blobs.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder_))
      if (file.is_regular_file()) names.insert(file.path().filename());
    return names;
  }
  ordered_json settings_of(const std::string& name) const {
    return ordered_json::parse(read_all((folder_ / (name + ".json")).string()), nullptr, false);
  }
  /// Stores bytes and returns their digest as the routes name it.
  std::string store(const std::string& bytes) const {
    const std::string digest =
        "sha256:" + server::hex_text(server::Sha256().add(std::as_bytes(std::span(bytes))).finish());
    EXPECT_EQ(send_with("HEAD", "/api/blobs/" + digest, "").status, 404);
    EXPECT_EQ(send_with("POST", "/api/blobs/" + digest, bytes).status, 201);
    EXPECT_EQ(send_with("HEAD", "/api/blobs/" + digest, "").status, 200);
    return digest;
  }
  static void expect_reason(const Answer& answer, int status, const std::string& part) {
    EXPECT_EQ(answer.status, status) << answer.reply.body;
    EXPECT_NE(answer.reply.body.find(part), std::string::npos) << answer.reply.body;
  }
  int64_t prompt_tokens(const std::string& path, ordered_json body) const {
    body["stream"] = false;
    body["options"] = {{"num_predict", 1}};
    const Answer answer = post_json(path, body);
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    return answer.json.value("prompt_eval_count", int64_t{-1});
  }

  std::filesystem::path folder_;
  std::unique_ptr<FolderModels> source_;
};

TEST_F(OllamaNames, ACopyNamesTheSameFile) {
  EXPECT_EQ(copy("story:latest", "b:small"), 200);
  EXPECT_EQ(names(), (NameList{"b:small", "story:latest"}));
  EXPECT_EQ(settings_of("b:small"), (ordered_json{{"tessera_name", 1}, {"file", "story.gguf"}}));
  // A copy of a copy has the settings of the copy.
  EXPECT_EQ(create("c", {{"from", "b:small"}, {"system", "Be kind"}}).status, 200);
  EXPECT_EQ(copy("c", "d:latest"), 200);
  EXPECT_EQ(settings_of("d"), (ordered_json{{"tessera_name", 1}, {"file", "story.gguf"}, {"system", "Be kind"}}));
  // A name that a client gave may be given again. That of a file may not.
  EXPECT_EQ(copy("story", "c"), 200);
  EXPECT_FALSE(settings_of("c").contains("system"));
  expect_reason(post_json("/api/copy", {{"source", "c"}, {"destination", "story"}}), 400,
                "'story' is the name of a file of the server");
  expect_reason(post_json("/api/copy", {{"source", "x"}, {"destination", "y"}}), 404, "model 'x' not found");
  expect_reason(post_json("/api/copy", {{"source", "c"}}), 400, "destination");
  expect_reason(post_json("/api/copy", {{"destination", "c"}}), 400, "source");
}

TEST_F(OllamaNames, PartsOfANameAreChecked) {
  const std::string longest(100, 'n');
  EXPECT_EQ(copy("story", longest + ":" + longest), 200);
  for (const std::string& name : {longest + "n", longest + "n:a", "a:" + longest + "n", std::string("a:"),
                                  std::string(":a"), std::string("a:.b"), std::string(".a"), std::string("a/b")})
    expect_reason(post_json("/api/copy", {{"source", "story"}, {"destination", name}}), 400, "NAME or NAME:TAG");
}

TEST_F(OllamaNames, AModelOfAnotherFolderHasNoOtherNames) {
  for (const std::string& outside : {story_model(), std::string()}) {
    source_->outside = outside;
    EXPECT_EQ(create("again", {{"from", "story"}}).status, 200);  // reads the list
    if (outside.empty()) continue;
    expect_reason(post_json("/api/copy", {{"source", "zoo"}, {"destination", "b"}}), 400,
                  "model 'zoo' is not in the directory of models");
    EXPECT_EQ(erase("zoo"), 400);
  }
}

TEST_F(OllamaNames, SettingsOfANameStandInItsFile) {
  const std::string adapter = store("an adapter"), other = store("another");
  const ordered_json messages = {{{"role", "user"}, {"content", "A"}}, {{"role", "assistant"}, {"content", "B"}}};
  const Answer lines = create("poet", {{"from", "story"},
                                       {"system", "Answer in verse."},
                                       {"messages", messages},
                                       {"parameters", {{"seed", 3}, {"top_k", 5}}},
                                       {"adapters", {{"a.gguf", adapter}, {"b.gguf", other}}}});
  EXPECT_EQ(lines.reply.body, "{\"status\":\"writing manifest\"}\n{\"status\":\"success\"}\n");
  EXPECT_EQ(lines.reply.field("content-type"), "application/x-ndjson");
  const ordered_json settings = settings_of("poet");
  EXPECT_EQ(settings["system"], "Answer in verse.");
  EXPECT_EQ(settings["messages"], messages);
  EXPECT_EQ(settings["options"], (ordered_json{{"seed", 3}, {"top_k", 5}}));
  EXPECT_EQ(settings["adapters"],
            (ordered_json{"blobs/sha256-" + adapter.substr(7), "blobs/sha256-" + other.substr(7)}));
  EXPECT_FALSE(settings.contains("hidden"));
  // What a request does not give comes from the model of `from`.
  const Answer whole = create("calm", {{"from", "poet"}, {"system", "Be calm."}, {"stream", false}});
  EXPECT_EQ(whole.reply.body, R"({"status":"success"})");
  ordered_json changed = settings;
  changed["system"] = "Be calm.";
  EXPECT_EQ(settings_of("calm"), changed);
  EXPECT_EQ(
      create("none", {{"from", "poet"}, {"messages", ordered_json::array()}, {"adapters", ordered_json::object()}})
          .status,
      200);
  EXPECT_FALSE(settings_of("none").contains("messages"));
  EXPECT_FALSE(settings_of("none").contains("adapters"));
}

TEST_F(OllamaNames, SettingsAreInThePrompt) {
  EXPECT_EQ(create("poet", {{"from", "story"}, {"system", "Answer in verse."}}).status, 200);
  const ordered_json own = {{{"role", "user"}, {"content", "A"}}, {{"role", "assistant"}, {"content", "B"}}};
  EXPECT_EQ(create("taught", {{"from", "story"}, {"messages", own}}).status, 200);
  const ordered_json hi = {{"role", "user"}, {"content", "Hi"}};
  const ordered_json other = {{"role", "system"}, {"content", "Answer in prose, as long as you can."}};
  const ordered_json verse = {{"role", "system"}, {"content", "Answer in verse."}};
  const auto chat = [&](const std::string& model, const ordered_json& messages) {
    return prompt_tokens("/api/chat", {{"model", model}, {"messages", messages}});
  };
  EXPECT_EQ(chat("poet", ordered_json::array({hi})), chat("story", {verse, hi}));
  EXPECT_GT(chat("poet", ordered_json::array({hi})), chat("story", ordered_json::array({hi})));
  EXPECT_EQ(chat("poet", {other, hi}), chat("story", {other, hi}));  // in place of the model's own
  EXPECT_EQ(chat("taught", ordered_json::array({hi})), chat("story", {own[0], own[1], hi}));
  EXPECT_EQ(chat("taught", {other, hi}), chat("story", {own[0], own[1], other, hi}));
  const auto generate = [&](const std::string& model, const std::string& system) {
    return prompt_tokens("/api/generate", {{"model", model}, {"prompt", "Hi"}, {"system", system}});
  };
  EXPECT_EQ(generate("poet", ""), generate("story", "Answer in verse."));
  EXPECT_EQ(generate("poet", "Be plain"), generate("story", "Be plain"));
}

TEST_F(OllamaNames, ABlobBecomesAModelAndGoesWithItsLastName) {
  const std::string blob = store(read_all(story_model()));
  EXPECT_EQ(create("new", {{"files", {{"m.gguf", blob}}}}).status, 200);
  EXPECT_EQ(settings_of("new")["file"], "blobs/sha256-" + blob.substr(7));
  EXPECT_EQ(copy("new", "newer"), 200);
  EXPECT_EQ(erase("new"), 200);
  EXPECT_EQ(names(), (NameList{"newer:latest", "story:latest"}));
  EXPECT_EQ(send_with("HEAD", "/api/blobs/" + blob, "").status, 200);
  EXPECT_EQ(erase("newer"), 200);
  EXPECT_EQ(send_with("HEAD", "/api/blobs/" + blob, "").status, 404);
  EXPECT_EQ(files(), std::set<std::string>{"story.gguf"});
}

TEST_F(OllamaNames, AFileStaysAsLongAsItHasAName) {
  EXPECT_EQ(copy("story", "b"), 200);
  EXPECT_EQ(copy("story", "c"), 200);
  EXPECT_EQ(erase("c"), 200);  // the file has its own name
  EXPECT_EQ(names(), (NameList{"b:latest", "story:latest"}));
  EXPECT_EQ(copy("story", "c"), 200);
  EXPECT_EQ(erase("story"), 200);
  EXPECT_EQ(names(), (NameList{"b:latest", "c:latest"}));
  EXPECT_EQ(settings_of("story"), (ordered_json{{"tessera_name", 1}, {"file", "story.gguf"}, {"hidden", true}}));
  EXPECT_EQ(erase("story"), 404);
  EXPECT_EQ(erase("b"), 200);
  EXPECT_EQ(files(), (std::set<std::string>{"story.gguf", "story.json", "c.json"}));
  EXPECT_EQ(erase("c"), 200);
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(names().empty());
}

TEST_F(OllamaNames, AFileWithoutOtherNamesGoesWithItsOwn) {
  std::filesystem::copy_file(story_model(), folder_ / "other.gguf");
  ASSERT_EQ(copy("story", "b"), 200);  // of another file
  EXPECT_EQ(erase("other"), 200);
  EXPECT_EQ(files(), (std::set<std::string>{"story.gguf", "b.json"}));
}

TEST_F(OllamaNames, ModelsOfSeveralFilesAreRemovedByHand) {
  std::filesystem::create_directories(folder_ / "deep");
  std::filesystem::copy_file(story_model(), folder_ / "deep" / "x.gguf");
  std::filesystem::copy_file(story_model(), folder_ / "part-00001-of-00002.gguf");
  ASSERT_EQ(create("b", {{"from", "story"}}).status, 200);  // reads the list
  ASSERT_EQ(names(), (NameList{"b:latest", "deep:latest", "part:latest", "story:latest"}));
  for (const char* name : {"deep", "part"})
    expect_reason(send_with("DELETE", "/api/delete", ordered_json{{"model", name}}.dump()), 400, "removed by hand");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "deep" / "x.gguf"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "part-00001-of-00002.gguf"));
}

TEST_F(OllamaNames, ANewNameReplacesALoadedModel) {
  ASSERT_EQ(create("b", {{"from", "story"}}).status, 200);
  const auto count = [&] {
    return prompt_tokens("/api/chat", {{"model", "b"}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}});
  };
  const int64_t before = count();
  ASSERT_EQ(create("b", {{"from", "story"}, {"system", "Answer in verse."}}).status, 200);
  EXPECT_TRUE(wait_until([&] { return count() > before; }));
}

TEST_F(OllamaNames, DigestsHaveOneForm) {
  const std::string zeros(64, '0');
  for (const std::string& digest :
       {"sha256:" + zeros.substr(1), "sha256:" + zeros + "0", "sha256:" + zeros.substr(1) + "g",
        "sha256:" + zeros.substr(1) + "/", "sha256:" + zeros.substr(1) + "`", "sha256:" + zeros.substr(1) + "A",
        "md5:" + zeros, zeros}) {
    if (!digest.contains('/')) {
      EXPECT_EQ(send_with("HEAD", "/api/blobs/" + digest, "").status, 400) << digest;
    }
    expect_reason(create("b", {{"files", {{"m.gguf", digest}}}}), 400, "want sha256: and 64 hexadecimal digits");
  }
  for (const char last : {'0', '9', 'a', 'f'})
    EXPECT_EQ(send_with("HEAD", "/api/blobs/sha256:" + zeros.substr(1) + last, "").status, 404) << last;
  expect_reason(create("b", {{"files", {{"m.gguf", "sha256:" + zeros}}}}), 400, "there is no blob");
  EXPECT_EQ(send_with("POST", "/api/blobs/sha256:" + zeros, "abc").status, 400);  // other bytes
}

TEST_F(OllamaNames, MistakesOfANewNameAreTold) {
  const std::string blob = store("bytes");
  expect_reason(create("b", {}), 400, "missing, want a model, or 'files'");
  expect_reason(create("b", {{"files", {{"a.gguf", blob}, {"b.gguf", blob}}}}), 400, "2 files, want one");
  expect_reason(create("b", {{"files", ordered_json::object()}}), 400, "0 files, want one");
  expect_reason(create("b", {{"files", {{"a.safetensors", blob}}}}), 501, "safetensors");
  expect_reason(create("b", {{"files", 5}}), 400, "files");
  expect_reason(create("b", {{"from", 5}}), 400, "from");
  expect_reason(create("b", {{"from", "story"}, {"quantize", "q4_0"}}), 501, "quantized");
  expect_reason(create("b", {{"from", "story"}, {"template", "{{ .Prompt }}"}}), 400, "template");
  expect_reason(create("b", {{"from", "story"}, {"stream", "yes"}}), 400, "stream");
  EXPECT_EQ(create("b", {{"from", "story"}, {"quantize", ""}, {"template", ""}}).status, 200);
  const auto with_adapters = [&](size_t n) {
    ordered_json adapters;
    for (size_t i = 0; i < n; ++i) adapters["a" + std::to_string(i)] = blob;
    return create("many", {{"from", "story"}, {"adapters", adapters}});
  };
  EXPECT_EQ(with_adapters(server::kMostNamedAdapters).status, 200);
  expect_reason(with_adapters(server::kMostNamedAdapters + 1), 400, "more than 16");
}

TEST_F(OllamaNames, SettingsHaveAMostSize) {
  const auto with_system = [&](size_t n) { return create("b", {{"from", "story"}, {"system", std::string(n, 'x')}}); };
  ASSERT_EQ(with_system(10).status, 200);
  const size_t rest = std::filesystem::file_size(folder_ / "b.json") - 10;
  EXPECT_EQ(with_system(server::kMaxNamedModelBytes - rest).status, 200);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "b.json"), server::kMaxNamedModelBytes);
  EXPECT_EQ(names(), (NameList{"b:latest", "story:latest"}));  // it can be read
  expect_reason(with_system(server::kMaxNamedModelBytes - rest + 1), 400, "bytes of settings, want at most");
}

}  // namespace
}  // namespace tessera
