// Front matter of model cards, and the general keys that come from it.
#include "tessera/convert/model_card.h"

#include <gtest/gtest.h>

#include "tessera/convert/general_keys.h"
#include "tessera/gguf/split.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

using Fields = std::vector<CardField>;

Fields fields_of(const std::string& matter) {
  return read_model_card("---\n" + matter + "---\n# Title\nlicense: text\n");
}

TEST(ModelCard, MembersAreTextsOrLists) {
  EXPECT_EQ(fields_of("license: mit\ntags:\n- a\n  - b c\nlanguage: [en, 'de' , \"fr\"]\n"),
            (Fields{{"license", {"mit"}}, {"tags", {"a", "b c"}}, {"language", {"en", "de", "fr"}}}));
  EXPECT_EQ(fields_of("a: \"x: # y\" \nb: 'z' # more\nc: d # e\nf: g#h\r\n"),
            (Fields{{"a", {"x: # y"}}, {"b", {"z"}}, {"c", {"d"}}, {"f", {"g#h"}}}));
  EXPECT_EQ(fields_of("link: https://a.b/c:d\n"), (Fields{{"link", {"https://a.b/c:d"}}}));
  EXPECT_EQ(read_model_card("---\na: b\n---"), (Fields{{"a", {"b"}}}));
  EXPECT_EQ(read_model_card("--- \r\na: b\r\n---\r\n"), (Fields{{"a", {"b"}}}));
}

TEST(ModelCard, OtherLinesAreLeftOut) {
  EXPECT_EQ(fields_of("a:\nb: null\nc: ~\nd: |\n  text\ne: >-\nf: {x: 1}\ng: &x\nh: *x\ni: !t\nj: \"open\nk: # none\n"),
            Fields());
  EXPECT_EQ(
      fields_of("- first\nmodel-index:\n- name: x\n  results:\n  - task:\n      type: y\nlicense: mit\n  sub: z\nno\n"),
      (Fields{{"license", {"mit"}}}));
  EXPECT_EQ(fields_of("a: []\nb: [,x,]\nc: [y\n"), (Fields{{"b", {"x"}}, {"c", {"y"}}}));
  EXPECT_EQ(read_model_card("# Title\n---\na: b\n---\n"), Fields());
  EXPECT_EQ(read_model_card("---\na: b\n"), Fields());
  EXPECT_EQ(read_model_card(""), Fields());
}

TEST(ModelCard, LongOnesAreLeftOut) {
  std::string lines;
  for (int i = 0; i < 999; ++i) lines += "a:\n";
  EXPECT_EQ(fields_of(lines).size(), 0u);
  EXPECT_EQ(fields_of("b: c\n" + lines.substr(3)), (Fields{{"b", {"c"}}}));
  EXPECT_EQ(fields_of("b: c\n" + lines), Fields());
}

// "KEY=VALUE " each, without quotes.
std::string keys_of_card(const std::string& card) {
  const std::string folder =
      write_folder("carded", {{"model.safetensors", safetensors_of({{"a", "F32", {1}, "1234"}})}, {"README.md", card}});
  const Checkpoint checkpoint = Checkpoint::open(folder).value();
  GgufBuilder builder;
  if (const Result<> added = add_general_keys(checkpoint, "llama", builder); !added) return added.error().message();
  const auto header = builder.header().value();
  const auto model = ModelFiles::parse_header(header, "card").value();
  std::string text;
  for (const Metadata::Entry& entry : model->metadata().entries())
    text += std::string(entry.key) + "=" + to_string(entry.value) + " ";
  std::erase(text, '"');
  return text;
}

TEST(ModelCard, KeysSayWhatTheCardSays) {
  const std::string always = "general.architecture=llama general.type=model general.name=";
  EXPECT_EQ(keys_of_card("no front matter"), always + "carded ");
  EXPECT_EQ(keys_of_card("---\nlicense: \xff\n---\n"), always + "carded ");
  EXPECT_EQ(keys_of_card("---\nlicense: other\nlicense_name: own\nlicense_link: LICENSE\nmodel_name: My model\n---\n"),
            always + "My model general.license=other general.license.name=own general.license.link=LICENSE ");
  EXPECT_EQ(keys_of_card("---\npipeline_tag: chat\ntags: [x, y]\nlanguage:\n- en\n---\n"),
            always + "carded general.tags=[x, y, chat] general.languages=[en] ");
  EXPECT_EQ(keys_of_card("---\nbase_model: me/one\ndatasets:\n- plain\n- a/b/c\n---\n"),
            always +
                "carded general.base_model.count=1 general.base_model.0.name=one "
                "general.base_model.0.organization=me general.base_model.0.repo_url=https://huggingface.co/me/one "
                "general.dataset.count=2 general.dataset.0.name=plain general.dataset.1.name=a/b/c ");
}

std::string label_of(const std::vector<std::vector<int64_t>>& stacks, std::vector<int64_t> shared) {
  std::vector<ConvertedTensor> tensors = {{.name = "blk.0.attn_q.weight", .shape = std::move(shared)}};
  for (const std::vector<int64_t>& shape : stacks)
    tensors.push_back({.name = "blk.0.ffn_up_exps.weight", .shape = shape});
  return size_label(tensors);
}

TEST(SizeLabel, HasTwoDigitsAndAUnit) {
  EXPECT_EQ(label_of({}, {1'235'000'000}), "1.2B");
  EXPECT_EQ(label_of({}, {7, 1'000'000'000}), "7.0B");
  EXPECT_EQ(label_of({}, {9'440'000'000}), "9.4B");
  EXPECT_EQ(label_of({}, {9'500'000'000}), "10B");
  EXPECT_EQ(label_of({}, {70'600'000'000}), "71B");
  EXPECT_EQ(label_of({}, {1'000'000'000'000}), "1.0T");
  EXPECT_EQ(label_of({}, {360'000'000}), "360M");
  EXPECT_EQ(label_of({}, {1'000'000}), "1.0M");
  EXPECT_EQ(label_of({}, {260'000}), "260K");
  EXPECT_EQ(label_of({}, {64}), "0.1K");
}

TEST(SizeLabel, OfExpertsCountsOneOfThem) {
  EXPECT_EQ(label_of({{8, 5'600'000'000}}, {1'600'000'000}), "8x7.2B");
  EXPECT_EQ(label_of({{4, 10'000'000}, {8, 10'000'000}}, {1'000'000}), "8x16M");
  std::vector<ConvertedTensor> bias = {{.name = "blk.0.ffn_up_exps.bias", .shape = {2000}}};
  EXPECT_EQ(size_label(bias), "2.0K");
}

// Elements of packed matrices are blocks of values.
TEST(SizeLabel, CountsValues) {
  ConvertedTensor packed{.name = "a", .shape = {1000}};
  packed.parts.push_back({0, {.type = ElementType::mxfp4, .shape = {1000}}});
  EXPECT_EQ(size_label({&packed, 1}), "32K");
}

}  // namespace
}  // namespace tessera::convert
