#include "tessera/cli/chat_pipe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/base/counted.h"
#include "tessera/cli/call_text.h"
#include "tessera/cli/console.h"
#include "tessera/cli/line_input.h"
#include "tessera/cli/option_flags.h"
#include "tessera/cli/tool_call_json.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

using PipeJson = nlohmann::ordered_json;

constexpr size_t kMaxMessageBytes = size_t{8} << 20;

std::string_view finish_reason(const ChatReply& reply) {
  if (reply.is_cut) return "cancelled";
  if (!reply.reply.calls.empty()) return "tool_calls";
  return reply.stop == StopReason::end_of_text ? "stop" : "length";
}

double per_second(int64_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0; }

std::string reply_json(const ChatReply& reply) {
  const ChatCounts& counts = reply.counts;
  const ReplyTimes& times = reply.times;
  PipeJson json = {{"content", reply.reply.content},
                   {"reasoning", reply.reply.reasoning},
                   {"tool_calls", tool_calls_json(reply.reply.calls)},
                   {"finish_reason", finish_reason(reply)},
                   {"usage",
                    {{"prompt_tokens", counts.n_prompt},
                     {"cached_tokens", counts.n_stored},
                     {"completion_tokens", counts.n_generated}}},
                   {"timings", {{"first_token_s", times.first_token}, {"total_s", times.total}}}};
  if (!reply.reply.warnings.empty()) json["warnings"] = reply.reply.warnings;
  if (counts.n_dropped > 0) json["dropped_messages"] = counts.n_dropped;
  return json.dump(-1, ' ', false, PipeJson::error_handler_t::replace) + "\n";
}

class PipedChat {
 public:
  PipedChat(Chat& chat, PipeFormat format, const Context& process)
      : chat_(chat), is_json_(format == PipeFormat::json), process_(process) {}

  /// Answers one line. Errors: io; cancelled.
  Result<> answer(std::string line) {
    const Conversation before = chat_.conversation;
    chat_.conversation.add(std::move(line));
    if (!chat_.conversation.open_calls().empty()) return {};
    ends_line_ = true;
    ReplyEvents events;
    events.on_deltas = [this](std::span<const text::ReplyDelta> deltas, const ChatCounts&) { return show(deltas); };
    const auto reply = chat_.reply(events, process_.interrupt);
    if (!ends_line_) TESSERA_TRY(print("\n"));
    if (reply) return finish(*reply);
    chat_.conversation = before;
    const bool is_final = reply.error().code() == ErrorCode::cancelled || reply.error().code() == ErrorCode::io;
    if (is_final) return std::unexpected(reply.error());
    return refuse(reply.error());
  }

  size_t n_failed() const { return n_failed_; }

 private:
  Result<> show(std::span<const text::ReplyDelta> deltas) {
    if (is_json_) return {};
    for (const text::ReplyDelta& delta : deltas) {
      if (delta.kind != text::ReplyDelta::Kind::content) continue;
      TESSERA_TRY(print(delta.text));
      ends_line_ = delta.text.ends_with('\n');
    }
    return {};
  }

  Result<> finish(const ChatReply& reply) {
    if (is_json_) {
      TESSERA_TRY(print(reply_json(reply)));
    } else {
      for (const text::ToolCall& call : reply.reply.calls)
        TESSERA_TRY(print(call_text(call.name, call.arguments) + "\n"));
      if (reply.reply.content.empty() && reply.reply.calls.empty()) TESSERA_TRY(print("\n"));
      if (!process_.quiet)
        for (const std::string& warning : reply.reply.warnings) log("warning: " + warning);
    }
    if (process_.verbose || chat_.settings.is_verbose) log(reply_summary(reply));
    if (reply.is_cut) return fail(ErrorCode::cancelled, "stopped");
    return {};
  }

  Result<> refuse(const Error& error) {
    ++n_failed_;
    const std::string message = with_flag_names(error.message());
    if (is_json_)
      return print(PipeJson({{"error", message}}).dump(-1, ' ', false, PipeJson::error_handler_t::replace) + "\n");
    log("error: " + message);
    return {};
  }

  Chat& chat_;
  bool is_json_;
  const Context& process_;
  bool ends_line_ = true;
  size_t n_failed_ = 0;
};

}  // namespace

Result<> run_piped_chat(Chat& chat, PipeFormat format, const std::function<Result<>()>& on_reply,
                        const Context& process) {
  PipedChat piped(chat, format, process);
  LineInput input(kMaxMessageBytes);
  while (true) {
    TESSERA_ASSIGN(std::optional<std::string> line, input.next(process.interrupt));
    if (!line) break;
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    TESSERA_TRY(piped.answer(text::to_valid_utf8(*line)));
    TESSERA_TRY(on_reply());
  }
  if (piped.n_failed() > 0)
    return fail(ErrorCode::invalid_argument, "{} got no reply", counted(piped.n_failed(), "message"));
  return {};
}

std::string reply_summary(const ChatReply& reply) {
  const ChatCounts& counts = reply.counts;
  const ReplyTimes& times = reply.times;
  return fmt::format("prompt {} tokens ({} cached), first token after {:.2f} s; {} new tokens, {:.1f} tokens/s",
                     counts.n_prompt, counts.n_stored, times.first_token, counts.n_generated,
                     per_second(counts.n_generated, times.total - times.first_token));
}

}  // namespace tessera::cli
