#include "tessera/cli/chat.h"

#include <chrono>

#include "tessera/cli/template_batch.h"
#include "tessera/text/chat/reply_grammar.h"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Chat::Chat(LoadedModel model, text::ChatTemplate chat_template, int64_t n_batch, std::unique_ptr<Speculator> speculator)
    : model_(std::move(model)),
      n_batch_(n_batch),
      speculator_(std::move(speculator)),
      session_(std::make_unique<ChatSession>(model_.engine, *model_.session, std::move(chat_template))) {}

Result<> Chat::set_tools(std::string json) {
  size_t n_tools = 0;
  if (!json.empty()) {
    TESSERA_ASSIGN(const auto tools, text::parse_reply_tools(json));
    n_tools = tools.size();
    if (!settings.has_free_calls) {
      const auto grammar =
          text::reply_grammar(session_->chat_template().reply_family(), {.tools = tools}, "", true, {});
      if (!grammar)
        return fail(ErrorCode::format, "{} (\"strict\": false allows any arguments)", grammar.error().text());
    }
  }
  tools_ = n_tools == 0 ? "" : std::move(json);
  n_tools_ = n_tools;
  return {};
}

ChatOptions Chat::options(std::optional<int64_t> seed) const {
  ChatOptions options{.tools = tools_, .variables = variables, .grammar = grammar, .now = local_time()};
  settings.apply_to(options);
  options.generate.n_batch = n_batch_;
  options.generate.speculator = speculator_.get();
  if (seed) options.sampling.seed = *seed;
  return options;
}

Result<ChatReply> Chat::reply(const ReplyEvents& events, const CancelToken& cancel, std::optional<int64_t> seed) {
  const auto hand_over = [&]() -> Result<> {
    return events.on_deltas ? events.on_deltas(session_->deltas(), session_->counts()) : Result<>();
  };
  ChatReply result;
  const auto start = Clock::now();
  TESSERA_TRY(session_->start(conversation.with_system(), options(seed), &cancel, events.on_prompt));
  result.times.first_token = seconds_since(start);
  if (events.on_first_token) events.on_first_token();
  while (true) {
    const Result<bool> goes_on = session_->step(&cancel);
    result.is_cut = !goes_on && goes_on.error().code() == ErrorCode::cancelled;
    if (!goes_on && !result.is_cut) return std::unexpected(goes_on.error());
    if (result.is_cut || !*goes_on) break;
    if (session_->counts().n_reasoning == session_->counts().n_generated) result.times.reasoning = seconds_since(start);
    TESSERA_TRY(hand_over());
  }
  result.reply = session_->finish();
  TESSERA_TRY(hand_over());
  result.times.total = seconds_since(start);
  result.stop = session_->stop_reason();
  result.counts = session_->counts();
  if (result.is_cut && result.counts.n_generated == 0)
    return fail(ErrorCode::cancelled, "stopped before the first token");
  conversation.messages.push_back({.role = "assistant",
                                   .content = result.reply.content,
                                   .reasoning = result.reply.reasoning,
                                   .calls = result.reply.calls,
                                   .is_cut = result.is_cut});
  last_reply_ = result;
  return result;
}

Result<TokenizedPrompt> Chat::prompt() const { return session_->prompt(conversation.with_system(), options({})); }

}  // namespace tessera::cli
