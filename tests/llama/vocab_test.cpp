// Vocabularies, tokens and chat templates of llama.h.
#include <nlohmann/json.hpp>

#include "tessera/text/chat/builtin_templates.h"
#include "tests/llama/llama_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using namespace testing;

class LlamaVocab : public ::testing::Test {
 protected:
  std::string piece(llama_token token, int32_t lstrip, bool special, int32_t room = 64) const {
    char text[64];
    const int32_t n = llama_token_to_piece(vocab_, token, text, room, lstrip, special);
    return n < 0 ? std::to_string(n) : std::string(text, static_cast<size_t>(n));
  }
  std::string detokenized(std::vector<llama_token> tokens, bool remove_special, bool unparse_special) const {
    char text[200];
    const int32_t n = llama_detokenize(vocab_, tokens.data(), static_cast<int32_t>(tokens.size()), text, sizeof text,
                                       remove_special, unparse_special);
    return n < 0 ? std::to_string(n) : std::string(text, static_cast<size_t>(n));
  }

  LlamaModel model_ = load_llama(story_model());
  const llama_vocab* vocab_ = llama_model_get_vocab(model_.get());
};

TEST_F(LlamaVocab, DescribesItsTokens) {
  EXPECT_EQ(llama_vocab_type(vocab_), 1);
  EXPECT_EQ(llama_vocab_n_tokens(vocab_), 512);
  EXPECT_EQ(llama_n_vocab(vocab_), 512);
  EXPECT_STREQ(llama_vocab_get_text(vocab_, 1), "<s>");
  EXPECT_STREQ(llama_token_get_text(vocab_, 2), "</s>");
  EXPECT_STREQ(llama_vocab_get_text(vocab_, 13), "<0x0A>");
  EXPECT_EQ(llama_vocab_get_score(vocab_, 1), 0);
  EXPECT_LT(llama_vocab_get_score(vocab_, 300), 0);
  EXPECT_EQ(llama_token_get_score(vocab_, 300), llama_vocab_get_score(vocab_, 300));
  const std::pair<llama_token, int32_t> attributes[] = {{0, 1}, {1, 8}, {13, 32}, {300, 4}};
  for (const auto& [token, attribute] : attributes) {
    EXPECT_EQ(llama_vocab_get_attr(vocab_, token), attribute) << token;
    EXPECT_EQ(llama_token_get_attr(vocab_, token), attribute) << token;
  }
  // A token of the program that ends texts is a control token as well.
  EditableModel edited{story_model()};
  std::vector<int32_t> types(512, 1);
  types[2] = types[7] = 4;
  edited.builder.set_array("tokenizer.ggml.token_type", types);
  const LlamaModel model = load_llama(edited.write("types.gguf"));
  EXPECT_EQ(llama_vocab_get_attr(llama_model_get_vocab(model.get()), 2), 8 + 16);
  EXPECT_EQ(llama_vocab_get_attr(llama_model_get_vocab(model.get()), 7), 16);
  EXPECT_TRUE(llama_vocab_is_eog(vocab_, 2) && llama_token_is_eog(vocab_, 2));
  EXPECT_FALSE(llama_vocab_is_eog(vocab_, 1) || llama_vocab_is_eog(vocab_, -1) || llama_vocab_is_eog(vocab_, 512));
  EXPECT_TRUE(llama_vocab_is_control(vocab_, 1) && llama_token_is_control(vocab_, 1));
  EXPECT_FALSE(llama_vocab_is_control(vocab_, 300));
}

TEST_F(LlamaVocab, HasSpecialTokens) {
  EXPECT_EQ(llama_vocab_bos(vocab_), 1);
  EXPECT_EQ(llama_token_bos(vocab_), 1);
  EXPECT_EQ(llama_token_cls(vocab_), 1);
  EXPECT_EQ(llama_vocab_cls(vocab_), 1);
  EXPECT_EQ(llama_vocab_eos(vocab_), 2);
  EXPECT_EQ(llama_token_eos(vocab_), 2);
  EXPECT_EQ(llama_vocab_nl(vocab_), 13);
  EXPECT_EQ(llama_token_nl(vocab_), 13);
  using Function = llama_token (*)(const llama_vocab*);
  const Function absent[] = {llama_vocab_eot,     llama_vocab_sep,     llama_vocab_pad,     llama_vocab_mask,
                             llama_vocab_fim_pre, llama_vocab_fim_suf, llama_vocab_fim_mid, llama_vocab_fim_pad,
                             llama_vocab_fim_rep, llama_vocab_fim_sep, llama_token_eot,     llama_token_sep,
                             llama_token_pad,     llama_token_fim_pre, llama_token_fim_suf, llama_token_fim_mid,
                             llama_token_fim_pad, llama_token_fim_rep, llama_token_fim_sep};
  for (const Function function : absent) EXPECT_EQ(function(vocab_), -1);
  EXPECT_TRUE(llama_vocab_get_add_bos(vocab_) && llama_add_bos_token(vocab_));
  EXPECT_FALSE(llama_vocab_get_add_eos(vocab_) || llama_add_eos_token(vocab_) || llama_vocab_get_add_sep(vocab_));
  int32_t n = 5;
  EXPECT_EQ(llama_vocab_get_suppress_tokens(vocab_, &n), nullptr);
  EXPECT_EQ(n, 0);
  EXPECT_EQ(llama_vocab_get_suppress_tokens(vocab_, nullptr), nullptr);
}

TEST_F(LlamaVocab, FindsSpecialTokensByTheirTexts) {
  struct Expected {
    const char* file;
    llama_token eot, nl, fim_pre, fim_suf, fim_mid, fim_pad;
    bool add_sep;
    int32_t type;
  };
  const Expected all[] = {
      {"bert-bge", -1, 0, -1, -1, -1, 0, true, 3},    {"deepseek-llm", 100001, 185, -1, -1, -1, -1, false, 2},
      {"falcon", 11, 193, -1, -1, -1, -1, false, 2},  {"gpt-2", 50256, 198, -1, -1, -1, -1, false, 2},
      {"phi-3", 32007, 13, -1, -1, -1, -1, false, 1}, {"starcoder", 0, 222, 1, 3, 2, 4, false, 2}};
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  for (const Expected& want : all) {
    TESSERA_SHARED_OR_SKIP(path, std::string("vocab/") + want.file + ".gguf");
    const LlamaModel model = load_llama(path, params);
    ASSERT_NE(model, nullptr) << want.file;
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    EXPECT_EQ(llama_vocab_eot(vocab), want.eot) << want.file;
    EXPECT_EQ(llama_vocab_nl(vocab), want.nl) << want.file;
    EXPECT_EQ(llama_vocab_fim_pre(vocab), want.fim_pre) << want.file;
    EXPECT_EQ(llama_vocab_fim_suf(vocab), want.fim_suf) << want.file;
    EXPECT_EQ(llama_vocab_fim_mid(vocab), want.fim_mid) << want.file;
    EXPECT_EQ(llama_vocab_fim_pad(vocab), want.fim_pad) << want.file;
    EXPECT_EQ(llama_vocab_get_add_sep(vocab), want.add_sep) << want.file;
    EXPECT_EQ(llama_vocab_type(vocab), want.type) << want.file;
    EXPECT_EQ(llama_vocab_is_eog(vocab, want.fim_pad), want.fim_pad >= 0) << want.file;
    EXPECT_FALSE(llama_vocab_is_eog(vocab, want.fim_pre)) << want.file;
  }
}

TEST_F(LlamaVocab, TokenizesIntoTheRoomThereIs) {
  const std::string text = "Hello world";
  const std::vector<llama_token> want = {352, 459, 282, 462, 264, 293, 314};
  EXPECT_EQ(tokenize(model_.get(), text, false), want);
  llama_token tokens[8] = {};
  const auto run = [&](llama_token* to, int32_t room, bool special) {
    return llama_tokenize(vocab_, text.data(), static_cast<int32_t>(text.size()), to, room, special, false);
  };
  EXPECT_EQ(run(tokens, 7, false), 7);
  EXPECT_EQ(run(tokens, 6, false), -7);
  EXPECT_EQ(run(nullptr, 0, false), -7);
  EXPECT_EQ(run(nullptr, 8, true), -8);
  EXPECT_EQ(run(tokens, 8, true), 8);
  EXPECT_EQ(tokens[0], 1);
  EXPECT_EQ(llama_tokenize(vocab_, "", 0, tokens, 8, true, false), 1);
  EXPECT_EQ(llama_tokenize(vocab_, nullptr, 0, tokens, 8, false, false), 0);
  EXPECT_EQ(llama_tokenize(vocab_, "<s>x</s>", 8, tokens, 8, false, true), 4);
  EXPECT_EQ(tokens[0], 1);
  EXPECT_EQ(tokens[3], 2);
  LogLines log;
  EXPECT_EQ(llama_tokenize(vocab_, text.data(), -1, tokens, 8, false, false), INT32_MIN);
  EXPECT_EQ(llama_tokenize(vocab_, nullptr, 3, tokens, 8, false, false), INT32_MIN);
}

// The expected texts are those of the original.
TEST_F(LlamaVocab, DetokenizesLikeTheOriginal) {
  const std::vector<llama_token> plain = {352, 459, 282, 462, 264, 293, 314},
                                 with_bos = {1, 352, 459, 282, 462, 264, 293, 314};
  for (const bool remove : {false, true})
    for (const bool unparse : {false, true}) EXPECT_EQ(detokenized(plain, remove, unparse), "Hello world");
  EXPECT_EQ(detokenized(with_bos, false, false), " Hello world");
  EXPECT_EQ(detokenized(with_bos, false, true), "<s> Hello world");
  EXPECT_EQ(detokenized(with_bos, true, false), " Hello world");
  EXPECT_EQ(detokenized(with_bos, true, true), " Hello world");
  EXPECT_EQ(detokenized({1, 458, 493, 2}, true, true), " x</s>");
  EXPECT_EQ(detokenized({}, false, false), "");
  char text[4];
  EXPECT_EQ(llama_detokenize(vocab_, plain.data(), 7, text, 4, false, false), -11);
  EXPECT_EQ(llama_detokenize(vocab_, plain.data(), 7, nullptr, 0, false, false), -11);
  const LogLines log;
  EXPECT_EQ(llama_detokenize(vocab_, nullptr, 2, text, 4, false, false), 0);
  EXPECT_EQ(llama_detokenize(vocab_, plain.data(), -1, text, 4, false, false), 0);
}

TEST_F(LlamaVocab, GivesPiecesOfTokens) {
  EXPECT_EQ(piece(352, 0, false), " H");
  EXPECT_EQ(piece(352, 1, false), "H");
  EXPECT_EQ(piece(352, 5, false), "H");
  EXPECT_EQ(piece(352, -1, false), " H");
  EXPECT_EQ(piece(458, 1, false), "");
  EXPECT_EQ(piece(1, 0, false), "");
  EXPECT_EQ(piece(1, 0, true), "<s>");
  EXPECT_EQ(piece(13, 0, false), "\n");
  EXPECT_EQ(piece(352, 0, false, 1), "-2");
  EXPECT_EQ(piece(352, 0, false, -5), "-2");
  LogLines log;
  EXPECT_EQ(piece(512, 0, false), "");
  EXPECT_EQ(log.take(), "llama_token_to_piece: token 512, there are 512\n");
  EXPECT_EQ(llama_vocab_get_text(vocab_, -1), nullptr);
  EXPECT_EQ(llama_vocab_get_score(vocab_, 512), 0);
  EXPECT_EQ(llama_vocab_get_attr(vocab_, 512), 0);
  EXPECT_FALSE(llama_vocab_is_control(vocab_, 512));
}

// --- chat templates

class LlamaChat : public ::testing::Test {
 protected:
  static int32_t apply(const char* source, std::string& to, bool add_assistant = true, int32_t room = 1000) {
    to.assign(1000, '#');
    const int32_t n = llama_chat_apply_template(source, kMessages, 2, add_assistant, to.data(), room);
    if (n >= 0 && n < room) to.resize(static_cast<size_t>(n));
    return n;
  }
  static constexpr llama_chat_message kMessages[] = {{"system", "Be kind."}, {"user", "Hi"}};
  static constexpr const char* kPrompt =
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
};

TEST_F(LlamaChat, RendersTemplatesByNameAndBySource) {
  std::string text;
  EXPECT_EQ(apply("chatml", text), static_cast<int32_t>(std::string(kPrompt).size()));
  EXPECT_EQ(text, kPrompt);
  apply(nullptr, text);
  EXPECT_EQ(text, kPrompt);
  apply("{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}",
        text);
  EXPECT_EQ(text, "[system:Be kind.][user:Hi]>");
  apply("{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}", text, false);
  EXPECT_EQ(text, "Be kind.Hi");
}

TEST_F(LlamaChat, CutsAtTheRoom) {
  std::string text;
  const auto n = static_cast<int32_t>(std::string(kPrompt).size());
  EXPECT_EQ(apply("chatml", text, true, 10), n);
  EXPECT_EQ(text.substr(0, 11), std::string(kPrompt).substr(0, 10) + "#");
  EXPECT_EQ(apply("chatml", text, true, n + 1), n);
  EXPECT_EQ(llama_chat_apply_template("chatml", kMessages, 2, true, nullptr, 0), n);
}

TEST_F(LlamaChat, RefusesWhatItCannotRender) {
  LogLines log;
  std::string text;
  EXPECT_EQ(apply("no such template", text), -1);
  EXPECT_NE(log.take().find("tmpl: neither a template nor the name of one: 'no such template'"), std::string::npos);
  EXPECT_EQ(apply("{% if %}", text), -1);
  EXPECT_NE(log.take().find("llama_chat_apply_template: tmpl: "), std::string::npos);
  EXPECT_EQ(apply("{{ raise_exception('no') }}", text), -1);
  EXPECT_EQ(llama_chat_apply_template("chatml", nullptr, 1, true, text.data(), 10), -1);
  const llama_chat_message without_role{nullptr, "x"}, without_content{"user", nullptr};
  EXPECT_EQ(llama_chat_apply_template("chatml", &without_role, 1, true, text.data(), 10), -1);
  EXPECT_EQ(llama_chat_apply_template("chatml", &without_content, 1, true, text.data(), 10), -1);
}

TEST_F(LlamaChat, ListsItsTemplates) {
  const auto want = text::builtin_template_names();
  std::vector<const char*> names(want.size() + 1);
  EXPECT_EQ(llama_chat_builtin_templates(names.data(), names.size()), static_cast<int32_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(std::string_view(names[i]), want[i]);
  EXPECT_EQ(names.back(), nullptr);
  names.assign(3, nullptr);
  EXPECT_EQ(llama_chat_builtin_templates(names.data(), 2), static_cast<int32_t>(want.size()));
  EXPECT_EQ(names[2], nullptr);
  EXPECT_EQ(llama_chat_builtin_templates(nullptr, 5), static_cast<int32_t>(want.size()));
}

}  // namespace
}  // namespace tessera
