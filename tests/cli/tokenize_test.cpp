// tessera tokenize and detokenize: golden ids, round trips, and hostile JSON.
#include <fstream>

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/gguf/writer.h"
#include "tessera/text/vocab.h"
#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

struct Golden {
  std::string vocab;   // a third-party vocabulary file
  std::string tokens;  // golden ids, two lists per line
};

const Golden kGolden[] = {{"models/stories260K.gguf", "tokenizers/stories260K.tokens"},
                          {"vocab/llama-spm.gguf", "tokenizers/llama-spm.tokens"},
                          {"vocab/phi-3.gguf", "tokenizers/phi-3.tokens"}};

// Parses "[1] [2,3]" as two lists.
json lists_of_line(std::string line) {
  line.replace(line.find("] ["), 2, "],");
  return json::parse("[" + line + "]");
}

TEST(Tokenize, JsonGivesTheGoldenIdsWithAndWithoutSpecialTokens) {
  const std::string strings = testing::data_path("tokenizers/strings.json");
  for (const Golden& golden : kGolden) {
    TESSERA_SHARED_OR_SKIP(vocab, golden.vocab);
    json plain = json::array(), special = json::array();
    std::ifstream lines(testing::data_path(golden.tokens));
    for (std::string line; std::getline(lines, line);) {
      const json lists = lists_of_line(line);
      plain.push_back(lists[0]);
      special.push_back(lists[1]);
    }
    const std::string input = testing::read_all(strings);
    EXPECT_EQ(json::parse(run_program({"tokenize", "-m", vocab, "--json"}, input).out), plain) << vocab;
    EXPECT_EQ(json::parse(run_program({"tokenize", "-m", vocab, "--json", "--special"}, input).out), special) << vocab;
  }
}

void expect_texts_come_back(const std::string& vocab) {
  const json texts = json::parse(testing::read_all(testing::data_path("tokenizers/strings.json")));
  const std::string ids = run_program({"tokenize", "-m", vocab, "--json"}, texts.dump()).out;
  const json back = json::parse(run_program({"detokenize", "-m", vocab, "--json"}, ids).out);
  ASSERT_EQ(back.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    if (text.find("\u2581") != std::string::npos) continue;  // these vocabularies use it for the space
    EXPECT_EQ(back[i], text) << vocab;
  }
}

TEST(Tokenize, DetokenizeGivesTheTextsBack) { expect_texts_come_back(testing::story_model()); }

TEST(Tokenize, DetokenizeGivesTheTextsBackInRealVocabularies) {
  for (const Golden& golden : kGolden) {
    TESSERA_SHARED_OR_SKIP(vocab, golden.vocab);
    expect_texts_come_back(vocab);
  }
}

TEST(Tokenize, PlainOutputIsAListThatDetokenizeReads) {
  const std::string vocab = testing::story_model();
  const std::string ids = run_program({"tokenize", "-m", vocab, "-p", "Once upon a time"}).out;
  EXPECT_EQ(ids, "[350, 342, 378, 303, 261, 426]\n");
  EXPECT_EQ(run_program({"tokenize", "-m", vocab}, "Once upon a time").out, ids);
  EXPECT_EQ(run_program({"tokenize", "-m", vocab, "--special", "-p", "Once upon a time"}).out,
            "[1, 350, 342, 378, 303, 261, 426]\n");
  EXPECT_EQ(run_program({"detokenize", "-m", vocab}, ids).out, "Once upon a time\n");
  EXPECT_EQ(run_program({"detokenize", "-m", vocab, "350,342,378", "303", "261", "426"}).out, "Once upon a time\n");
  EXPECT_EQ(run_program({"detokenize", "-m", vocab, "1", "350", "342"}).out, "Once\n");
  EXPECT_EQ(run_program({"detokenize", "-m", vocab, "--special", "1"}).out, "<s>\n");
}

TEST(Tokenize, TextOfSpecialTokensStaysTextUnlessAskedFor) {
  const std::string vocab = testing::story_model();
  EXPECT_EQ(run_program({"tokenize", "-m", vocab, "-p", "</s>"}).out.find("[2]"), std::string::npos);
  EXPECT_EQ(run_program({"tokenize", "-m", vocab, "-p", "</s>", "--special"}).out, "[1, 2]\n");
}

TEST(Tokenize, BytesThatAreNoUtf8BecomeReplacementCharacters) {
  const std::string vocab = testing::story_model();
  EXPECT_EQ(json::parse(run_program({"detokenize", "-m", vocab, "--json"}, "[[200, 350, 342]]").out),
            json::parse("[\"\\ufffd Once\"]"));
}

TEST(Tokenize, TenMegabytesOfOneCharacterTakeLinearTime) {
  const std::string vocab = testing::story_model();
  const ProgramOutput output =
      run_program({"tokenize", "-m", vocab}, std::string(testing::all_or_few(10'000'000u, 1'000'000u), 'A'));
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_LT(output.cpu_seconds, 30);  // a few seconds; a quadratic algorithm needs hours
}

// A file with a vocabulary of PLaMo alone, without <unk>. missing: a byte without a token.
std::string plamo_vocab_path(std::optional<size_t> missing = std::nullopt) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  const auto add = [&](const std::string& text, float score, text::TokenType type) {
    tokens.push_back(text);
    scores.push_back(score);
    types.push_back(static_cast<int32_t>(type));
  };
  for (size_t byte = 0; byte < 256; ++byte)
    if (byte != missing) add(fmt::format("<0x{:02X}>", byte), 0, text::TokenType::byte);
  add("A", -2, text::TokenType::normal);
  add("AA", -3, text::TokenType::normal);
  add("\u732b", -4, text::TokenType::normal);
  GgufBuilder builder;
  builder.set("general.architecture", "plamo2");
  builder.set("tokenizer.ggml.model", "plamo2");
  builder.set_array("tokenizer.ggml.tokens", tokens);
  builder.set_array("tokenizer.ggml.scores", scores);
  builder.set_array("tokenizer.ggml.token_type", types);
  const auto bytes = gguf_to_bytes(builder, {});
  EXPECT_OK(bytes);
  return testing::write_temporary("plamo.gguf", {reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

TEST(Tokenize, PlamoTextsAreCutAtLeastCost) {
  const std::string vocab = plamo_vocab_path();
  EXPECT_EQ(run_program({"tokenize", "-m", vocab, "-p", "AAA\u732b\u72ac"}).out,
            "[257, 256, 258, 231, 138, 172]\n");  // AA, A, a cat, and the bytes of a dog
  EXPECT_EQ(run_program({"detokenize", "-m", vocab, "257,256,258,231,138,172"}).out, "AAA\u732b\u72ac\n");
  expect_refusal(run_program({"tokenize", "-m", plamo_vocab_path(0x41), "-p", "A"}), 1,
                 "tokenizer.ggml.tokens: no byte token <0x41>, want all 256");
}

TEST(Tokenize, TenMegabytesOfPlamoTextTakeLinearTime) {
  const ProgramOutput output = run_program({"tokenize", "-m", plamo_vocab_path()},
                                           std::string(testing::all_or_few(10'000'000u, 1'000'000u), 'A'));
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_LT(output.cpu_seconds, 30);  // a few seconds; a quadratic algorithm needs hours
}

TEST(Tokenize, BadJsonIsRefusedWithItsPlace) {
  const std::string vocab = testing::story_model();
  const auto tokenize = [&](const std::string& input) {
    return run_program({"tokenize", "-m", vocab, "--json"}, input);
  };
  expect_refusal(tokenize(""), 1, "JSON: parse error at line 1, column 1");
  expect_refusal(tokenize("[\"a\", \"b\""), 1, "JSON: parse error at line 1, column 10");
  expect_refusal(tokenize("[\"a\"] x"), 1, "JSON: parse error at line 1, column 7");
  expect_refusal(tokenize("[\"\xff\"]"), 1, "JSON: parse error at line 1, column 3");
  expect_refusal(tokenize("[\"\\ud800\"]"), 1, "JSON: parse error at line 1");
  expect_refusal(tokenize("\"a\""), 1, "JSON: element 0: got a string, want an array of strings");
  expect_refusal(tokenize("[\"a\", 1]"), 1, "JSON: element 1: got a number, want an array of strings");
  expect_refusal(tokenize("{\"a\": 1}"), 1, "JSON: element 0: got an object");
  expect_refusal(tokenize("[[\"a\"]]"), 1, "JSON: element 0: got an array");
  expect_refusal(tokenize(std::string(1'000'000, '[')), 1, "JSON: element 0: got an array");
  expect_refusal(tokenize("[1e999]"), 1, "JSON: ");
}

TEST(Detokenize, BadInputIsRefusedWithItsPlace) {
  const std::string vocab = testing::story_model();
  const auto detokenize = [&](const std::string& input) {
    return run_program({"detokenize", "-m", vocab, "--json"}, input);
  };
  expect_refusal(detokenize("[1]"), 1, "JSON: element 0: got a number");
  expect_refusal(detokenize("[[1], [2, -1]]"), 1, "JSON: element 1 of list 1: got a negative number");
  expect_refusal(detokenize("[[1.5]]"), 1, "JSON: element 0 of list 0: got a number that is not whole");
  expect_refusal(detokenize("[[9223372036854775808]]"), 1, "token 9223372036854775808, want 0 to 2147483647");
  expect_refusal(detokenize("[[1], [512]]"), 1, "list 1: token id 512");
  expect_refusal(detokenize("[[[1]]]"), 1, "got an array");
  expect_refusal(run_program({"detokenize", "-m", vocab, "1", "-1"}), 2, "token 1: -1 is out of range");
  expect_refusal(run_program({"detokenize", "-m", vocab}, "abc"), 1, "token 0: 'abc' is not a whole number");
}

}  // namespace
}  // namespace tessera
