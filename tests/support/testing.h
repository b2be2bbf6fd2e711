// Helpers for all tests: test data, checks of results, temporary files, and running the program.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::testing {

/// Whether tests run all their cases. With sanitizers a case takes 10 to 30 times as long, so tests run few cases
/// unless TESSERA_TEST_FULL=1 is set. scripts/slow_checks.json lists the checks that set it.
bool runs_all_cases();

/// Returns `all` if tests run all their cases, else `few`; for numbers of repetitions.
template <class T>
T all_or_few(T all, T few) {
  return runs_all_cases() ? all : few;
}

/// Returns the path of a file or folder of tests/data: data_path("quants/q4_0.q"). The test fails if it is missing.
std::string data_path(const std::string& relative);

/// The trained model of tests/data: a llama with 5 layers, width 64 and a vocabulary of 512 tokens, trained on short
/// stories.
std::string story_model();

/// Text of the kind that story_model() was trained on.
std::string story_text();

/// Returns the path of a third-party file under TESSERA_SHARED (default: ../shared, relative to the project's root), or
/// nothing if it is missing. Tests are then skipped.
std::optional<std::string> shared_path(const std::string& relative);

/// The project's root.
std::string source_dir();

/// A directory for this test process, removed at its end.
const std::filesystem::path& temporary_dir();

/// Returns a path under temporary_dir(). The file need not exist.
std::string temporary_path(const std::string& name);

/// The folders of the example plugins (examples/backend) and of the plugins of tests/backend/plugins.
std::string example_plugins_dir();
std::string test_plugins_dir();
/// The library that emulates the CUDA driver.
std::string cuda_emulator_path();

/// Writes bytes to a file under temporary_dir() and returns its path.
std::string write_temporary(const std::string& name, const std::string& bytes);

/// Returns the contents of a file. On an error, the test fails and the result is "".
std::string read_all(const std::string& path);

struct ProgramOutput {
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
  double seconds = 0;
  double cpu_seconds = 0;  // CPU time, suitable for bounds on time while other programs run
};

/// The path of the built program `tessera`.
std::string program_path();

/// Returns this process's environment without TESSERA_ variables (except TESSERA_ISA), with TESSERA_DEVICE=cpu, and
/// with `env`, whose entries take precedence.
std::vector<std::string> program_environment(const std::vector<std::string>& env);

/// Runs the built `tessera` with these arguments and this standard input. `env` entries are "NAME=value".
ProgramOutput run_program(const std::vector<std::string>& args, const std::string& input = "",
                          const std::vector<std::string>& env = {});

}  // namespace tessera::testing

/// Sets `var` to the path of a third-party file, or skips the test with the name of the missing file.
#define TESSERA_SHARED_OR_SKIP(var, relative)                                                            \
  const auto var##_found = ::tessera::testing::shared_path(relative);                                    \
  if (!var##_found) GTEST_SKIP() << "no " << (relative) << " under TESSERA_SHARED (default: ../shared)"; \
  const std::string var = *var##_found

/// Skips a test that is slow with sanitizers.
#define TESSERA_SKIP_UNLESS_ALL_CASES()      \
  if (!::tessera::testing::runs_all_cases()) \
  GTEST_SKIP() << "takes long under sanitizers: only with TESSERA_TEST_FULL=1"

/// Fails the test with the error's message unless the Result has a value.
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

/// Assigns the value of a Result to `target`, or fails the test.
#define ASSERT_OK_AND_ASSIGN(target, expr) \
  ASSERT_OK_AND_ASSIGN_INNER(TESSERA_CONCAT(tessera_value_, __LINE__), target, expr)
#define ASSERT_OK_AND_ASSIGN_INNER(tmp, target, expr)    \
  auto tmp = (expr);                                     \
  ASSERT_TRUE(tmp.has_value()) << tmp.error().message(); \
  target = std::move(*tmp)

/// Expects that the Result is an error whose message contains `part`.
#define EXPECT_ERROR(expr, part)                                                                               \
  do {                                                                                                         \
    const auto& tessera_bad = (expr);                                                                          \
    EXPECT_FALSE(tessera_bad.has_value());                                                                     \
    if (!tessera_bad.has_value()) {                                                                            \
      EXPECT_NE(tessera_bad.error().message().find(part), std::string::npos) << tessera_bad.error().message(); \
    }                                                                                                          \
  } while (false)
