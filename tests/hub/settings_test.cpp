// Settings in the environment.
#include "tessera/hub/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/testing.h"

namespace tessera::hub {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Settings> settings_of(const Variables& variables) {
  return settings_from_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(HubSettings, CacheFoldersHaveAnOrder) {
  Variables variables = {{"LLAMA_CACHE", "/1"}, {"HF_HUB_CACHE", "/2"},   {"HUGGINGFACE_HUB_CACHE", "/3"},
                         {"HF_HOME", "/4"},     {"XDG_CACHE_HOME", "/5"}, {"HOME", "/6"}};
  const std::pair<const char*, const char*> order[] = {{"LLAMA_CACHE", "/1"},
                                                       {"HF_HUB_CACHE", "/2"},
                                                       {"HUGGINGFACE_HUB_CACHE", "/3"},
                                                       {"HF_HOME", "/4/hub"},
                                                       {"XDG_CACHE_HOME", "/5/huggingface/hub"},
                                                       {"HOME", "/6/.cache/huggingface/hub"}};
  for (const auto& [name, folder] : order) {
    EXPECT_EQ(settings_of(variables).value().cache_dir, folder);
    variables[name] = "";  // empty is absent
    if (std::string(name) != "HOME") {
      EXPECT_NE(settings_of(variables).value().cache_dir, folder);
    }
    variables.erase(name);
  }
  EXPECT_ERROR(settings_of({}), "no folder for downloads: set HF_HUB_CACHE or HOME");
}

TEST(HubSettings, EndpointsHaveAnOrder) {
  EXPECT_EQ(to_string(settings_of({{"HOME", "/x"}}).value().endpoint), "https://huggingface.co");
  EXPECT_EQ(to_string(settings_of({{"HOME", "/x"}, {"HF_ENDPOINT", "http://mirror:8080/"}}).value().endpoint),
            "http://mirror:8080");
  EXPECT_EQ(to_string(settings_of({{"HOME", "/x"}, {"HF_ENDPOINT", "http://a"}, {"MODEL_ENDPOINT", "http://b/c//"}})
                          .value()
                          .endpoint),
            "http://b/c");
  EXPECT_ERROR(settings_of({{"HOME", "/x"}, {"HF_ENDPOINT", "mirror"}}), "HF_ENDPOINT: 'mirror' is not a URL");
}

TEST(HubSettings, TokensComeFromVariablesAndFiles) {
  const std::string home = testing::temporary_path("token_home");
  std::filesystem::create_directories(home + "/.cache/huggingface");
  std::filesystem::create_directories(home + "/huggingface");
  testing::write_temporary("token_home/.cache/huggingface/token", "of_home\n");
  testing::write_temporary("token_home/huggingface/token", "of_xdg");
  testing::write_temporary("token_home/token", "  of_hf_home \n");
  testing::write_temporary("token_home/other", "of_path");
  Variables variables = {{"HF_TOKEN", " of_variable\n"},
                         {"HF_TOKEN_PATH", home + "/other"},
                         {"HF_HOME", home},
                         {"XDG_CACHE_HOME", home},
                         {"HOME", home}};
  const std::pair<const char*, const char*> order[] = {{"HF_TOKEN", "of_variable"},
                                                       {"HF_TOKEN_PATH", "of_path"},
                                                       {"HF_HOME", "of_hf_home"},
                                                       {"XDG_CACHE_HOME", "of_xdg"},
                                                       {"HOME", "of_home"}};
  for (const auto& [name, token] : order) {
    EXPECT_EQ(settings_of(variables).value().token, token);
    if (std::string(name) != "HOME") variables.erase(name);
  }
  EXPECT_EQ(settings_of({{"HOME", "/no/such"}}).value().token, "");
  EXPECT_EQ(settings_of({{"HOME", "/no/such"}, {"HF_TOKEN", " "}}).value().token, "");
  EXPECT_ERROR(settings_of({{"HOME", "/x"}, {"HF_TOKEN", "a\r\nX: y"}}), "the token for the hub has a space");
  EXPECT_ERROR(check_token("a\x7f"), "the token");
  EXPECT_ERROR(check_token("a b"), "the token");
  EXPECT_ERROR(check_token("\xc3\xa4"), "the token");
  EXPECT_OK(check_token("!hf_abc~"));
}

TEST(HubSettings, OfflineAndCertificates) {
  for (const std::string on : {"1", "true", "YES", "On"})
    EXPECT_TRUE(settings_of({{"HOME", "/x"}, {"HF_HUB_OFFLINE", on}}).value().is_offline) << on;
  for (const std::string off : {"", "0", "false", "no"})
    EXPECT_FALSE(settings_of({{"HOME", "/x"}, {"HF_HUB_OFFLINE", off}}).value().is_offline) << off;
  EXPECT_FALSE(settings_of({{"HOME", "/x"}}).value().is_offline);
  ASSERT_OK_AND_ASSIGN(const Settings settings,
                       settings_of({{"HOME", "/x"}, {"SSL_CERT_FILE", "/f"}, {"SSL_CERT_DIR", "/d"}}));
  EXPECT_EQ(settings.ca_file, "/f");
  EXPECT_EQ(settings.ca_dir, "/d");
  EXPECT_EQ(settings_of({{"HOME", "/x"}, {"SSL_CERT_FILE", "/f"}, {"CURL_CA_BUNDLE", "/b"}}).value().ca_file, "/b");
}

TEST(HubSettings, VariablesOfTheProcessAreRead) {
  ::setenv("TESSERA_TEST_OF_SETTINGS", "a", 1);
  EXPECT_EQ(process_environment("TESSERA_TEST_OF_SETTINGS"), "a");
  ::unsetenv("TESSERA_TEST_OF_SETTINGS");
  EXPECT_EQ(process_environment("TESSERA_TEST_OF_SETTINGS"), std::nullopt);
}

}  // namespace
}  // namespace tessera::hub
