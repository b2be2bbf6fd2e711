// Embeddings and scores over HTTP, in all dialects: their bits are those of the engine, whatever runs beside them.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>

#include "tessera/server/api/embedding_input.h"
#include "tests/server/api_support.h"
#include "tests/support/diffusion_model.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using namespace testing;
using nn::Pooling;

// The test vectors of RFC 4648, section 10.
TEST(Base64, HasTheDigitsOfTheStandard) {
  const auto base64 = [](std::string_view text) {
    std::string out = "=";
    server::append_base64(out, std::as_bytes(std::span(text)));
    return out;
  };
  const std::string text = "foobar";
  const char* const expected[] = {"=", "=Zg==", "=Zm8=", "=Zm9v", "=Zm9vYg==", "=Zm9vYmE=", "=Zm9vYmFy"};
  for (size_t n = 0; n <= text.size(); ++n) EXPECT_EQ(base64(text.substr(0, n)), expected[n]);
  EXPECT_EQ(base64("\xFB\xFF\xBF"), "=+/+/");
}

class EmbeddingsApi : public ApiTest {
 protected:
  /// Serves a model with these results. A model that generates does so beside them.
  void start_with(const std::string& path, EmbeddingUse use, ApiSetup setup = {}) {
    setup.model = path;
    setup.embeddings = use;
    start(std::move(setup));
  }
  void start_story(ApiSetup setup = {}) { start_with(story_model(), {.pooling = Pooling::mean}, std::move(setup)); }

  /// The vectors of `tessera embed` for texts that the engine tokenizes.
  static std::vector<std::vector<float>> expected(const std::string& path, const std::vector<std::string>& texts,
                                                  Pooling pooling, int32_t norm = 2) {
    const std::shared_ptr<Registry> registry = create_registry("").value();
    LoadedModel model = open_model(registry, {.path = path}).value();
    std::vector<std::vector<int32_t>> tokens;
    for (const std::string& text : texts)
      tokens.push_back(model.engine->tokenizer().tokenize(text, {.add_special = true}).value());
    return expected_of(model, tokens, pooling, norm);
  }
  static std::vector<std::vector<float>> expected_of(LoadedModel& model,
                                                     const std::vector<std::vector<int32_t>>& tokens, Pooling pooling,
                                                     int32_t norm) {
    EXPECT_OK(load_session(model, embedding_session(*model.engine, tokens, pooling, {}).value()));
    std::vector<std::vector<float>> vectors;
    const auto keep = [&](size_t, std::span<const float> values) -> Result<> {
      vectors.emplace_back(values.begin(), values.end());
      if (pooling != Pooling::none && pooling != Pooling::rank) normalize(vectors.back(), norm);
      return {};
    };
    EXPECT_OK(embed(*model.session, tokens, pooling, keep, nullptr));
    return vectors;
  }

  /// Texts that take long.
  static ordered_json long_texts(size_t n) {
    std::string text;
    for (int i = 0; i < 8000; ++i) text += " dog";
    return std::vector<std::string>(n, text);
  }
  /// A value of GET /metrics.
  double metric(const std::string& name) const {
    const std::string text = "\n" + get("/metrics").reply.body;
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
  void wait_until_busy() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (server_->is_idle() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(server_->is_idle());
  }

  static std::vector<float> floats(const ordered_json& list) { return list.get<std::vector<float>>(); }
};

std::string bert(bool has_head = false) {
  TinyEncoder tiny("bert");
  tiny.key("pooling_type", uint32_t{2});
  if (has_head) tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  return tiny.write(has_head ? "rank.gguf" : "bert.gguf");
}

TEST_F(EmbeddingsApi, OfOpenAiAreThoseOfEmbed) {
  start_story();
  const std::vector<std::string> texts = {"Once upon a time", "The dog", ""};
  const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", texts}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_EQ(answer.json["object"], "list");
  const auto vectors = expected(story_model(), texts, Pooling::mean);
  ASSERT_EQ(answer.json["data"].size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(answer.json["data"][i]["index"], i);
    EXPECT_EQ(answer.json["data"][i]["object"], "embedding");
    EXPECT_EQ(floats(answer.json["data"][i]["embedding"]), vectors[i]);
  }
  EXPECT_GT(answer.json["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(answer.json["usage"]["prompt_tokens"], answer.json["usage"]["total_tokens"]);
  const Answer one = post_json("/v1/embeddings", ordered_json{{"input", texts[0]}});
  EXPECT_EQ(floats(one.json["data"][0]["embedding"]), vectors[0]);
}

TEST_F(EmbeddingsApi, OfAnEncoderAreThoseOfEmbed) {
  const std::string path = bert();
  start_with(path, {.pooling = Pooling::cls});
  const std::vector<std::string> texts = {"a b c", "z", "", "a b c d e f g h i j k l m n o p q r s t u v w x y z"};
  const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", texts}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto vectors = expected(path, texts, Pooling::cls);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(floats(answer.json["data"][i]["embedding"]), vectors[i]);
}

TEST_F(EmbeddingsApi, InputsComeInAllForms) {
  start_story();
  const Answer text = post_json("/v1/embeddings", ordered_json{{"input", "The dog"}});
  const Answer tokens = post_json("/tokenize", ordered_json{{"content", "The dog"}, {"add_special", true}});
  const ordered_json ids = tokens.json["tokens"];
  const ordered_json& vector = text.json["data"][0]["embedding"];
  const auto vectors_of = [&](const ordered_json& input) {
    const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", input}});
    EXPECT_EQ(answer.status, 200) << answer.reply.body;
    std::vector<ordered_json> vectors;
    for (const auto& one : answer.json["data"]) vectors.push_back(one["embedding"]);
    return vectors;
  };
  EXPECT_EQ(vectors_of(ids), (std::vector<ordered_json>{vector}));
  EXPECT_EQ(vectors_of(ordered_json::array({ids, "The dog"})), (std::vector<ordered_json>{vector, vector}));
  ordered_json mixed = ordered_json::array({ids[0]});
  for (size_t i = 1; i < ids.size(); ++i) mixed.push_back(ids[i]);
  mixed.push_back(" and");
  EXPECT_NE(vectors_of(mixed).at(0), vector);
  EXPECT_EQ(vectors_of(ordered_json{{"prompt_string", "The dog"}}), (std::vector<ordered_json>{vector}));
}

// A text of a client is no control token, as in `tessera embed`.
TEST_F(EmbeddingsApi, TextsNeverBecomeControlTokens) {
  start_story();
  const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", "</s>"}});
  EXPECT_EQ(floats(answer.json["data"][0]["embedding"]), expected(story_model(), {"</s>"}, Pooling::mean)[0]);
  EXPECT_GT(answer.json["usage"]["prompt_tokens"], 2);
}

TEST_F(EmbeddingsApi, Base64IsOfLittleEndianFloats) {
  start_story();
  const Answer plain = post_json("/v1/embeddings", ordered_json{{"input", "The dog"}});
  const Answer encoded = post_json("/v1/embeddings", ordered_json{{"input", "The dog"}, {"encoding_format", "base64"}});
  const std::string text = encoded.json["data"][0]["embedding"];
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t group = 0;
  int n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    group = group << 6 | static_cast<uint32_t>(kDigits.find(c));
    if ((n_bits += 6) >= 8) bytes += static_cast<char>(group >> (n_bits -= 8) & 255);
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_EQ(text.size() % 4, 0u);
  EXPECT_EQ(values, floats(plain.json["data"][0]["embedding"]));
  expect_refused(post_json("/v1/embeddings", ordered_json{{"input", "a"}, {"encoding_format", "xml"}}), 400,
                 "encoding_format");
}

TEST_F(EmbeddingsApi, DimensionsAreCutAndNormalizedAgain) {
  start_story();
  const Answer cut = post_json("/v1/embeddings", ordered_json{{"input", "The dog"}, {"dimensions", 5}});
  std::vector<float> vector = expected(story_model(), {"The dog"}, Pooling::mean, -1)[0];
  vector.resize(5);
  normalize(vector, 2);
  EXPECT_EQ(floats(cut.json["data"][0]["embedding"]), vector);
  const Answer plain = post_json("/v1/embeddings", ordered_json{{"input", "The dog"}, {"embd_normalize", -1}});
  EXPECT_EQ(floats(plain.json["data"][0]["embedding"]), expected(story_model(), {"The dog"}, Pooling::mean, -1)[0]);
  expect_refused(post_json("/v1/embeddings", ordered_json{{"input", "a"}, {"dimensions", 0}}), 400, "dimensions");
  expect_refused(post_json("/v1/embeddings", ordered_json{{"input", "a"}, {"dimensions", 65}}), 400, "1 to 64");
}

TEST_F(EmbeddingsApi, TheServersNormIsTheDefault) {
  ApiSetup setup;
  setup.options.api.embd_normalize = 1;
  start_story(std::move(setup));
  const auto vector = expected(story_model(), {"The dog"}, Pooling::mean, 1)[0];
  const Answer native = post_json("/embedding", ordered_json{{"content", "The dog"}});
  EXPECT_EQ(floats(native.json[0]["embedding"][0]), vector);
  EXPECT_EQ(floats(post_json("/api/embed", ordered_json{{"input", "The dog"}}).json["embeddings"][0]), vector);
}

TEST_F(EmbeddingsApi, OfLlamaServerAreListsOfVectors) {
  start_story();
  const auto vectors = expected(story_model(), {"The dog", "A cat"}, Pooling::mean);
  for (const char* path : {"/embedding", "/embeddings"})
    for (const char* field : {"content", "input"}) {
      const Answer answer = post_json(path, ordered_json{{field, {"The dog", "A cat"}}});
      ASSERT_EQ(answer.status, 200) << answer.reply.body;
      ASSERT_EQ(answer.json.size(), 2u);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(answer.json[i]["index"], i);
        ASSERT_EQ(answer.json[i]["embedding"].size(), 1u);
        EXPECT_EQ(floats(answer.json[i]["embedding"][0]), vectors[i]);
      }
    }
  const Answer plain = post_json("/embedding", ordered_json{{"content", "The dog"}, {"embd_normalize", -1}});
  EXPECT_EQ(floats(plain.json[0]["embedding"][0]), expected(story_model(), {"The dog"}, Pooling::mean, -1)[0]);
  expect_refused(post_json("/embedding", ordered_json::object()), 400, "content");
  expect_refused(post_json("/embedding", ordered_json{{"content", "a"}, {"embd_normalize", -2}}), 400,
                 "embd_normalize");
}

TEST_F(EmbeddingsApi, WithoutPoolingEachTokenHasAVector) {
  start_with(story_model(), {.pooling = Pooling::none});
  const Answer answer = post_json("/embedding", ordered_json{{"content", "The dog"}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto rows = expected(story_model(), {"The dog"}, Pooling::none)[0];
  std::vector<float> joined;
  for (const auto& row : answer.json[0]["embedding"]) {
    const auto values = floats(row);
    joined.insert(joined.end(), values.begin(), values.end());
  }
  EXPECT_EQ(joined, rows);  // not normalized
  expect_refused(post_json("/v1/embeddings", ordered_json{{"input", "a"}}), 400, "pooling");
  EXPECT_EQ(post_json("/api/embed", ordered_json{{"input", "a"}}).status, 400);
}

// Without pooling each token has a vector, and an answer has at most 2^24 numbers.
TEST_F(EmbeddingsApi, AnAnswerHasABoundOfVectors) {
  start_with(story_model(), {.pooling = nn::Pooling::none});
  const std::vector<int32_t> text(129, 5);
  const ordered_json body = {{"input", std::vector<std::vector<int32_t>>(2048, text)}};
  expect_refused(post_json("/embedding", body), 400, "264192 vectors, want at most 262144");
}

TEST_F(EmbeddingsApi, WrongInputsAreRefused) {
  start_story();
  const auto refused = [&](const ordered_json& body, const std::string& part) {
    expect_refused(post_json("/v1/embeddings", body), 400, part);
  };
  refused(ordered_json::object(), "input");
  refused({{"input", nullptr}}, "input");
  refused({{"input", ordered_json::array()}}, "input");
  refused({{"input", {{"a"}, 5}}}, "input");
  refused({{"input", {1, 100000}}}, "input[1]");
  refused({{"input", {{1, 2}, {-1}}}}, "input[1][0]");
  refused({{"input", std::vector<std::string>(2049, "a")}}, "2048");
  const Answer many = post_json("/v1/embeddings", ordered_json{{"input", std::vector<std::string>(2048, "a")}});
  EXPECT_EQ(many.status, 200);
  EXPECT_EQ(many.json["data"].size(), 2048u);
  EXPECT_EQ(many.json["data"][0]["embedding"], many.json["data"][2047]["embedding"]);
}

TEST_F(EmbeddingsApi, ATextMayFillTheContext) {
  start_story({.n_ctx = 256});
  std::vector<int32_t> ids(256, 5);
  EXPECT_EQ(post_json("/v1/embeddings", ordered_json{{"input", ids}}).status, 200);
  ids.push_back(5);
  const Answer refused = post_json("/v1/embeddings", ordered_json{{"input", ids}});
  expect_refused(refused, 400, "input (257 tokens) is too large to process: the context is 256 tokens");
  EXPECT_EQ(refused.json["error"]["type"], "exceed_context_size_error");
  EXPECT_EQ(refused.json["error"]["n_prompt_tokens"], 257);
  EXPECT_EQ(refused.json["error"]["n_ctx"], 256);
}

TEST_F(EmbeddingsApi, AreSwitchedOnByAFlag) {
  start();
  for (const char* path : {"/v1/embeddings", "/embedding", "/embeddings"}) {
    const Answer answer = post_json(path, ordered_json{{"input", "a"}});
    expect_refused(answer, 501, "This server does not support embeddings. Start it with `--embeddings`");
    EXPECT_EQ(answer.json["error"]["type"], "not_supported_error");
  }
  for (const char* path : {"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"})
    expect_refused(post_json(path, ordered_json{{"query", "a"}, {"documents", {"b"}}}), 501,
                   "This server does not support reranking. Start it with `--reranking`");
  const ordered_json shown = post_json("/api/show", ordered_json{{"model", "stories260K.gguf"}}).json;
  for (const auto& ability : shown.value("capabilities", ordered_json::array())) EXPECT_NE(ability, "embedding");
}

// --- scores

TEST_F(EmbeddingsApi, ScoresAreThoseOfEmbed) {
  const std::string path = bert(true);
  start_with(path, {.ranks = true});
  const std::vector<std::string> documents = {"z y x", "a b", "q"};
  const std::shared_ptr<Registry> registry = create_registry("").value();
  LoadedModel model = open_model(registry, {.path = path}).value();
  std::vector<std::vector<int32_t>> pairs;
  for (const std::string& document : documents) pairs.push_back(rank_tokens(*model.engine, "a b", document).value());
  const auto scores = expected_of(model, pairs, Pooling::rank, -1);
  for (const char* route : {"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"}) {
    const Answer answer = post_json(route, ordered_json{{"query", "a b"}, {"documents", documents}});
    ASSERT_EQ(answer.status, 200) << answer.reply.body;
    EXPECT_EQ(answer.json["object"], "list");
    EXPECT_EQ(answer.json["usage"]["prompt_tokens"], pairs[0].size() + pairs[1].size() + pairs[2].size());
    ASSERT_EQ(answer.json["results"].size(), 3u);
    float last = std::numeric_limits<float>::infinity();
    for (const auto& result : answer.json["results"]) {
      const float score = result["relevance_score"];
      EXPECT_EQ(score, scores[result["index"].get<size_t>()][0]);
      EXPECT_LE(score, last);
      last = score;
    }
  }
}

TEST_F(EmbeddingsApi, TheFormOfTextsIsAList) {
  start_with(bert(true), {.ranks = true});
  const ordered_json texts = {"z y x", "a b", "q"};
  const Answer whole = post_json("/rerank", ordered_json{{"query", "a b"}, {"documents", texts}});
  const Answer list =
      post_json("/rerank", ordered_json{{"query", "a b"}, {"texts", texts}, {"return_text", true}, {"top_n", 2}});
  ASSERT_EQ(list.status, 200) << list.reply.body;
  ASSERT_TRUE(list.json.is_array());
  ASSERT_EQ(list.json.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(list.json[i]["index"], whole.json["results"][i]["index"]);
    EXPECT_EQ(list.json[i]["score"], whole.json["results"][i]["relevance_score"]);
    EXPECT_EQ(list.json[i]["text"], texts[list.json[i]["index"].get<size_t>()]);
  }
  const Answer plain = post_json("/rerank", ordered_json{{"query", "a b"}, {"texts", texts}, {"top_n", 100}});
  EXPECT_EQ(plain.json.size(), 3u);
  EXPECT_FALSE(plain.json[0].contains("text"));
}

TEST_F(EmbeddingsApi, WrongDocumentsAreRefused) {
  start_with(bert(true), {.ranks = true});
  const auto refused = [&](const ordered_json& body, const std::string& part) {
    expect_refused(post_json("/v1/rerank", body), 400, part);
  };
  refused({{"documents", {"a"}}}, "query");
  refused({{"query", 5}, {"documents", {"a"}}}, "query");
  refused({{"query", "a"}}, "documents");
  refused({{"query", "a"}, {"documents", ordered_json::array()}}, "documents");
  refused({{"query", "a"}, {"documents", "b"}}, "documents");
  refused({{"query", "a"}, {"documents", {"b", 5}}}, "documents[1]");
  refused({{"query", "a"}, {"documents", {"b"}}, {"top_n", -1}}, "top_n");
  refused({{"query", "a"}, {"documents", std::vector<std::string>(2049, "a")}}, "2048");
  std::string words = "a";
  for (int i = 0; i < 100; ++i) words += " b";
  refused({{"query", "a"}, {"documents", {"b", words}}}, "is too large to process: the context is 96 tokens");
}

TEST_F(EmbeddingsApi, AModelMayEmbedAndRank) {
  const std::string path = bert(true);
  start_with(path, {.pooling = Pooling::mean, .ranks = true});
  const Answer vector = post_json("/v1/embeddings", ordered_json{{"input", "a b"}});
  EXPECT_EQ(floats(vector.json["data"][0]["embedding"]), expected(path, {"a b"}, Pooling::mean)[0]);
  EXPECT_EQ(post_json("/rerank", ordered_json{{"query", "a"}, {"documents", {"b"}}}).status, 200);
}

TEST_F(EmbeddingsApi, ARankerHasNoVectors) {
  start_with(bert(true), {.ranks = true});
  expect_refused(post_json("/v1/embeddings", ordered_json{{"input", "a"}}), 501, "`--embeddings --pooling mean`");
}

// --- a model that generates nothing

TEST_F(EmbeddingsApi, AnEncoderGeneratesNothing) {
  start_with(bert(), {.pooling = Pooling::cls});
  EXPECT_EQ(get("/health").status, 200);
  const ordered_json messages = {{{"role", "user"}, {"content", "a"}}};
  expect_refused(post_json("/completion", ordered_json{{"prompt", "a"}}), 501, "computes embeddings only");
  expect_refused(post_json("/v1/completions", ordered_json{{"prompt", "a"}}), 501, "computes embeddings only");
  expect_refused(post_json("/v1/chat/completions", ordered_json{{"messages", messages}}), 501,
                 "computes embeddings only");
  const Answer message = post_json("/v1/messages", ordered_json{{"max_tokens", 4}, {"messages", messages}});
  EXPECT_EQ(message.status, 501);
  const Answer chat = post_json("/api/chat", ordered_json{{"model", "bert"}, {"messages", messages}});
  EXPECT_EQ(chat.status, 400);
  EXPECT_EQ(chat.json["error"], "\"bert\" does not support chat");
  EXPECT_EQ(post_json("/api/generate", ordered_json{{"model", "bert"}, {"prompt", "a"}}).json["error"],
            "\"bert\" does not support generate");
  EXPECT_EQ(get("/slots").json, ordered_json::array());
  EXPECT_EQ(post("/slots/0?action=erase", "").status, 501);
  EXPECT_EQ(get("/props").json["total_slots"], 0);
  EXPECT_EQ(get("/v1/models").json["data"][0]["meta"]["n_ctx"], 96);
  EXPECT_EQ(post_json("/api/show", ordered_json{{"model", "bert"}}).json["capabilities"],
            ordered_json::parse(R"(["embedding"])"));
}

TEST_F(EmbeddingsApi, ADiffusionModelIsReferredToTheProgram) {
  start_with(diffusion_model("dream-dense").write("dream.gguf"), {.pooling = Pooling::mean});
  for (const char* path : {"/completion", "/v1/completions"})
    expect_refused(post_json(path, ordered_json{{"prompt", "a"}}), 501,
                   "fills in a whole text at once, which a server does not do: use `tessera run`");
  EXPECT_EQ(get("/props").json["total_slots"], 0);
}

// The encoder of a T5 model embeds. Its decoder is not served.
TEST_F(EmbeddingsApi, OfAModelWithEncoderAndDecoderAreTheEncoders) {
  const std::string path = TinyT5("t5").write("t5.gguf");
  start_with(path, {.pooling = Pooling::mean});
  const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", {"abc", "xyz"}}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto vectors = expected(path, {"abc", "xyz"}, Pooling::mean);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(floats(answer.json["data"][i]["embedding"]), vectors[i]);
  expect_refused(post_json("/completion", ordered_json{{"prompt", "a"}}), 501, "computes embeddings only");
}

// --- Ollama

TEST_F(EmbeddingsApi, OfOllamaAreThoseOfEmbed) {
  start_story();
  const std::vector<std::string> texts = {"The dog", "A cat"};
  const Answer list = post_json("/api/embed", ordered_json{{"model", "story"}, {"input", texts}});
  ASSERT_EQ(list.status, 200) << list.reply.body;
  const auto vectors = expected(story_model(), texts, Pooling::mean);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(floats(list.json["embeddings"][i]), vectors[i]);
  EXPECT_GT(list.json["prompt_eval_count"], 2);
  EXPECT_GE(list.json["total_duration"], 1);
  EXPECT_GE(list.json["load_duration"], 1);
  EXPECT_GT(list.json["total_duration"], 1);
  const Answer cut = post_json("/api/embed", ordered_json{{"input", "The dog"}, {"dimensions", 7}});
  EXPECT_EQ(cut.json["embeddings"][0].size(), 7u);
  const Answer one = post_json("/api/embeddings", ordered_json{{"prompt", "The dog"}});
  EXPECT_EQ(floats(one.json["embedding"]), expected(story_model(), {"The dog"}, Pooling::mean, -1)[0]);
  // Without a text the model is only loaded.
  EXPECT_EQ(post_json("/api/embed", ordered_json{{"input", ""}}).json["embeddings"], ordered_json::array());
  EXPECT_EQ(post_json("/api/embeddings", ordered_json{{"prompt", ""}}).json["embedding"], ordered_json::array());
}

TEST_F(EmbeddingsApi, OllamaCutsLongTexts) {
  const std::string path = bert();
  start_with(path, {.pooling = Pooling::last});
  std::string words = "a";
  for (int i = 0; i < 200; ++i) words += " b";
  const Answer cut = post_json("/api/embed", ordered_json{{"input", words}});
  ASSERT_EQ(cut.status, 200) << cut.reply.body;
  EXPECT_EQ(cut.json["prompt_eval_count"], 96);
  const std::string first_words = words.substr(0, 2 * 94 - 1);  // beside [CLS] and [SEP]
  EXPECT_EQ(floats(cut.json["embeddings"][0]), expected(path, {first_words}, Pooling::last)[0]);
  const Answer refused = post_json("/api/embed", ordered_json{{"input", words}, {"truncate", false}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.json["error"].get<std::string>().find("too large to process"), std::string::npos);
}

// --- beside other work

TEST_F(EmbeddingsApi, AreTheSameBitsBesideAStream) {
  start_story({.n_ctx = 1 << 17});
  HttpClient streaming = connect();
  ASSERT_TRUE(streaming.post(
      "/completion",
      ordered_json{{"prompt", "Once"}, {"stream", true}, {"ignore_eos", true}, {"n_predict", -1}}.dump()));
  ASSERT_EQ(streaming.read_head().status, 200);
  std::string text = "Once upon a time";
  for (int i = 0; i < 200; ++i) text += " there was a dog";
  const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", {text, "The dog"}}});
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_FALSE(server_->is_idle());  // the stream goes on
  const auto vectors = expected(story_model(), {"The dog"}, Pooling::mean);
  EXPECT_EQ(floats(answer.json["data"][1]["embedding"]), vectors[0]);
  const Answer alone = post_json("/v1/embeddings", ordered_json{{"input", text}});
  EXPECT_EQ(answer.json["data"][0]["embedding"], alone.json["data"][0]["embedding"]);
}

TEST_F(EmbeddingsApi, ManyClientsGetTheirOwnVectors) {
  start_story();
  const std::vector<std::string> texts = {"The dog", "A cat sat", "Once upon a time there was a girl", "x", "Lily"};
  const auto vectors = expected(story_model(), texts, Pooling::mean);
  std::vector<std::thread> clients;
  for (size_t c = 0; c < 8; ++c)
    clients.emplace_back([&, c] {
      for (size_t i = 0; i < 10; ++i) {
        const size_t text = (c + i) % texts.size();
        const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", texts[text]}});
        EXPECT_EQ(answer.status, 200) << answer.reply.body;
        EXPECT_EQ(floats(answer.json["data"][0]["embedding"]), vectors[text]);
      }
    });
  for (std::thread& client : clients) client.join();
}

TEST_F(EmbeddingsApi, AShutdownEndsThem) {
  start_story({.n_ctx = 1 << 15});
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/v1/embeddings", ordered_json{{"input", long_texts(200)}}.dump()));
  wait_until_busy();
  server_->drain();
  server_->end_requests();
  const Answer answer = read(client);
  expect_refused(answer, 503, "shutting down");
  wait_until_idle();
}

TEST_F(EmbeddingsApi, ADeadlineEndsThem) {
  start_story({.n_ctx = 1 << 15});
  expect_refused(post_json("/v1/embeddings", ordered_json{{"input", long_texts(20)}, {"timeout_ms", 1}}), 503,
                 "deadline");
  wait_until_idle();
}

TEST_F(EmbeddingsApi, AClientThatLeavesEndsThem) {
  ApiSetup setup{.n_ctx = 1 << 15};
  setup.options.api.has_metrics = true;
  start_story(std::move(setup));
  {
    HttpClient client = connect();
    ASSERT_TRUE(client.post("/v1/embeddings", ordered_json{{"input", long_texts(200)}}.dump()));
    // Wait for the first batch.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (metric("llamacpp:n_decode_total") == 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  wait_until_idle();
  EXPECT_GT(metric("tessera_finished_total{model=\"story.gguf\",reason=\"cancelled\"}"), 0);
}

TEST_F(EmbeddingsApi, UnknownFieldsAreNamed) {
  start_story();
  const Answer answer = post_json("/v1/embeddings", ordered_json{{"input", "a"}, {"model", "x"}, {"colour", "red"}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.reply.field("x-ignored-fields"), "colour");
}

}  // namespace
}  // namespace tessera
