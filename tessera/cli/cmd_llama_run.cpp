// tessera llama-run: runs a program built for llama.h with our libllama in place of its own.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tessera/cli/command.h"
#include "tessera/cli/llama_folder.h"

namespace tessera::cli {

namespace {

class LlamaRunCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--layout", "NAME", "the layout of the program's llama.h, instead of looking at its libllama",
                 set_string(layout_));
    table.common("--ggml", "", "libggml too, for programs without one", set_switch(ggml_));
    table.positional = "-- PROGRAM [ARGUMENTS]";
    table.add_positional = [this](std::string_view text) -> Result<> {
      words_.emplace_back(text);
      return {};
    };
    return table;
  }

  Result<> check() override {
    if (words_.empty()) return fail(ErrorCode::invalid_argument, "no program: give it after --");
    if (!layout_.empty()) TESSERA_TRY(find_llama_layout(layout_));
    return {};
  }

  Result<> run(Context&) override {
    TESSERA_ASSIGN(const std::string program, find_program(words_.front()));
    TESSERA_ASSIGN(const std::string folder, choose_folder(program));
    const char* others = std::getenv("LD_LIBRARY_PATH");
    const bool has_others = others != nullptr && *others != '\0';
    ::setenv("LD_LIBRARY_PATH", (has_others ? folder + ":" + others : folder).c_str(), 1);
    ::setenv("LLAMA_CPP_LIB_PATH", folder.c_str(), 1);  // llama-cpp-python opens its library by its path
    return execute(program);
  }

 private:
  Result<std::string> choose_folder(const std::string& program) const {
    if (!layout_.empty()) {
      TESSERA_ASSIGN(const LlamaLayout* layout, find_llama_layout(layout_));
      return llama_folder(*layout, ggml_ ? WithGgml::yes : WithGgml::no);
    }
    return llama_folder_for(places(program), ggml_ ? WithGgml::yes : WithGgml::if_none_beside);
  }

  // The library of a script is that of its packages, not one of the system. So the script comes before the "lib" beside
  // the interpreter's "bin".
  std::vector<std::filesystem::path> places(const std::string& program) const {
    std::vector<std::filesystem::path> all = llama_places(program);
    auto at = all.begin() + 1;
    for (size_t i = 1; i < words_.size(); ++i) {
      std::error_code error;
      if (!std::filesystem::exists(words_[i], error)) continue;
      at = all.insert(at, llama_places(words_[i]).front()) + 1;
    }
    return all;
  }

  // Replaces this process.
  Result<> execute(const std::string& program) {
    for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_DFL);  // ignored signals stay so
    std::vector<char*> argv;
    for (std::string& word : words_) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    return fail(ErrorCode::io, "{}: cannot be run: {}", program, std::strerror(errno));
  }

  std::string layout_;
  bool ggml_ = false;
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> create_llama_run_command() { return std::make_unique<LlamaRunCommand>(); }

}  // namespace tessera::cli
