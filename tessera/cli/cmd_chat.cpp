// tessera chat: a conversation with a model, in a terminal or through a pipe.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/base/file.h"
#include "tessera/cli/chat_args.h"
#include "tessera/cli/chat_file.h"
#include "tessera/cli/chat_pipe.h"
#include "tessera/cli/chat_terminal.h"
#include "tessera/cli/console.h"
#include "tessera/cli/text_args.h"
#include "tessera/engine/chat_template_loader.h"
#include "tessera/engine/diffusion.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

constexpr uint64_t kMaxToolsBytes = uint64_t{1} << 20;

class ChatCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    return table;
  }

  Result<> check() override { return args_.check(); }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto chat, create_chat(process));
    const auto save = [&]() { return args_.session_file.empty() ? Result<>() : save_chat(*chat, args_.session_file); };
    const bool is_interactive = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && !args_.is_json;
    if (!is_interactive)
      return run_piped_chat(*chat, args_.is_json ? PipeFormat::json : PipeFormat::text, save, process);
    TESSERA_ASSIGN(LineHistory history, open_history(process));
    TESSERA_ASSIGN(const auto terminal, open_terminal());
    const char* no_color = std::getenv("NO_COLOR");
    const bool has_colour = args_.has_colour && (no_color == nullptr || *no_color == 0);
    return run_terminal_chat(*chat, *terminal, history, {.has_colour = has_colour, .on_reply = save}, process);
  }

 private:
  Result<std::unique_ptr<Chat>> create_chat(const Context& process) {
    std::string tools;
    if (!args_.tools_file.empty()) {
      TESSERA_ASSIGN(tools, read_file(args_.tools_file, kMaxToolsBytes, &process.interrupt));
    }
    if (!args_.system_file.empty()) {
      TESSERA_ASSIGN(args_.system, read_text(args_.system_file, process));
    }
    use_tuning(args_.model, args_.context, args_.speculation, process);
    TESSERA_ASSIGN(LoadedModel model, open_model(args_.model, args_.context, process));
    if (const ModelInfo& info = model.engine->model().info(); generates_by_diffusion(info))
      return fail(ErrorCode::unsupported,
                  "a chat needs a model that generates token by token, and {} fills in a whole text at once: use "
                  "`tessera run`",
                  info.architecture);
    TESSERA_TRY(load_session(model, args_.context, process));
    TESSERA_ASSIGN(const std::string source,
                   args_.chat_template.source(&model.engine->files().metadata(), !tools.empty(), process));
    TESSERA_ASSIGN(auto chat_template, create_chat_template(source, chat_tokens(model.engine->vocab()), process));
    TESSERA_ASSIGN(auto speculator, model.create_speculator());
    auto chat = std::make_unique<Chat>(std::move(model), std::move(chat_template), args_.context.n_batch,
                                       std::move(speculator));
    chat->settings = args_.settings;
    chat->variables = args_.variables;
    chat->json_output = args_.grammar.output;
    chat->enforces_formats = args_.grammar.enforces_formats;
    TESSERA_ASSIGN(chat->grammar, args_.grammar.compile(&chat->model().engine->vocab()));
    auto set = chat->set_tools(std::move(tools));
    if (!set) return forward_error(set, args_.tools_file);
    if (!args_.session_file.empty() && std::filesystem::exists(args_.session_file)) {
      TESSERA_ASSIGN(const std::string warning, load_chat(*chat, args_.session_file));
      if (!warning.empty() && !process.quiet) log("warning: " + warning);
    }
    if (!args_.system.empty()) chat->conversation.system = text::to_valid_utf8(args_.system);
    return chat;
  }

  // Without a readable history file, the history lasts as long as the chat.
  Result<LineHistory> open_history(const Context& process) const {
    const std::string path = args_.has_history ? LineHistory::default_path() : "";
    if (path.empty()) return LineHistory();
    auto history = LineHistory::open(path);
    if (history) return history;
    if (!process.quiet) log("warning: " + history.error().message());
    return LineHistory();
  }

  ChatArgs args_;
};

}  // namespace

std::unique_ptr<Command> create_chat_command() { return std::make_unique<ChatCommand>(); }

}  // namespace tessera::cli
