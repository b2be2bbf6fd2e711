#include "tests/support/testing.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

extern char** environ;

namespace tessera::testing {

namespace fs = std::filesystem;

std::string source_dir() { return TESSERA_SOURCE_DIR; }

bool runs_all_cases() {
#ifdef TESSERA_SANITIZED
  return std::getenv("TESSERA_TEST_FULL") != nullptr;
#else
  return true;
#endif
}

std::string data_path(const std::string& relative) {
  const fs::path path = fs::path(TESSERA_SOURCE_DIR) / "tests/data" / relative;
  EXPECT_TRUE(fs::exists(path)) << "no " << path;
  return path.string();
}

std::string story_model() { return data_path("story.gguf"); }

std::string story_text() { return data_path("stories.txt"); }

std::optional<std::string> shared_path(const std::string& relative) {
  const char* configured = std::getenv("TESSERA_SHARED");
  const fs::path root = configured != nullptr ? fs::path(configured) : fs::path(TESSERA_SOURCE_DIR) / "../shared";
  const fs::path path = root / relative;
  if (!fs::exists(path)) return std::nullopt;
  return path.string();
}

const fs::path& temporary_dir() {
  struct Owner {
    fs::path path;
    Owner() {
      std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
      path = ::mkdtemp(pattern.data());
    }
    ~Owner() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Owner owner;
  return owner.path;
}

std::string temporary_path(const std::string& name) { return (temporary_dir() / name).string(); }

std::string example_plugins_dir() { return TESSERA_BINARY_DIR "/examples/backend"; }
std::string test_plugins_dir() { return TESSERA_BINARY_DIR "/tests/plugins"; }
std::string cuda_emulator_path() { return TESSERA_BINARY_DIR "/tests/libcuda_emulator.so"; }

std::string write_temporary(const std::string& name, const std::string& bytes) {
  const fs::path path = temporary_dir() / name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) ADD_FAILURE() << "cannot read " << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string program_path() {
  const char* configured = std::getenv("TESSERA_PROGRAM");
  return configured != nullptr ? configured : TESSERA_BINARY_DIR "/bin/tessera";
}

std::vector<std::string> program_environment(const std::vector<std::string>& env) {
  std::vector<std::string> environment = env;      // of two entries with the same name, the first is used
  environment.emplace_back("TESSERA_DEVICE=cpu");  // even if there is a GPU
  for (char** e = environ; *e != nullptr; ++e)
    if (std::string_view(*e).substr(0, 8) != "TESSERA_" || std::string_view(*e).substr(0, 11) == "TESSERA_ISA")
      environment.emplace_back(*e);
  return environment;
}

ProgramOutput run_program(const std::vector<std::string>& args, const std::string& input,
                          const std::vector<std::string>& env) {
  ProgramOutput result;
  const std::string program = program_path();
  // Input and outputs are files, since pipes could fill up and block.
  const std::string in_path = write_temporary("stdin", input);
  const std::string out_path = (temporary_dir() / "stdout").string();
  const std::string err_path = (temporary_dir() / "stderr").string();

  std::vector<std::string> environment = program_environment(env);
  std::vector<char*> envp, argv;
  for (std::string& e : environment) envp.push_back(e.data());
  envp.push_back(nullptr);
  argv.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, in_path.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_addopen(&actions, 2, err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const auto start = std::chrono::steady_clock::now();
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    ADD_FAILURE() << "cannot run " << program << ": error " << error;
    return result;
  }
  int status = 0;
  struct rusage usage {};
  ::wait4(pid, &status, 0, &usage);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  result.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_all(out_path);
  result.err = read_all(err_path);
  return result;
}

}  // namespace tessera::testing
