// C++ functions that an addon of Node.js imports, called through declarations like its own.
#include <map>
#include <string>
#include <vector>

#include "tests/llama/llama_support.h"

enum llm_arch : int32_t {};
struct llama_grammar;
struct llama_grammar_element;
using AddonStacks = std::vector<std::vector<const llama_grammar_element*>>;

std::vector<llm_arch> llm_arch_all();
const char* llm_arch_name(llm_arch arch);
llm_arch llm_arch_from_string(const std::string& name);
bool llm_arch_is_recurrent(const llm_arch& arch);
bool llm_arch_is_hybrid(const llm_arch& arch);
llama_grammar* llama_grammar_init_impl(const llama_vocab* vocab, const char* grammar_str, const char* grammar_root,
                                       bool lazy, const char** trigger_patterns, size_t num_trigger_patterns,
                                       const llama_token* trigger_tokens, size_t num_trigger_tokens);
void llama_grammar_free_impl(llama_grammar* grammar);
void llama_grammar_accept(llama_grammar* grammar, uint32_t chr);
AddonStacks& llama_grammar_get_stacks(llama_grammar* grammar);
std::vector<uint32_t> unicode_cpts_from_utf8(const std::string& utf8);

namespace tessera {
namespace {

using namespace testing;

TEST(LlamaAddon, KnowsArchitectures) {
  const auto all = llm_arch_all();
  ASSERT_GT(all.size(), 30u);
  for (const llm_arch arch : all) EXPECT_EQ(llm_arch_from_string(llm_arch_name(arch)), arch);
  const llm_arch unknown = llm_arch_from_string("no such architecture");
  EXPECT_EQ(static_cast<size_t>(unknown), all.size());
  EXPECT_STREQ(llm_arch_name(unknown), "(unknown)");
  EXPECT_STREQ(llm_arch_name(static_cast<llm_arch>(-1)), "(unknown)");
  EXPECT_TRUE(llm_arch_is_recurrent(llm_arch_from_string("mamba")));
  EXPECT_FALSE(llm_arch_is_hybrid(llm_arch_from_string("mamba")));
  EXPECT_TRUE(llm_arch_is_hybrid(llm_arch_from_string("jamba")));
  EXPECT_FALSE(llm_arch_is_recurrent(llm_arch_from_string("llama")));
  EXPECT_FALSE(llm_arch_is_hybrid(llm_arch_from_string("llama")));
  EXPECT_FALSE(llm_arch_is_recurrent(unknown) || llm_arch_is_hybrid(unknown));
}

TEST(LlamaAddon, ReadsCodePoints) {
  EXPECT_EQ(unicode_cpts_from_utf8("aé漢😀"), (std::vector<uint32_t>{'a', 0xe9, 0x6f22, 0x1f600}));
  EXPECT_EQ(unicode_cpts_from_utf8("a\xff"), (std::vector<uint32_t>{'a', 0xfffd}));
  EXPECT_TRUE(unicode_cpts_from_utf8("").empty());
}

TEST(LlamaAddon, FollowsTextsOfAGrammar) {
  const auto init = [](const char* source) {
    return llama_grammar_init_impl(nullptr, source, "root", false, nullptr, 0, nullptr, 0);
  };
  // Whether the text can go on, and whether it is complete.
  const auto state = [](llama_grammar* grammar) {
    const AddonStacks& stacks = llama_grammar_get_stacks(grammar);
    return std::pair(std::ranges::any_of(stacks, [](const auto& stack) { return !stack.empty(); }),
                     std::ranges::any_of(stacks, [](const auto& stack) { return stack.empty(); }));
  };
  llama_grammar* grammar = init("root ::= \"é\" \"b\"*");
  ASSERT_NE(grammar, nullptr);
  EXPECT_EQ(state(grammar), std::pair(true, false));
  llama_grammar_accept(grammar, 0xe9);
  EXPECT_EQ(state(grammar), std::pair(true, true));
  llama_grammar_accept(grammar, 'b');
  EXPECT_EQ(state(grammar), std::pair(true, true));
  llama_grammar_accept(grammar, 'x');
  EXPECT_TRUE(llama_grammar_get_stacks(grammar).empty());
  llama_grammar_accept(grammar, 'b');  // no way back
  EXPECT_TRUE(llama_grammar_get_stacks(grammar).empty());
  llama_grammar_free_impl(grammar);
  grammar = init("root ::= \"a\"");
  llama_grammar_accept(grammar, 'a');
  EXPECT_EQ(state(grammar), std::pair(false, true));
  llama_grammar_free_impl(grammar);
  llama_grammar_free_impl(nullptr);
  LogLines log;
  EXPECT_EQ(init("root ::= ("), nullptr);
  EXPECT_NE(log.take().find("llama_grammar_init_impl: "), std::string::npos);
  EXPECT_EQ(init(nullptr), nullptr);
}

TEST(LlamaAddon, FollowsTextsThatAVocabularyCanWrite) {
  const LlamaModel model = load_llama(story_model());
  llama_grammar* grammar = llama_grammar_init_impl(llama_model_get_vocab(model.get()), "root ::= \"a\"", "root", false,
                                                   nullptr, 0, nullptr, 0);
  ASSERT_NE(grammar, nullptr);
  llama_grammar_free_impl(grammar);
  const LogLines log;
  EXPECT_EQ(llama_grammar_init_impl(static_cast<const llama_vocab*>(not_a_handle()), "root ::= \"a\"", "root", false,
                                    nullptr, 0, nullptr, 0),
            nullptr);
}

}  // namespace
}  // namespace tessera
