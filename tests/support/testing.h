// Helpers common to all tests: test data, results, temporary files, the program itself.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::testing {

/// Whether tests run all their cases: yes, but not under sanitizers, where a case takes 10 to 30 times as long. There
/// TESSERA_TEST_FULL=1 asks for all of them; scripts/slow_checks.json says when that is done.
bool runs_all_cases();

/// `all` if tests run all their cases, else `few`: how often a test repeats something.
template <class T>
T all_or_few(T all, T few) {
  return runs_all_cases() ? all : few;
}

/// The path of a file or folder of tests/data: data_path("quants/q4_0.q"). A missing one fails the running test.
std::string data_path(const std::string& relative);

/// The trained model of tests/data: a llama of 5 layers, width 64 and 512 tokens, which tells small tales.
std::string story_model();

/// Text of the kind that story_model() was trained on.
std::string story_text();

/// The path of a file of other people's under TESSERA_SHARED (default ../shared from the project's root), or nothing
/// where it is absent: then the test skips.
std::optional<std::string> shared_path(const std::string& relative);

/// The project's root.
std::string source_dir();

/// A directory of this test process's own, removed at its end.
const std::filesystem::path& temporary_dir();

/// The path of a file under temporary_dir(), which need not exist.
std::string temporary_path(const std::string& name);

/// The folders with the example plugins (examples/backend) and with those of tests/backend/plugins.
std::string example_plugins_dir();
std::string test_plugins_dir();

/// Writes bytes to a file under temporary_dir() and returns its path.
std::string write_temporary(const std::string& name, const std::string& bytes);

/// The whole file, or a test failure and "".
std::string read_all(const std::string& path);

struct ProgramOutput {
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
  double seconds = 0;
  double cpu_seconds = 0;  // of its own: what a bound on time can be put on while other programs run
};

/// The built `tessera`.
std::string program_path();

/// This process's environment without TESSERA_ variables (but TESSERA_ISA), on the CPU, and with `env`, whose entries
/// win.
std::vector<std::string> program_environment(const std::vector<std::string>& env);

/// Runs the built `tessera` with these arguments and this standard input. `env` entries are "NAME=value".
ProgramOutput run_program(const std::vector<std::string>& args, const std::string& input = "",
                          const std::vector<std::string>& env = {});

}  // namespace tessera::testing

/// The path of other people's file in `var`, or a skip that names the missing file.
#define TESSERA_SHARED_OR_SKIP(var, relative)                                                            \
  const auto var##_found = ::tessera::testing::shared_path(relative);                                    \
  if (!var##_found) GTEST_SKIP() << "no " << (relative) << " under TESSERA_SHARED (default: ../shared)"; \
  const std::string var = *var##_found

/// Skips a test that takes long under sanitizers.
#define TESSERA_SKIP_UNLESS_ALL_CASES()      \
  if (!::tessera::testing::runs_all_cases()) \
  GTEST_SKIP() << "takes long under sanitizers: only with TESSERA_TEST_FULL=1"

/// Fails the test with the error's message unless the Result holds a value.
#define ASSERT_OK(expr)                                                  \
  do {                                                                   \
    const auto& tessera_ok = (expr);                                     \
    ASSERT_TRUE(tessera_ok.has_value()) << tessera_ok.error().message(); \
  } while (false)

#define EXPECT_OK(expr)                                                  \
  do {                                                                   \
    const auto& tessera_ok = (expr);                                     \
    EXPECT_TRUE(tessera_ok.has_value()) << tessera_ok.error().message(); \
  } while (false)

/// The value of a Result in `target`, or a failed test.
#define ASSERT_OK_AND_ASSIGN(target, expr) \
  ASSERT_OK_AND_ASSIGN_INNER(TESSERA_CONCAT(tessera_value_, __LINE__), target, expr)
#define ASSERT_OK_AND_ASSIGN_INNER(tmp, target, expr)    \
  auto tmp = (expr);                                     \
  ASSERT_TRUE(tmp.has_value()) << tmp.error().message(); \
  target = std::move(*tmp)

/// The Result failed, and its message contains `part`.
#define EXPECT_ERROR(expr, part)                                                                               \
  do {                                                                                                         \
    const auto& tessera_bad = (expr);                                                                          \
    EXPECT_FALSE(tessera_bad.has_value());                                                                     \
    if (!tessera_bad.has_value()) {                                                                            \
      EXPECT_NE(tessera_bad.error().message().find(part), std::string::npos) << tessera_bad.error().message(); \
    }                                                                                                          \
  } while (false)
