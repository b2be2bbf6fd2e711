#include "tessera/cli/chat_terminal.h"

#include <fmt/format.h>

#include "tessera/cli/chat_commands.h"
#include "tessera/cli/chat_pipe.h"
#include "tessera/cli/chat_show.h"
#include "tessera/cli/chat_watch.h"
#include "tessera/cli/cluster.h"
#include "tessera/cli/console.h"
#include "tessera/cli/line_editor.h"
#include "tessera/cli/option_flags.h"
#include "tessera/cli/reply_view.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

using Delta = text::ReplyDelta;

constexpr std::string_view kPrompt = ">>> ", kContinuationPrompt = "... ";
constexpr std::string_view kPromptSgr = "32";  // green

// Shows one reply while it is generated.
class ShownReply {
 public:
  ShownReply(Terminal& terminal, const ViewOptions& options, CancelToken& cancel)
      : terminal_(terminal), options_(options), cancel_(cancel), view_(options), start_ms_(clock_ms()) {
    watch_.emplace(terminal, options, cancel);
  }

  ReplyEvents events() {
    return {
        .on_prompt = [this](int64_t n_done, int64_t n_total) { watch_->set_progress(n_done, n_total); },
        .on_first_token = [this] { watch_.reset(); },
        .on_deltas = [this](std::span<const Delta> deltas, const ChatCounts& counts) { return show(deltas, counts); }};
  }

  /// Ends the view; `reply` is null after an error.
  Result<> finish(const ChatReply* reply) {
    watch_.reset();
    std::string bytes = spinner_ ? spinner_->erase() : "";
    if (reasons_ && reply != nullptr) bytes += view_.end_reasoning(reply->times.reasoning, reply->counts.n_reasoning);
    if (reply != nullptr)
      for (const text::ToolCall& call : reply->reply.calls) bytes += view_.call(call.name, call.arguments);
    return terminal_.write(bytes + view_.finish());
  }

 private:
  Result<> show(std::span<const Delta> deltas, const ChatCounts& counts) {
    if (terminal_.take_escape()) cancel_.cancel();
    const int64_t now = clock_ms();
    std::string bytes;
    if (terminal_.take_size_change()) bytes += resize();
    for (const Delta& delta : deltas) bytes += show(delta, counts, now);
    if (bytes.empty()) bytes += view_.flush(now);
    return bytes.empty() ? Result<>() : terminal_.write(bytes);
  }

  std::string show(const Delta& delta, const ChatCounts& counts, int64_t now) {
    // A dumb terminal gets the text as it is, so control characters are escaped here.
    const std::string text = options_.markup == Markup::plain ? visible(delta.text, "\n\t") : delta.text;
    if (delta.kind == Delta::Kind::reasoning) {
      reasons_ = true;
      return view_.reasoning(text, now) + hidden_frame(now);
    }
    if (delta.kind != Delta::Kind::content) return {};
    std::string bytes;
    if (std::exchange(reasons_, false)) {
      if (spinner_) bytes += spinner_->erase();
      bytes += view_.end_reasoning(static_cast<double>(now - start_ms_) / 1000, counts.n_reasoning);
    }
    return bytes + view_.content(text, now);
  }

  // Hidden reasoning shows only that the model works.
  std::string hidden_frame(int64_t now) {
    if (options_.thinking != ThinkingView::hide || terminal_.is_dumb()) return {};
    if (!spinner_) spinner_.emplace(options_, start_ms_);
    return spinner_->frame(now, 0, 0);
  }

  std::string resize() {
    const ScreenSize size = terminal_.size();
    std::string bytes = spinner_ ? spinner_->resize(size.n_columns) : "";
    return bytes + view_.resize(size.n_columns, size.n_rows);
  }

  Terminal& terminal_;
  ViewOptions options_;
  CancelToken& cancel_;
  ReplyView view_;
  int64_t start_ms_;
  std::optional<ChatWatch> watch_;
  std::optional<Spinner> spinner_;  // of hidden reasoning
  bool reasons_ = false;            // the last piece was reasoning
};

class TerminalChat {
 public:
  TerminalChat(Chat& chat, Terminal& terminal, LineHistory& history, const ChatTerminalOptions& options,
               const Context& process)
      : chat_(chat),
        terminal_(terminal),
        history_(history),
        options_(options),
        process_(process),
        commands_(chat, options.has_colour && !terminal.is_dumb()),
        editor_(terminal, history, editor_options()) {}

  Result<> run() {
    TESSERA_TRY(note(fmt::format("{}. /help lists commands.", model_line(chat_))));
    std::string initial;
    while (true) {
      TESSERA_ASSIGN(const LineResult line, editor_.read(prompt(), kContinuationPrompt, initial));
      initial.clear();
      if (line.kind != LineKind::line) return {};
      TESSERA_TRY(remember(line.text));
      TESSERA_ASSIGN(const Next next, handle(line.text, initial));
      if (next == Next::leave) return {};
    }
  }

 private:
  using Next = CommandResult::Next;

  LineEditorOptions editor_options() {
    return {.prompt_sgr = options_.has_colour ? std::string(kPromptSgr) : "",
            .complete = [this](std::string_view text, size_t cursor) { return complete(text.substr(0, cursor)); },
            .hint = [this](std::string_view text) { return hint(text); }};
  }

  Completion complete(std::string_view before) const {
    return {.begin = before.find_last_of(" \t") + 1, .candidates = commands_.complete(before)};
  }

  std::string hint(std::string_view text) const {
    if (!text.empty()) return ChatCommands::hint(text);
    if (!chat_.conversation.open_calls().empty()) return "result of the call";
    return chat_.conversation.messages.empty() ? "message, or /help" : "";
  }

  // A call that waits for its result is shown in place of the prompt.
  std::string prompt() const {
    const std::vector<text::ToolCall> calls = chat_.conversation.open_calls();
    return calls.empty() ? std::string(kPrompt) : visible(calls.front().name) + " = ";
  }

  Result<> remember(std::string_view text) {
    const Result<> added = history_.add(text);
    if (added || history_failed_) return {};
    history_failed_ = true;
    return warn(fmt::format("the history is not saved: {}", added.error().message()));
  }

  Result<Next> handle(std::string_view text, std::string& initial) {
    if (text.find_first_not_of(" \t\n") == text.npos && !chat_.conversation.has_attachments()) return Next::read;
    const Conversation before = chat_.conversation;
    if (!ChatCommands::is_command(text)) {
      chat_.conversation.add(text::to_valid_utf8(text.starts_with("//") ? text.substr(1) : text));
      if (chat_.conversation.open_calls().empty()) TESSERA_TRY(reply(before, {}));
      return Next::read;
    }
    Result<CommandResult> result = commands_.run(text);
    if (!result) {
      TESSERA_TRY(refuse(result.error()));
      return Next::read;
    }
    TESSERA_TRY(terminal_.write(result->text));
    initial = std::move(result->line);
    if (result->next == Next::reply) TESSERA_TRY(reply(before, result->seed));
    return result->next;
  }

  // Generates a reply. After an error the conversation is `before`.
  Result<> reply(const Conversation& before, std::optional<int64_t> seed) {
    Result<ChatReply> reply = fail(ErrorCode::internal, "no reply");
    {
      ShownReply shown(terminal_, view_options(), process_.interrupt);
      reply = chat_.reply(shown.events(), process_.interrupt, seed);
      TESSERA_TRY(shown.finish(reply ? &*reply : nullptr));
    }
    process_.interrupt.reset();
    if (!reply) {
      chat_.conversation = before;
      if (reply.error().code() == ErrorCode::cancelled) return note("stopped before the first token; nothing was sent");
      return refuse(reply.error());
    }
    TESSERA_TRY(note_end(*reply));
    if (!options_.on_reply) return {};
    const Result<> saved = options_.on_reply();
    return saved ? Result<>() : warn(fmt::format("the chat is not saved: {}", saved.error().message()));
  }

  Result<> note_end(const ChatReply& reply) {
    for (const std::string& warning : reply.reply.warnings) TESSERA_TRY(warn(warning));
    if (reply.is_cut) TESSERA_TRY(note("stopped"));
    if (!reply.is_cut && reply.stop == StopReason::n_predict)
      TESSERA_TRY(note(fmt::format("stopped after {} tokens (/set predict)", reply.counts.n_generated)));
    if (reply.stop == StopReason::context_full) TESSERA_TRY(note("stopped: the context is full (-c sets it)"));
    if (reply.counts.n_dropped > n_dropped_)
      TESSERA_TRY(note(fmt::format("the context is full: the oldest {} messages are not part of the prompt any more",
                                   reply.counts.n_dropped)));
    n_dropped_ = reply.counts.n_dropped;
    if (process_.verbose || chat_.settings.is_verbose) log(reply_summary(reply));
    return {};
  }

  ViewOptions view_options() const {
    const ScreenSize size = terminal_.size();
    return {.markup = terminal_.is_dumb() ? Markup::plain : Markup::styled,
            .has_colour = options_.has_colour && !terminal_.is_dumb(),
            .thinking = chat_.settings.thinking == Thinking::hide ? ThinkingView::hide : ThinkingView::show,
            .n_columns = size.n_columns,
            .n_rows = size.n_rows};
  }

  Result<> note(std::string_view text) { return terminal_.write(note_line(text, view_options())); }
  Result<> warn(std::string_view text) { return terminal_.write(warning_line(text, view_options())); }
  Result<> refuse(const Error& error) { return warn("error: " + with_flag_names(error.message())); }

  Chat& chat_;
  Terminal& terminal_;
  LineHistory& history_;
  const ChatTerminalOptions& options_;
  const Context& process_;
  ChatCommands commands_;
  LineEditor editor_;
  bool history_failed_ = false;
  size_t n_dropped_ = 0;  // of the last reply
};

}  // namespace

Result<> run_terminal_chat(Chat& chat, Terminal& terminal, LineHistory& history, const ChatTerminalOptions& options,
                           const Context& process) {
  return TerminalChat(chat, terminal, history, options, process).run();
}

}  // namespace tessera::cli
