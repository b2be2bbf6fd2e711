// Layouts of llama.h: which one a library has, asked in a process of its own.
#include "tessera/cli/llama_layout.h"

#include <cstring>

#include "tessera/cli/llama_probe.h"
#include "tests/cli/llama_library.h"

namespace tessera::cli {
namespace {

using testing::compile_library;
using testing::compile_llama_library;
using testing::LlamaLibraryShape;

// Defaults as they are in the table of layouts, written here by hand.
LlamaDefaults defaults_of(const LlamaLibraryShape& shape) {
  LlamaDefaults defaults{.model = std::vector<std::byte>(static_cast<size_t>(shape.model_bytes)),
                         .context = std::vector<std::byte>(static_cast<size_t>(shape.context_bytes)),
                         .version = shape.version};
  const auto set = [&](int at, int32_t value) { std::memcpy(defaults.context.data() + at, &value, sizeof value); };
  set(0, 512);
  set(4, shape.n_batch);
  set(8, 512);
  set(12, 1);
  set(shape.threads_at, 4);
  set(shape.threads_at + 4, 4);
  defaults.model[static_cast<size_t>(shape.extra_at)] = std::byte{1};
  if (shape.mmap_at > 0) defaults.model[static_cast<size_t>(shape.mmap_at)] = std::byte{1};
  return defaults;
}

struct NamedShape {
  const char* name;
  LlamaLibraryShape shape;
};
const NamedShape kShapes[] = {
    {"0.5", {80, 160, 28, 0, 74, 2048, "0.5.1-dev"}}, {"0.5", {80, 160, 28, 0, 74, 2048, ""}},
    {"2026-08", {72, 160, 24, 0, 66, 2048, ""}},      {"2026-06", {72, 160, 24, 65, 69, 2048, ""}},
    {"2026-05", {72, 144, 20, 65, 69, 2048, ""}},     {"2026-01", {72, 136, 16, 65, 69, 2048, ""}},
    {"2025-08", {72, 120, 16, 65, 68, 2048, ""}},     {"2026-08", {72, 160, 24, 0, 66, 2048, "0.5.0-tessera"}}};

TEST(LlamaLayouts, AreFoundByTheirDefaults) {
  for (const auto& [name, shape] : kShapes) {
    const auto found = match_llama_layout(defaults_of(shape));
    ASSERT_TRUE(found) << name << ": " << found.error().message();
    EXPECT_EQ((*found)->name, name);
  }
}

TEST(LlamaLayouts, SizesMayLackThePaddingAtTheEnd) {
  LlamaDefaults defaults = defaults_of(kShapes[0].shape);
  defaults.model.resize(78);
  EXPECT_EQ((*match_llama_layout(defaults))->name, "0.5");
  defaults.model.resize(81);
  EXPECT_ERROR(match_llama_layout(defaults), "llama_model_params of 81 bytes");
}

TEST(LlamaLayouts, OtherDefaultsAreRefusedWithWhatWasSeen) {
  const LlamaDefaults good = defaults_of(kShapes[0].shape);
  for (const size_t at : {0, 4, 8, 12, 28, 32}) {
    LlamaDefaults other = good;
    other.context[at] ^= std::byte{1};
    EXPECT_FALSE(match_llama_layout(other)) << at;
  }
  for (const size_t at : {73, 74}) {
    LlamaDefaults other = good;
    other.model[at] ^= std::byte{1};
    EXPECT_FALSE(match_llama_layout(other)) << at;
  }
  EXPECT_ERROR(match_llama_layout(defaults_of({80, 168, 28, 0, 74, 2048, "0.6.0"})),
               "no known layout of llama.h: llama_model_params of 80 bytes, llama_context_params of 168 with n_threads "
               "at 28, version 0.6.0");
  EXPECT_ERROR(match_llama_layout({}), "of 0 bytes, llama_context_params of 0 with n_threads nowhere, no version");
  LlamaDefaults no_mmap = defaults_of(kShapes[3].shape);
  no_mmap.model[65] = std::byte{0};
  EXPECT_FALSE(match_llama_layout(no_mmap));
}

TEST(LlamaLayouts, AnotherVersionOfTheSameSizesIsNotTakenForIt) {
  for (const char* version : {"0.6.0", "0.50", "1.5", "0."}) {
    LlamaDefaults defaults = defaults_of(kShapes[0].shape);
    defaults.version = version;
    EXPECT_FALSE(match_llama_layout(defaults)) << version;
  }
  LlamaDefaults defaults = defaults_of(kShapes[0].shape);
  defaults.version = "0.5";
  EXPECT_TRUE(match_llama_layout(defaults));
}

TEST(LlamaLayouts, HaveNames) {
  EXPECT_EQ((*find_llama_layout("2026-05"))->context_bytes, 144);
  EXPECT_ERROR(find_llama_layout("0.4"), "'0.4' is no layout: want 0.5, 2026-08, 2026-06, 2026-05, 2026-01, 2025-08");
}

TEST(LlamaProbe, MadeUpLibrariesShowTheirLayouts) {
  int i = 0;
  for (const auto& [name, shape] : kShapes) {
    const std::string path = testing::temporary_path("probe/" + std::to_string(i++) + "/libllama.so");
    compile_llama_library(shape, path);
    ASSERT_OK_AND_ASSIGN(const LlamaDefaults defaults, probe_llama_library(path));
    EXPECT_EQ(defaults.model.size(), shape.model_bytes);
    EXPECT_EQ(defaults.context.size(), shape.context_bytes);
    EXPECT_EQ(defaults.version, shape.version);
    ASSERT_OK_AND_ASSIGN(const LlamaLayout* layout, match_llama_layout(defaults));
    EXPECT_EQ(layout->name, name);
  }
}

TEST(LlamaProbe, BytesThatAreNotWrittenAreNone) {
  const std::string path = testing::temporary_path("probe/sparse/libllama.so");
  compile_library(
      "__asm__(\".globl llama_model_default_params\\nllama_model_default_params:\\n\"\n"
      "#if defined(__x86_64__)\n\"movb $0xaa, 8(%rdi)\\nmovb $7, 2(%rdi)\\nmovq %rdi, %rax\\nret\\n\"\n"
      "#else\n\"mov w9, #0xaa\\nstrb w9, [x8, #8]\\nmov w9, #7\\nstrb w9, [x8, #2]\\nret\\n\"\n#endif\n);\n"
      "struct big { int n[8]; };\n"
      "struct big llama_context_default_params(void) { struct big b = {{1}}; return b; }\n",
      path);
  ASSERT_OK_AND_ASSIGN(const LlamaDefaults defaults, probe_llama_library(path));
  ASSERT_EQ(defaults.model.size(), 9);  // although the last byte is one that fills the memory before the call
  EXPECT_EQ(defaults.model[2], std::byte{7});
  EXPECT_EQ(defaults.model[3], std::byte{0});
  EXPECT_EQ(defaults.model[8], std::byte{0xaa});
  EXPECT_EQ(defaults.context.size(), 32);
}

TEST(LlamaProbe, LibrariesThatCannotBeAskedAreRefused) {
  const auto path_of = [](const std::string& name) { return testing::temporary_path("bad/" + name + "/libllama.so"); };
  const auto refuse = [&](const std::string& name, const LlamaLibraryShape& shape, const std::string& what,
                          int limit_ms = kLlamaProbeMs) {
    compile_llama_library(shape, path_of(name));
    EXPECT_ERROR(probe_llama_library(path_of(name), limit_ms), path_of(name) + ": " + what);
  };
  refuse("crash", {.first = "*(volatile int*)0 = 1;"}, "crashes when it is asked for its defaults: Segmentation fault");
  refuse("abort", {.first = "abort();"}, "crashes when it is asked for its defaults: Aborted");
  refuse("exit", {.first = "_exit(0);"}, "ends the process when it is asked for its defaults");
  refuse("hang", {.first = "for (;;) pause();"}, "takes more than 100 ms to load and to tell its defaults", 100);
  refuse("constructor", {.more = "__attribute__((constructor)) static void begin(void) { abort(); }"}, "crashes");
  compile_library("int other(void) { return 1; }", path_of("other"));
  EXPECT_ERROR(probe_llama_library(path_of("other")), "is no libllama: it has no llama_model_default_params");
  compile_library("int llama_model_default_params(void) { return 1; }", path_of("half"));
  EXPECT_ERROR(probe_llama_library(path_of("half")), "is no libllama");
  EXPECT_ERROR(probe_llama_library("/no/such/libllama.so"), "/no/such/libllama.so: cannot be loaded: ");
  const std::string text = testing::write_temporary("libllama.so", "no library");
  EXPECT_ERROR(probe_llama_library(text), text + ": cannot be loaded: ");
}

TEST(LlamaProbe, ANameWithoutAFolderIsOfThisFolder) {
  const std::string folder = testing::temporary_path("probe/here");
  compile_llama_library(kShapes[0].shape, folder + "/libllama.so");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  const auto defaults = probe_llama_library("libllama.so");
  std::filesystem::current_path(before);
  ASSERT_OK(defaults);
  EXPECT_EQ(defaults->version, kShapes[0].shape.version);
}

TEST(LlamaProbe, OutputsOfALibraryAreNotSeen) {
  const std::string path = testing::temporary_path("probe/loud/libllama.so");
  compile_llama_library({.first = "write(1, \"out\", 3); write(2, \"err\", 3);"}, path);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(probe_llama_library(path));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// A library that needs the ggml beside it without a path to it.
TEST(LlamaProbe, TheGgmlBesideALibraryIsLoaded) {
  const std::string folder = testing::temporary_path("probe/with_ggml"), path = folder + "/libllama.so";
  compile_library("int ggml_value(void) { return 1; }", folder + "/libggml-base.so", "-Wl,-soname,libggml-base.so");
  compile_library("int ggml_value(void);\n" + testing::llama_library_source({.first = "m.b[0] = ggml_value();"}), path,
                  "-L'" + folder + "' -l:libggml-base.so");
  ASSERT_OK_AND_ASSIGN(const LlamaDefaults defaults, probe_llama_library(path));
  EXPECT_EQ(defaults.model[0], std::byte{1});
}

}  // namespace
}  // namespace tessera::cli
