// tessera llama-path and llama-run: folders of our libllama for programs built for llama.h.
#include "tessera/cli/llama_search.h"

#include <fstream>

#include "tests/cli/cli_support.h"
#include "tests/cli/llama_library.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using cli::find_llama_libraries;
using testing::compile_llama_library;
using testing::expect_refusal;
using testing::LlamaLibraryShape;
using testing::ProgramOutput;
using testing::run_program;

const LlamaLibraryShape kNewest = {80, 160, 28, 0, 74, 2048, "0.5.0"};
const LlamaLibraryShape kOfAugust2025 = {72, 120, 16, 65, 68, 2048, ""};

// An installation with the folders of two layouts. The program is a copy, as it finds them from its own place.
class LlamaInstallation {
 public:
  LlamaInstallation() {
    fs::create_directories(prefix_ / "bin");
    fs::copy_file(testing::program_path(), prefix_ / "bin/tessera", fs::copy_options::overwrite_existing);
    for (const char* layout : {"0.5", "0.5/ggml", "2025-08"}) {
      fs::create_directories(prefix_ / "lib/tessera/llama" / layout);
      std::ofstream(prefix_ / "lib/tessera/llama" / layout / "libllama.so") << "a library";
    }
  }
  std::string folder(const std::string& layout) const { return (prefix_ / "lib/tessera/llama" / layout).string(); }
  std::string program() const { return (prefix_ / "bin/tessera").string(); }

 private:
  fs::path prefix_ = testing::temporary_path("installation");
};

TEST(LlamaSearch, KnowsTheNamesOfLibraries) {
  for (const char* name : {"libllama.so", "libllama.so.0", "libllama.v0.5.0.so", "libllama.cuda.v0.5.0.so"})
    EXPECT_TRUE(cli::is_llama_library_name(name)) << name;
  for (const char* name :
       {"libllama-common.so", "libllama", "libllama.", "libllama.a", "llama.so", "libllama.sox", "libggml.so"})
    EXPECT_FALSE(cli::is_llama_library_name(name)) << name;
}

TEST(LlamaSearch, FindsTheNearestLibraries) {
  const fs::path root = testing::temporary_path("search");
  const auto touch = [&](const fs::path& file) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << "x";
  };
  touch("a/far/away/libllama.so");
  touch("b/near/libllama.so.0");
  touch("c/near/libllama.v1.so");
  touch("c/near/libllama-common.so");
  fs::create_directories(root / "d/near/libllama.so");  // a folder
  fs::create_symlink("libllama.v1.so", root / "c/near/libllama.so");
  fs::create_directory_symlink("b/near", root / "link");
  ASSERT_OK_AND_ASSIGN(const auto found, find_llama_libraries(root));
  EXPECT_EQ(found, (std::vector<std::string>{root / "b/near/libllama.so.0", root / "c/near/libllama.v1.so"}));
  ASSERT_OK_AND_ASSIGN(const auto one, find_llama_libraries(root, {.libraries = 1}));
  EXPECT_EQ(one, (std::vector<std::string>{root / "b/near/libllama.so.0"}));
  EXPECT_ERROR(find_llama_libraries(root, {.depth = 1}), root.string() + ": no libllama*.so in it or below");
  EXPECT_TRUE(find_llama_libraries(root, {.depth = 2}));
  EXPECT_ERROR(find_llama_libraries(root, {.entries = 5}), "no libllama*.so among the first 5 files below it");
  EXPECT_ERROR(find_llama_libraries(root / "no"), "no libllama*.so in it or below");
}

TEST(LlamaSearch, TellsTheGgmlBesideALibrary) {
  const fs::path root = testing::temporary_path("beside");
  fs::create_directories(root);
  for (const char* name : {"libllama.so", "libggml.so.0", "libggml-base.so", "libggmlx.so", "libggml.txt"})
    std::ofstream(root / name) << "x";
  EXPECT_EQ(cli::ggml_libraries_beside((root / "libllama.so").string()),
            (std::vector<std::string>{root / "libggml-base.so", root / "libggml.so.0"}));
}

TEST(LlamaSearch, FindsProgramsAsAShellDoes) {
  EXPECT_EQ(*cli::find_program(testing::program_path()), testing::program_path());
  EXPECT_TRUE(cli::find_program("sh"));
  EXPECT_ERROR(cli::find_program("no-such-program-here"), "no-such-program-here: no program of this name in PATH");
  EXPECT_ERROR(cli::find_program("/no/such/program"), "/no/such/program: no program");
  EXPECT_ERROR(cli::find_program(testing::write_temporary("plain", "x")), "plain: no program");
  EXPECT_ERROR(cli::find_program(""), "no program");
}

TEST(LlamaPath, PrintsTheFolderOfALayout) {
  const LlamaInstallation installation;
  const auto run = [&](std::vector<std::string> args) {
    const ProgramOutput output =
        testing::Child(args, testing::temporary_path("llama_path.out"), {installation.program()}).wait();
    return std::pair(output.status, output.out + output.err);
  };
  EXPECT_EQ(run({"llama-path", "--layout", "0.5"}), std::pair(0, installation.folder("0.5") + "\n"));
  EXPECT_EQ(run({"llama-path", "--layout", "0.5", "--ggml"}), std::pair(0, installation.folder("0.5/ggml") + "\n"));
  EXPECT_EQ(run({"llama-path", "--layout", "2026-01"}),
            std::pair(1, "error: layout 2026-01: this installation has no library of it (" +
                             installation.folder("2026-01") + ")\n"));
  const std::string list = run({"llama-path"}).second;
  EXPECT_NE(list.find("0.5      " + installation.folder("0.5") + " "), std::string::npos) << list;
  EXPECT_NE(list.find("2026-05  not installed"), std::string::npos) << list;
  EXPECT_NE(list.find("LLamaSharp"), std::string::npos) << list;

  // A package with a library of its own, with and without ggml.
  const std::string package = testing::temporary_path("package/node_modules");
  compile_llama_library(kNewest, package + "/x/bins/libllama.v0.5.0.so");
  EXPECT_EQ(run({"llama-path", package}), std::pair(0, installation.folder("0.5/ggml") + "\n"));
  std::ofstream(package + "/x/bins/libggml-base.so") << "x";
  EXPECT_EQ(run({"llama-path", package}), std::pair(0, installation.folder("0.5") + "\n"));
  EXPECT_EQ(run({"llama-path", package, "--ggml"}), std::pair(0, installation.folder("0.5/ggml") + "\n"));
  EXPECT_EQ(run({"llama-path", package + "/x/bins/libllama.v0.5.0.so"}),
            std::pair(0, installation.folder("0.5") + "\n"));
  // A script beside it, and a program with its library in "lib".
  std::ofstream(testing::temporary_path("package/chat.mjs")) << "x";
  EXPECT_EQ(run({"llama-path", testing::temporary_path("package/chat.mjs")}),
            std::pair(0, installation.folder("0.5") + "\n"));
  const std::string prefix = testing::temporary_path("other");
  compile_llama_library(kOfAugust2025, prefix + "/lib/libllama.so.0");
  fs::create_directories(prefix + "/bin");
  fs::copy_file("/bin/sh", prefix + "/bin/chat", fs::copy_options::overwrite_existing);
  EXPECT_EQ(run({"llama-path", prefix + "/bin/chat", "--ggml"}).first, 0);
  EXPECT_EQ(run({"llama-path", prefix + "/lib"}).second, installation.folder("2025-08/ggml") + "\n");

  // The environment of a program.
  const std::string show = "echo \"$LD_LIBRARY_PATH $LLAMA_CPP_LIB_PATH $0 $1\"";
  EXPECT_EQ(run({"llama-run", "--layout", "0.5", "--", "sh", "-c", show, "zero", "-x"}),
            std::pair(0, installation.folder("0.5") + " " + installation.folder("0.5") + " zero -x\n"));
  EXPECT_EQ(run({"llama-run", "--", prefix + "/bin/chat", "-c", "echo $LD_LIBRARY_PATH"}),
            std::pair(0, installation.folder("2025-08/ggml") + "\n"));
  EXPECT_EQ(run({"llama-run", "--", "sh", "-c", "echo $LD_LIBRARY_PATH", testing::temporary_path("package/chat.mjs")}),
            std::pair(0, installation.folder("0.5") + "\n"));
  EXPECT_EQ(run({"llama-run", "--layout", "0.5", "--", "sh", "-c", "exit 7"}).first, 7);
  const std::string text = testing::write_temporary("no_program", "text");
  fs::permissions(text, fs::perms::owner_all);
  EXPECT_EQ(run({"llama-run", "--layout", "0.5", "--", text}),
            std::pair(1, "error: " + text + ": cannot be run: Exec format error\n"));
}

TEST(LlamaPath, LibrariesOfSeveralLayoutsAreRefused) {
  const std::string folder = testing::temporary_path("mixed");
  compile_llama_library(kNewest, folder + "/libllama.a.so");
  compile_llama_library(kOfAugust2025, folder + "/libllama.b.so");
  expect_refusal(run_program({"llama-path", folder}), 1,
                 folder + "/libllama.a.so has the layout 0.5, " + folder + "/libllama.b.so has 2025-08");
  // One that cannot be loaded does not count beside one that can.
  fs::remove(folder + "/libllama.b.so");
  std::ofstream(folder + "/libllama.a0.so") << "no library";
  EXPECT_EQ(run_program({"llama-path", folder}).out, run_program({"llama-path", "--layout", "0.5", "--ggml"}).out);
}

TEST(LlamaPath, UnknownLibrariesAreRefusedWithWhatWasSeen) {
  const std::string path = testing::temporary_path("unknown/libllama.so");
  compile_llama_library({88, 176, 36, 0, 80, 2048, "0.9.0"}, path);
  expect_refusal(run_program({"llama-path", path}), 1,
                 path +
                     ": no known layout of llama.h: llama_model_params of 88 bytes, llama_context_params of 176 with "
                     "n_threads at 36, version 0.9.0");
  const std::string crash = testing::temporary_path("crash/libllama.so");
  compile_llama_library({.first = "*(volatile int*)0 = 1;"}, crash);
  expect_refusal(run_program({"llama-path", crash}), 1, crash + ": crashes when it is asked for its defaults");
}

TEST(LlamaPath, FindsTheLayoutsOfOurOwnLibraries) {
  const fs::path llama = fs::path(testing::program_path()).parent_path().parent_path() / "lib/tessera/llama";
  std::error_code none;
  int n = 0;
  for (const auto& folder : fs::directory_iterator(llama, none)) {
    if (!fs::exists(folder.path() / "libllama.so")) continue;
    EXPECT_EQ(run_program({"llama-path", folder.path().string()}).out, (folder.path() / "ggml").string() + "\n");
    ++n;
  }
  if (n == 0) GTEST_SKIP() << "this build has no libllama";
}

TEST(LlamaPath, WrongArgumentsAreRefused) {
  expect_refusal(run_program({"llama-path", "--layout", "0.4"}), 2, "'0.4' is no layout: want 0.5, ");
  expect_refusal(run_program({"llama-path", "--layout", "0.5", "--list"}), 2, "give a program, --layout or --list");
  expect_refusal(run_program({"llama-path", "x", "--list"}), 2, "give a program, --layout or --list");
  expect_refusal(run_program({"llama-path", "x", "--layout", "0.5"}), 2, "give a program, --layout or --list");
  expect_refusal(run_program({"llama-path", "x", "y"}), 2, "unexpected argument 'y'");
  expect_refusal(run_program({"llama-path", "/no/such/thing"}), 1, "/no/such/thing: no such file or folder");
  const std::string empty = testing::temporary_path("empty");
  fs::create_directories(empty);
  expect_refusal(run_program({"llama-path", empty}), 1,
                 "no libllama*.so in or below " + empty + ": name the layout with --layout");
  expect_refusal(run_program({"llama-run"}), 2, "no program: give it after --");
  expect_refusal(run_program({"llama-run", "--layout", "x", "--", "sh"}), 2, "'x' is no layout");
  expect_refusal(run_program({"llama-run", "--", "no-such-program-here"}), 1, "no program of this name in PATH");
}

TEST(LlamaPath, ListsWhatIsRefused) {
  const ProgramOutput output = run_program({"llama-path", "--list"});
  EXPECT_EQ(output.status, 0);
  for (const char* line : {"llama_set_sampler ", "llama_opt_epoch ", "ggml_init ", "gguf_init_from_callback "})
    EXPECT_NE(output.out.find(line), std::string::npos) << line;
  EXPECT_EQ(output.out.find("llama_"), 0);
}

}  // namespace
}  // namespace tessera
