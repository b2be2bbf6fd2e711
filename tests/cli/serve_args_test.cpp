// The embeddings and scores that a server computes, by its flags and its model.
#include "tessera/cli/serve_args.h"

#include "tests/support/engine_support.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using cli::FlagTable;
using nn::Pooling;
using testing::load_engine;
using testing::TinyEncoder;

std::shared_ptr<Engine> load_bert(bool has_head, uint32_t pooling) {
  TinyEncoder tiny("bert");
  tiny.key("pooling_type", pooling);
  if (has_head) tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  return load_engine(tiny.write("bert.gguf")).value();
}

using Flags = std::vector<std::string_view>;

std::string pooling_name(Pooling pooling) {
  for (const char* name : {"none", "mean", "cls", "last", "rank"})
    if (nn::pooling_from_name(name).value() == pooling) return name;
  return "";
}

// The pooling of the vectors, then "rank" if there are scores; or the error.
std::string use_with(const Engine& engine, const Flags& flags) {
  cli::ServeArgs args;
  FlagTable table;
  args.add_to(table);
  EXPECT_OK(cli::parse(table, flags));
  const auto use = args.embedding_use(engine);
  if (!use) return "error: " + use.error().message();
  const auto second = args.second_session(engine).value();
  EXPECT_EQ(second.has_value(), use->has_value() && engine.model().info().has_logits);
  if (!*use) return "nothing";
  const std::string vectors = (*use)->pooling ? pooling_name(*(*use)->pooling) : "";
  return vectors + ((*use)->ranks ? " rank" : "");
}

TEST(ServeArgs, AModelThatGeneratesEmbedsWithAFlag) {
  ASSERT_OK_AND_ASSIGN(const auto story, load_engine(testing::story_model()));
  EXPECT_EQ(use_with(*story, {}), "nothing");
  EXPECT_EQ(use_with(*story, {"--pooling", "cls"}), "nothing");
  EXPECT_EQ(use_with(*story, {"--embeddings"}), "mean");
  EXPECT_EQ(use_with(*story, {"--embedding", "--pooling", "last"}), "last");
  for (const Flags& flags : {Flags{"--reranking"}, Flags{"--rerank"}, Flags{"--pooling", "rank"}})
    EXPECT_NE(use_with(*story, flags).find("no rank head"), std::string::npos);
}

TEST(ServeArgs, AnEncoderEmbedsWithoutAFlag) {
  const auto bert = load_bert(false, 2);
  EXPECT_EQ(use_with(*bert, {}), "cls");
  EXPECT_EQ(use_with(*bert, {"--pooling", "none"}), "none");
  EXPECT_NE(use_with(*bert, {"--reranking"}).find("no rank head"), std::string::npos);
}

TEST(ServeArgs, AModelWithARankHeadScores) {
  const auto with_head = load_bert(true, 2), ranker = load_bert(true, 4);
  EXPECT_EQ(use_with(*with_head, {}), "cls");
  EXPECT_EQ(use_with(*with_head, {"--reranking"}), "cls rank");
  EXPECT_EQ(use_with(*ranker, {}), " rank");
  EXPECT_EQ(use_with(*ranker, {"--embeddings"}), " rank");
  EXPECT_EQ(use_with(*ranker, {"--embeddings", "--reranking", "--pooling", "mean"}), "mean rank");
}

}  // namespace
}  // namespace tessera
