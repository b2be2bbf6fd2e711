// The bundled model: the output for a user without another model.
#include <gtest/gtest.h>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using testing::ProgramOutput;
using testing::run_program;

TEST(BundledModel, RunsWhereNoModelIsGivenAndSaysSo) {
  const ProgramOutput output = run_program({"run", "-p", "Once upon a time", "-n", "60", "--temp", "0"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("no model given: using the bundled one"), std::string::npos) << output.err;
  // At least a whole sentence.
  EXPECT_GT(output.out.size(), 100u);
  EXPECT_NE(output.out.find(". "), std::string::npos) << output.out;
}

TEST(BundledModel, ComesFromTheProgramAlone) {
  // An empty directory, and no environment.
  const ProgramOutput here = run_program({"run", "-p", "The", "-n", "8", "--temp", "0", "-q"});
  const ProgramOutput read = run_program({"run", "-p", "The", "-n", "8", "--temp", "0", "-q", "--no-mmap"});
  EXPECT_EQ(here.out, read.out);
  EXPECT_EQ(here.err, "");
  EXPECT_NE(run_program({"plan"}).out.find("weights"), std::string::npos);
}

TEST(BundledModel, OtherModelsAreStillNamed) {
  EXPECT_EQ(run_program({"run", "-m", "data/tales.gguf", "-p", "The", "-n", "8", "--temp", "0", "-q"}).out,
            run_program({"run", "-p", "The", "-n", "8", "--temp", "0", "-q"}).out);
}

/// The answer to a conversation that is written as the template of the model renders it.
ProgramOutput answer(const std::string& conversation) {
  return run_program({"run", "--special", "-p", conversation + "<|assistant|>", "-n", "250", "--temp", "0"});
}

TEST(BundledModel, HasAChatTemplateWithRolesAndAnEndOfTurn) {
  const std::string messages = testing::write_temporary("messages.json", R"([{"role": "system", "content": "Be kind."},
      {"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"},
      {"role": "user", "content": "a story please"}])");
  const ProgramOutput prompt = run_program({"template", "-m", "data/tales.gguf", "--messages", messages, "-q"});
  EXPECT_EQ(prompt.status, 0) << prompt.err;
  EXPECT_TRUE(
      prompt.out.starts_with("<|system|>Be kind.<|end|><|user|>hi<|end|><|assistant|>Hello!<|end|>"
                             "<|user|>a story please<|end|><|assistant|>"))
      << prompt.out;
}

TEST(BundledModel, AnswersInTurnAndStops) {
  const ProgramOutput hello = answer("<|user|>what can you do?<|end|>");
  EXPECT_EQ(hello.status, 0) << hello.err;
  EXPECT_NE(hello.out.find("stor"), std::string::npos) << hello.out;
  EXPECT_EQ(hello.out.find("<|"), std::string::npos) << hello.out;
  EXPECT_EQ(hello.err.find("generated 250 tokens"), std::string::npos) << hello.err;
}

TEST(BundledModel, TellsAStoryAboutTheSubjectAskedFor) {
  const ProgramOutput story = answer("<|user|>tell me a story about a fox<|end|>");
  EXPECT_NE(story.out.find("fox"), std::string::npos) << story.out;
  EXPECT_GT(story.out.size(), 150u);
  EXPECT_EQ(story.err.find("generated 250 tokens"), std::string::npos) << story.err;
}

TEST(BundledModel, AnswersAQuestionAboutTheStoryOfTheConversation) {
  const ProgramOutput name = answer(
      "<|user|>tell me a story about a fox<|end|><|assistant|>Once upon a time, there was a fox named Mila. One rainy "
      "morning, Mila went to the old mill. There, she found a silver key.<|end|><|user|>what was her name?<|end|>");
  EXPECT_NE(name.out.find("Mila"), std::string::npos) << name.out;
}

}  // namespace
}  // namespace tessera
