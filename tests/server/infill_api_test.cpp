// Text between two texts over HTTP: POST /infill, and the field "suffix" of other routes.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using namespace testing;

// Ids of the test model's vocabulary that stand for the marks.
constexpr int32_t kFimPre = 300, kFimSuf = 301, kFimMid = 302, kFimRepo = 303, kFimSep = 304;

class InfillApi : public ApiTest {
 protected:
  void start_with_marks(bool has_files = false, int64_t n_ctx = 1024, bool begins_texts = true) {
    EditableModel model(story_model());
    model.builder.set("tokenizer.ggml.add_bos_token", begins_texts);
    model.builder.set("tokenizer.ggml.fim_pre_token_id", static_cast<uint32_t>(kFimPre));
    model.builder.set("tokenizer.ggml.fim_suf_token_id", static_cast<uint32_t>(kFimSuf));
    model.builder.set("tokenizer.ggml.fim_mid_token_id", static_cast<uint32_t>(kFimMid));
    if (has_files) {
      model.builder.set("tokenizer.ggml.fim_rep_token_id", static_cast<uint32_t>(kFimRepo));
      model.builder.set("tokenizer.ggml.fim_sep_token_id", static_cast<uint32_t>(kFimSep));
    }
    start({.model = model.write("infill.gguf"), .n_ctx = n_ctx});
  }
  std::vector<int32_t> tokens_of(const std::string& text) const {
    return post_json("/tokenize", ordered_json{{"content", text}}).json["tokens"];
  }
  std::string text_of(const std::vector<int32_t>& tokens) const {
    return post_json("/detokenize", ordered_json{{"tokens", tokens}}).json["content"];
  }
  static void append(std::vector<int32_t>& tokens, const std::vector<int32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  /// The prompt that the marks demand.
  std::vector<int32_t> marked(const std::string& prefix, const std::string& suffix,
                              const std::string& begin = "") const {
    std::vector<int32_t> tokens = {1, kFimPre};
    append(tokens, tokens_of(prefix));
    tokens.push_back(kFimSuf);
    append(tokens, tokens_of(suffix));
    tokens.push_back(kFimMid);
    append(tokens, tokens_of(begin));
    return tokens;
  }
};

TEST_F(InfillApi, ThePartsComeAfterTheirMarks) {
  start_with_marks();
  const Answer answer =
      post("/infill", R"({"input_prefix":"The cat","input_suffix":"the end","prompt":"sat","n_predict":6,"seed":2})");
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  const auto expected = marked("The cat", "the end", "sat");
  EXPECT_EQ(answer.json["tokens_evaluated"], expected.size());
  EXPECT_EQ(answer.json["prompt"], text_of(expected));
  const Answer same = post_json("/completion", ordered_json{{"prompt", expected}, {"n_predict", 6}, {"seed", 2}});
  EXPECT_EQ(answer.json["content"], same.json["content"]);
}

TEST_F(InfillApi, TheSuffixOfOtherRoutesIsTheSame) {
  start_with_marks();
  const ordered_json native = {
      {"prompt", marked("The cat", "the end")}, {"n_predict", 6}, {"temperature", 0}, {"seed", 2}};
  const std::string text = post_json("/completion", native).json["content"];
  const Answer openai =
      post("/v1/completions", R"({"prompt":"The cat","suffix":"the end","max_tokens":6,"temperature":0,"seed":2})");
  EXPECT_EQ(openai.json["choices"][0]["text"], text) << openai.reply.body;
  const Answer ollama = post("/api/generate", R"({"prompt":"The cat","suffix":"the end","stream":false,
      "options":{"num_predict":6,"temperature":0,"seed":2}})");
  EXPECT_EQ(ollama.json["response"], text) << ollama.reply.body;
  expect_refused(post("/v1/completions", R"({"prompt":["a","b"],"suffix":"c"})"), 400, "prompt");
}

TEST_F(InfillApi, FilesComeFirst) {
  start_with_marks(true);
  const Answer answer = post("/infill", R"({"input_prefix":"The cat","input_suffix":"the end","n_predict":1,
      "input_extra":[{"filename":"a.txt","text":"one"},{"text":"two"}]})");
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  std::vector<int32_t> expected = {1, kFimRepo};
  append(expected, tokens_of("project\n"));
  for (const char* text : {"a.txt\n", "one", "tmp\n", "two", "filename\n"}) {
    if (std::string(text).ends_with('\n')) expected.push_back(kFimSep);
    append(expected, tokens_of(text));
  }
  auto rest = marked("The cat", "the end");
  rest.erase(rest.begin());
  append(expected, rest);
  EXPECT_EQ(answer.json["tokens_evaluated"], expected.size());
  EXPECT_EQ(answer.json["prompt"], text_of(expected));
}

TEST_F(InfillApi, LongPartsKeepTheTokensNextToTheGap) {
  start_with_marks(true, 256);
  std::string many;
  for (int i = 0; i < 600; ++i) many += "one two ";
  const ordered_json request = {{"input_prefix", many + "The cat"},
                                {"input_suffix", "the end " + many},
                                {"input_extra", {{{"text", many}}}},
                                {"n_predict", 4}};
  const Answer answer = post_json("/infill", request);
  ASSERT_EQ(answer.status, 200) << answer.reply.body;
  EXPECT_LT(answer.json["tokens_evaluated"].get<int64_t>(), 256);
  const std::string prompt = answer.json["prompt"];
  EXPECT_NE(prompt.find("The cat"), std::string::npos);
  EXPECT_NE(prompt.find("the end"), std::string::npos);
  // Three quarters of the context are a batch, of which prefix and suffix have three quarters and one. Files have what
  // the answer leaves, which is at most a quarter of the context.
  const auto n_prompt = [&](const ordered_json& n_predict, int64_t n_least) {
    ordered_json body = request;
    body["n_predict"] = n_predict;
    body["grammar"] = "root ::= \"a\"";
    const int64_t n = post_json("/infill", body).json["tokens_evaluated"];
    EXPECT_GE(n, n_least);
    return n;
  };
  constexpr int64_t kTail = 3 + 144 + 46, kBegin = 1;
  EXPECT_EQ(n_prompt(4, kTail), 252);
  EXPECT_EQ(n_prompt(40, kTail), 216);
  for (const int n_predict : {-1, 64, 1000}) EXPECT_EQ(n_prompt(n_predict, kTail), kTail + kBegin) << n_predict;
}

TEST_F(InfillApi, ATextBeginsOnlyWhereTheVocabularyWantsIt) {
  start_with_marks(false, 1024, false);
  const Answer answer = post("/infill", R"({"input_prefix":"The cat","input_suffix":"the end","n_predict":1})");
  EXPECT_EQ(answer.json["tokens_evaluated"], marked("The cat", "the end").size() - 1) << answer.reply.body;
}

TEST_F(InfillApi, EachMarkIsNeeded) {
  for (const char* missing : {"pre", "suf", "mid"}) {
    EditableModel model(story_model());
    for (const char* mark : {"pre", "suf", "mid"})
      if (std::string_view(mark) != missing)
        model.builder.set(std::string("tokenizer.ggml.fim_") + mark + "_token_id", static_cast<uint32_t>(kFimPre));
    server_.reset();
    start({.model = model.write("infill_part.gguf")});
    EXPECT_EQ(post("/infill", R"({"input_prefix":"a","input_suffix":"b"})").status, 501) << missing;
  }
}

TEST_F(InfillApi, AModelWithoutMarksRefuses) {
  start();
  expect_refused(post("/infill", R"({"input_prefix":"a","input_suffix":"b"})"), 501, "not supported");
  expect_refused(post("/v1/completions", R"({"prompt":"a","suffix":"b"})"), 400, "suffix");
}

TEST_F(InfillApi, BadFieldsAreRefused) {
  start_with_marks();
  expect_refused(post("/infill", R"({"input_suffix":"b"})"), 400, "input_prefix");
  expect_refused(post("/infill", R"({"input_prefix":"a"})"), 400, "input_suffix");
  expect_refused(post("/infill", R"({"input_prefix":"a","input_suffix":"b","prompt":[1]})"), 400, "prompt");
  expect_refused(post("/infill", R"({"input_prefix":"a","input_suffix":"b","input_extra":[5]})"), 400,
                 "input_extra[0]");
  expect_refused(post("/infill", R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"a"}]})"), 400,
                 "input_extra[0].text");
}

}  // namespace
}  // namespace tessera
