// tessera llama-path: prints the folder of the libllama that a program built for llama.h can load instead of its own.
#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/llama_folder.h"

namespace tessera::cli {

namespace {

struct RefusedFunction {
  std::string_view name;
  std::string_view reason;
};
constexpr RefusedFunction kRefusedFunctions[] = {
#define TESSERA_LLAMA_REFUSED(name, reason) {#name, reason},
#define TESSERA_GGML_REFUSED(name, reason) {#name, reason},
#include "tessera/llama/refused.def"

#include "tessera/llama/ggml/refused.def"
#undef TESSERA_LLAMA_REFUSED
#undef TESSERA_GGML_REFUSED
};

class LlamaPathCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--layout", "NAME", "the folder of this layout; without a name or a program, all are listed",
                 set_string(layout_));
    table.common("--ggml", "", "the folder that has libggml too, for programs without one", set_switch(ggml_));
    table.common("--list", "", "print the functions that are refused", set_switch(lists_refused_));
    table.positional = "[PROGRAM|FOLDER|LIBRARY]";
    table.add_positional = [this](std::string_view text) -> Result<> {
      if (!path_.empty()) return fail(ErrorCode::invalid_argument, "unexpected argument '{}'", text);
      path_ = text;
      return {};
    };
    return table;
  }

  Result<> check() override {
    if (int{!layout_.empty()} + int{!path_.empty()} + int{lists_refused_} > 1)
      return fail(ErrorCode::invalid_argument, "give a program, --layout or --list");
    if (!layout_.empty()) TESSERA_TRY(find_llama_layout(layout_));
    return {};
  }

  Result<> run(Context&) override {
    if (lists_refused_) return print_refused();
    if (!layout_.empty()) {
      TESSERA_ASSIGN(const LlamaLayout* layout, find_llama_layout(layout_));
      return print_folder(llama_folder(*layout, ggml_ ? WithGgml::yes : WithGgml::no));
    }
    if (path_.empty()) return print_layouts();
    return print_folder(llama_folder_for(path_, ggml_ ? WithGgml::yes : WithGgml::if_none_beside));
  }

 private:
  static Result<> print_folder(Result<std::string> folder) {
    if (!folder) return forward_error(folder);
    return print(*folder + "\n");
  }

  static Result<> print_refused() {
    std::vector<std::vector<std::string>> rows;
    for (const RefusedFunction& function : kRefusedFunctions)
      rows.push_back({std::string(function.name), std::string(function.reason)});
    return print(format_table(rows, "ll"));
  }

  Result<> print_layouts() const {
    std::vector<std::vector<std::string>> rows;
    for (const LlamaLayout& layout : llama_layouts()) {
      const auto folder = llama_folder(layout, ggml_ ? WithGgml::yes : WithGgml::no);
      rows.push_back({std::string(layout.name), folder ? *folder : "not installed", std::string(layout.users)});
    }
    return print(format_table(rows, "lll"));
  }

  std::string layout_;
  std::string path_;
  bool ggml_ = false;
  bool lists_refused_ = false;
};

}  // namespace

std::unique_ptr<Command> create_llama_path_command() { return std::make_unique<LlamaPathCommand>(); }

}  // namespace tessera::cli
