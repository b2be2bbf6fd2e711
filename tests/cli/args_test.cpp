// The table of flags: valid and refused command lines, and parsing of numbers and names.
#include "tessera/cli/args.h"

#include <clocale>
#include <cstdlib>
#include <locale>

#include "tessera/cli/option_flags.h"
#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

struct Parsed {
  int32_t count = 0;
  float real = 0;
  bool on = false;
  std::string text;
  std::vector<std::string> positional;

  FlagTable table() {
    FlagTable table;
    table.common("--count -c -cnt", "N", "", set_integer(count, 0, 100), "");
    table.common("--real -r", "X", "", set_real(real, -10.0f, 10.0f), "");
    table.common("--switch-it -s", "", "", set_switch(on));
    table.common("--text", "T", "", set_string(text));
    return table;
  }
  Result<> parse(std::vector<std::string_view> args) { return cli::parse(table(), args); }
  Result<> parse_with_positional(std::vector<std::string_view> args) {
    FlagTable with = table();
    with.add_positional = [this](std::string_view arg) -> Result<> {
      positional.emplace_back(arg);
      return {};
    };
    return cli::parse(with, args);
  }
};

TEST(Args, SetsFlagsByNameAliasAndEqualsSign) {
  Parsed p;
  ASSERT_OK(p.parse({"-cnt", "7", "--real=-2.5", "-s", "--text", ""}));
  EXPECT_EQ(p.count, 7);
  EXPECT_EQ(p.real, -2.5f);
  EXPECT_TRUE(p.on);
  EXPECT_EQ(p.text, "");
}

TEST(Args, LastOfTwoWins) {
  Parsed p;
  ASSERT_OK(p.parse({"-c", "1", "--count", "2"}));
  EXPECT_EQ(p.count, 2);
}

TEST(Args, ValueMayBeginWithADash) {
  Parsed p;
  ASSERT_OK(p.parse({"--text", "--- no flag", "-r", "-.5"}));
  EXPECT_EQ(p.text, "--- no flag");
  EXPECT_EQ(p.real, -0.5f);
}

TEST(Args, FlagInPlaceOfAValueIsRefusedUnlessAssigned) {
  Parsed p;
  EXPECT_ERROR(p.parse({"--text", "-c", "5"}), "--text wants a value: T, got the flag -c");
  ASSERT_OK(p.parse({"--text=-c"}));
  EXPECT_EQ(p.text, "-c");
}

TEST(Args, MissingValueIsRefused) { EXPECT_ERROR(Parsed().parse({"--count"}), "--count wants a value: N"); }

TEST(Args, SwitchTakesNoValue) { EXPECT_ERROR(Parsed().parse({"--switch-it=1"}), "takes no value"); }

TEST(Args, UnknownFlagNamesTheNearest) {
  EXPECT_ERROR(Parsed().parse({"--cuont", "1"}), "unknown flag --cuont; did you mean --count?");
  EXPECT_ERROR(Parsed().parse({"--entirely-different"}), "unknown flag --entirely-different (--help-all lists them)");
}

TEST(Args, PositionalArgumentsGoToTheirTakerAndAreRefusedWithoutOne) {
  Parsed p;
  ASSERT_OK(p.parse_with_positional({"a", "-5", "--", "-c", "-"}));
  EXPECT_EQ(p.positional, (std::vector<std::string>{"a", "-5", "-c", "-"}));
  EXPECT_ERROR(p.parse({"model.gguf"}), "unexpected argument 'model.gguf'");
}

TEST(Args, EnvironmentSetsWhatTheCommandLineDoesNot) {
  ::setenv("TESSERA_COUNT", "5", 1);
  ::setenv("TESSERA_SWITCH_IT", "1", 1);
  Parsed by_environment, by_both;
  EXPECT_OK(by_environment.parse({}));
  EXPECT_OK(by_both.parse({"-c", "6"}));
  ::setenv("TESSERA_COUNT", "x", 1);
  EXPECT_ERROR(Parsed().parse({}), "TESSERA_COUNT: 'x' is not a whole number");
  ::unsetenv("TESSERA_COUNT");
  ::setenv("TESSERA_SWITCH_IT", "maybe", 1);
  EXPECT_ERROR(Parsed().parse({}), "TESSERA_SWITCH_IT=maybe: want 0 or 1");
  ::unsetenv("TESSERA_SWITCH_IT");
  EXPECT_EQ(by_environment.count, 5);
  EXPECT_TRUE(by_environment.on);
  EXPECT_EQ(by_both.count, 6);
}

TEST(Args, TheFirstVariableThatIsSetCounts) {
  bool is_off = false;
  int64_t n = 0;
  FlagTable table;
  table.rare("--n", "N", "", set_integer(n, 0, 100));
  table.rare("--no-it", "", "", set_switch(is_off));
  table.at("--n").environment = {{.name = "OTHER_N"}, {.name = "THIRD_N"}};
  table.at("--no-it").environment = {{.name = "OTHER_IT", .is_inverted = true}};
  ::setenv("OTHER_N", "7", 1);
  ::setenv("THIRD_N", "8", 1);
  ::setenv("OTHER_IT", "on", 1);
  EXPECT_OK(parse(table, {}));
  EXPECT_EQ(n, 7);
  EXPECT_FALSE(is_off);
  ::setenv("TESSERA_N", "9", 1);
  ::setenv("OTHER_IT", "disabled", 1);
  EXPECT_OK(parse(table, {}));
  EXPECT_EQ(n, 9);
  EXPECT_TRUE(is_off);
  for (const char* name : {"OTHER_N", "THIRD_N", "OTHER_IT", "TESSERA_N"}) ::unsetenv(name);
}

TEST(Args, LongFlagsMayHaveUnderscores) {
  Parsed p;
  EXPECT_OK(p.parse({"--switch_it"}));
  EXPECT_TRUE(p.on);
  EXPECT_ERROR(p.parse({"-switch_it"}), "unknown flag");
}

TEST(Args, EnvironmentNameIsTheFlagInCapitals) {
  EXPECT_EQ(environment_name("--ctx-size"), "TESSERA_CTX_SIZE");
  EXPECT_EQ(environment_name("--top-k"), "TESSERA_TOP_K");
}

TEST(Args, NearestAllowsTypingErrorsOnly) {
  const std::vector<std::string_view> known = {"run", "logits", "inspect"};
  EXPECT_EQ(nearest("rnu", known), "run");  // swapped neighbours are one edit
  EXPECT_EQ(nearest("--tmep", std::vector<std::string_view>{"--keep", "--temp"}), "--temp");
  EXPECT_EQ(nearest("inspct", known), "inspect");
  EXPECT_EQ(nearest("quantize", known), "");
}

TEST(Args, IntegersAreWholeAndInRange) {
  EXPECT_EQ(parse_integer("-5", -5, 5).value(), -5);
  EXPECT_ERROR(parse_integer("6", -5, 5), "6 is out of range, want -5 to 5");
  EXPECT_ERROR(parse_integer("99999999999999999999", 0, 5), "out of range");
  for (const std::string_view bad : {"", " 1", "1 ", "1.5", "0x10", "+1", "1e3", "one"})
    EXPECT_ERROR(parse_integer(bad, -5, 500), "is not a whole number");
}

TEST(Args, RealsAreFiniteAndInRange) {
  EXPECT_EQ(parse_real("1e-1", 0, 1).value(), 0.1f);
  EXPECT_ERROR(parse_real("1e9", 0, 1), "out of range");
  EXPECT_ERROR(parse_real("nan", 0, 1), "out of range");
  EXPECT_ERROR(parse_real("inf", 0, 1), "out of range");
  for (const std::string_view bad : {"", "1,5", "0.5x", "1e999"})
    EXPECT_ERROR(parse_real(bad, 0, 1), "is not a number");
}

TEST(Args, DecimalPointIsAPointInEveryLocale) {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Comma));
  const std::string c_before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "tr_TR.UTF-8"})
    if (std::setlocale(LC_ALL, name) != nullptr) break;
  EXPECT_EQ(parse_real("0.5", 0, 1).value(), 0.5f);
  EXPECT_ERROR(parse_real("0,5", 0, 1), "is not a number");
  EXPECT_EQ(environment_name("--min-p"), "TESSERA_MIN_P");  // the capital i differs in tr_TR
  std::setlocale(LC_ALL, c_before.c_str());
  std::locale::global(before);
}

TEST(Args, SizesHaveBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("12G").value(), uint64_t{12} << 30);
  EXPECT_EQ(parse_bytes("512M").value(), uint64_t{512} << 20);
  EXPECT_EQ(parse_bytes("1.5GiB").value(), uint64_t{3} << 29);
  EXPECT_EQ(parse_bytes("16GB").value(), 16'000'000'000u);
  EXPECT_EQ(parse_bytes("10B").value(), 10u);
  for (const std::string_view bad : {"", "G", "12X", "12 G", "12g", "12GiBs", "nan", "infG", "1,5G", "0x10"})
    EXPECT_ERROR(parse_bytes(bad), "is not a size");
  for (const std::string_view bad : {"0", "-1G", "0.1", "1e30", "99999999T"})
    EXPECT_ERROR(parse_bytes(bad), "out of range");
}

TEST(Args, IdsAreSeparatedByCommasSpacesOrBoth) {
  const std::vector<int32_t> ids = {1, 22, 333};
  for (const std::string_view text : {"1,22,333", "1 22\n333\n", "[1, 22, 333]", " [ 1 ,22,333 ] "})
    EXPECT_EQ(parse_ids(text).value(), ids) << text;
  EXPECT_TRUE(parse_ids("[]").value().empty());
  EXPECT_TRUE(parse_ids(" ").value().empty());
  EXPECT_ERROR(parse_ids("1,-2"), "token 1: -2 is out of range");
  EXPECT_ERROR(parse_ids("1,2147483648"), "token 1: 2147483648 is out of range");
  EXPECT_ERROR(parse_ids("1,,2"), "token 1: '' is not a whole number");
  EXPECT_ERROR(parse_ids("1,"), "nothing follows the comma");
  EXPECT_ERROR(parse_ids("[1, 2"), "'[1' is not a whole number");
}

TEST(FlagTable, DefaultsAreThoseOfTheTargets) {
  int64_t count = 7;
  float share = 0.05f;
  std::string text = "abc";
  bool on = true, is_given = false;
  FlagTable table;
  table.common("--count -c -cnt", "N", "how many", set_integer(count, 0, 100));
  table.rare("--share", "X", "how much", set_real(share, 0, 1));
  table.rare("--text", "T", "", set_string(text));
  table.rare("--off", "", "", set_switch(on, false));
  table.rare("--other", "N", "", noting(is_given, set_integer(count, 0, 100)), "as --count says");
  EXPECT_EQ(table.flags[0].name, "--count");
  EXPECT_EQ(table.flags[0].aliases, (std::vector<std::string>{"-c", "-cnt"}));
  EXPECT_EQ(table.flags[0].shown, Shown::always);
  EXPECT_EQ(table.flags[1].shown, Shown::with_all);
  EXPECT_TRUE(table.flags[1].aliases.empty());
  for (const auto& [name, text_of_default] : {std::pair<std::string, std::string>{"--count", "7"},
                                              {"--share", "0.05"},
                                              {"--text", "abc"},
                                              {"--off", ""},
                                              {"--other", "as --count says"}})
    EXPECT_EQ(table.at(name).default_text, text_of_default) << name;
  const std::vector<std::string_view> args = {"--count", "8"}, more = {"--other", "9"};
  ASSERT_OK(parse(table, args));
  EXPECT_FALSE(is_given);
  ASSERT_OK(parse(table, more));
  EXPECT_TRUE(is_given);
  EXPECT_EQ(count, 9);
}

TEST(OptionFlags, MessagesNameTheFlagsOfOptions) {
  EXPECT_EQ(with_flag_names("600 tokens, the context holds 512 (option n_ctx sets it)"),
            "600 tokens, the context holds 512 (-c sets it)");
  EXPECT_EQ(with_flag_names("option n_gpu_layers 3 option schedule.peak, option n_keep"), "-ngl 3 --lr, --keep");
  for (const std::string_view same : {"", "option ", "option n_ctxx", "an option", "n_ctx", "unknown option of"})
    EXPECT_EQ(with_flag_names(same), same);
}

}  // namespace
}  // namespace tessera::cli
