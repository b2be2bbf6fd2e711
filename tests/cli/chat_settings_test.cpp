// Settings of a chat, by name.
#include "tessera/cli/chat_settings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

TEST(ChatSettings, NamesAreThoseOfFlags) {
  ChatSettings settings;
  for (const std::string_view name : {"top-k", "--top-k", "top_k"}) {
    ASSERT_OK(settings.set(name, "7"));
    EXPECT_EQ(settings.sampling.params.top_k, 7);
    ASSERT_OK(settings.set(name, "40"));
  }
  ASSERT_OK(settings.set("temperature", "0.25"));  // an alias
  EXPECT_EQ(settings.sampling.params.temp, 0.25f);
  ASSERT_OK_AND_ASSIGN(const ShownSetting temp, settings.get("--temperature"));
  EXPECT_EQ(temp.name, "temp");
  EXPECT_EQ(temp.value, "0.25");
  ASSERT_OK(settings.set("n", "12"));
  EXPECT_EQ(settings.n_predict, 12);
}

TEST(ChatSettings, SwitchesAreOnOrOff) {
  ChatSettings settings;
  ASSERT_OK(settings.set("ignore-eos", "on"));
  EXPECT_TRUE(settings.sampling.ignore_eos);
  ASSERT_OK(settings.set("ignore-eos", "off"));
  EXPECT_FALSE(settings.sampling.ignore_eos);
  ASSERT_OK(settings.set("context-shift", "off"));
  EXPECT_FALSE(settings.drops_turns);
  ASSERT_OK(settings.set("verbose", "on"));
  EXPECT_TRUE(settings.is_verbose);
  EXPECT_FALSE(settings.set("verbose", "yes"));
}

TEST(ChatSettings, AnErrorChangesNothing) {
  ChatSettings settings;
  ASSERT_OK(settings.set("temp", "0.5"));
  const auto refused = [&](std::string_view name, std::string_view value, ErrorCode code, std::string_view part) {
    const Result<> set = settings.set(name, value);
    ASSERT_FALSE(set) << name;
    EXPECT_EQ(set.error().code(), code);
    EXPECT_NE(set.error().message().find(part), std::string::npos) << set.error().message();
  };
  refused("temp", "hot", ErrorCode::invalid_argument, "temp: ");
  refused("samplers", "nonsense", ErrorCode::invalid_argument, "nonsense");
  refused("tmp", "1", ErrorCode::not_found, "did you mean temp?");
  refused("what is this", "1", ErrorCode::not_found, "/set lists them");
  refused("", "1", ErrorCode::not_found, "unknown setting");
  refused("think", "maybe", ErrorCode::invalid_argument, "auto, on, off, hide");
  EXPECT_EQ(settings.sampling.params.temp, 0.5f);
  EXPECT_EQ(settings.changed().size(), 1u);
}

TEST(ChatSettings, ListsEveryFlagOnceAndNothingIsChangedAtFirst) {
  const ChatSettings settings;
  FlagTable table;
  ChatSettings copy;
  copy.add_to(table);
  const std::vector<ShownSetting> all = settings.all();
  EXPECT_EQ(all.size(), table.flags.size());  // without --no-context-shift, with verbose
  EXPECT_TRUE(settings.changed().empty());
  for (const ShownSetting& setting : all) EXPECT_NE(setting.help, "") << setting.name;
}

TEST(ChatSettings, ChangedSettingsMakeAnotherOneTheSame) {
  ChatSettings settings;
  for (const auto& [name, value] :
       {std::pair("temp", "0.3"), std::pair("samplers", "top_k;temperature"), std::pair("think", "hide"),
        std::pair("seed", "9"), std::pair("verbose", "on"), std::pair("dry-sequence-breaker", "x")})
    ASSERT_OK(settings.set(name, value));
  ChatSettings other;
  const std::vector<ShownSetting> changed = settings.changed();
  EXPECT_EQ(changed.size(), 6u);
  for (const ShownSetting& setting : changed) ASSERT_OK(other.set(setting.name, setting.value));
  EXPECT_EQ(other.sampling.params.temp, 0.3f);
  EXPECT_EQ(other.sampling.params.order, settings.sampling.params.order);
  EXPECT_EQ(other.sampling.params.dry_sequence_breakers, std::vector<std::string>{"x"});
  EXPECT_EQ(other.thinking, Thinking::hide);
  EXPECT_TRUE(other.is_verbose);
}

TEST(ChatSettings, BecomeTheOptionsOfAReply) {
  ChatSettings settings;
  ChatOptions options;
  settings.apply_to(options);
  EXPECT_GE(options.sampling.seed, 0);  // random
  EXPECT_EQ(options.enable_thinking, std::nullopt);
  EXPECT_EQ(options.reasoning_effort, std::nullopt);
  EXPECT_TRUE(options.drops_turns);
  for (const auto& [name, value] :
       {std::pair("seed", "4"), std::pair("predict", "7"), std::pair("think", "off"), std::pair("ignore-eos", "on"),
        std::pair("reasoning-effort", "low"), std::pair("context-shift", "off")})
    ASSERT_OK(settings.set(name, value));
  settings.apply_to(options);
  EXPECT_EQ(options.sampling.seed, 4);
  EXPECT_EQ(options.reply.seed, 4u);
  EXPECT_EQ(options.generate.n_predict, 7);
  EXPECT_TRUE(options.generate.ignore_end);
  EXPECT_EQ(options.enable_thinking, false);
  EXPECT_EQ(options.reasoning_effort, "low");
  EXPECT_FALSE(options.drops_turns);
  ASSERT_OK(settings.set("think", "hide"));
  settings.apply_to(options);
  EXPECT_EQ(options.enable_thinking, true);
}

}  // namespace
}  // namespace tessera::cli
