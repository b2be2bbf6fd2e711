#include "tessera/cli/chat_show.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/cli/chat_pipe.h"
#include "tessera/cli/cluster.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_facts.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kSubjects[] = {"info", "template", "prompt", "tokens", "stats", "memory"};
constexpr std::string_view kUnderline = "\x1b[4m", kNoUnderline = "\x1b[24m";

// "1.92M parameters".
std::string size_text(const ModelFiles& files) {
  const auto n = static_cast<double>(count_parameters(files));
  if (n >= 1e9) return fmt::format("{:.2f}B parameters", n / 1e9);
  return fmt::format("{:.2f}M parameters", n / 1e6);
}

std::string show_info(const Chat& chat) {
  const Engine& engine = *chat.model().engine;
  const ModelFiles& files = engine.files();
  const text::ChatCapabilities& caps = chat.session().chat_template().capabilities();
  std::vector<std::string_view> abilities;
  for (const auto& [has, name] : {std::pair(caps.system, "system message"), std::pair(caps.tools, "tools"),
                                  std::pair(caps.reasoning_marker, "reasoning")})
    if (has) abilities.push_back(name);
  const std::vector<std::vector<std::string>> rows = {
      {"model", model_name(engine)},
      {"file", visible(files.name())},
      {"architecture", visible(engine.model().info().architecture)},
      {"size", fmt::format("{}, mostly {}", size_text(files), main_format(files))},
      {"context", fmt::format("{} tokens", chat.model().session->n_ctx())},
      {"template", abilities.empty() ? "plain messages" : fmt::format("with {}", fmt::join(abilities, ", "))},
      {"replies", fmt::format("read as {}", chat.session().chat_template().reply_family().name)},
      {"system", chat.conversation.system.empty() ? "none" : visible(chat.conversation.system)},
      {"tools", std::to_string(chat.n_tools())},
      {"messages", std::to_string(chat.conversation.messages.size())},
  };
  return format_table(rows, "ll");
}

Result<std::string> show_prompt(const Chat& chat, bool has_styles) {
  TESSERA_ASSIGN(const TokenizedPrompt prompt, chat.prompt());
  const text::MarkedText& rendered = prompt.prompt.prompt;
  std::string shown;
  text::for_each_piece({rendered.text, rendered.given}, [&](std::string_view piece, text::Origin origin) {
    const bool is_underlined = has_styles && origin == text::Origin::given;
    shown += fmt::format("{}{}{}", is_underlined ? kUnderline : "", visible(piece, "\n\t"),
                         is_underlined ? kNoUnderline : "");
  });
  return shown + "\n";
}

Result<std::string> show_tokens(const Chat& chat) {
  TESSERA_ASSIGN(const TokenizedPrompt prompt, chat.prompt());
  const text::Tokenizer& tokenizer = chat.model().engine->tokenizer();
  std::string shown;
  for (const int32_t token : prompt.tokens) {
    std::string piece;
    tokenizer.append_piece(token, piece);
    shown += fmt::format("{:>7}  {}\n", token, visible(text::json_quoted(piece)));
  }
  return shown + fmt::format("{} tokens\n", prompt.tokens.size());
}

std::string show_stats(const Chat& chat) {
  const std::optional<ChatReply>& reply = chat.last_reply();
  if (!reply) return "no reply yet\n";
  std::string shown = reply_summary(*reply) + "\n";
  if (reply->counts.n_reasoning > 0)
    shown += fmt::format("reasoning {} tokens, {:.2f} s\n", reply->counts.n_reasoning, reply->times.reasoning);
  if (reply->counts.n_dropped > 0)
    shown += fmt::format("{} oldest messages are not part of the prompt\n", reply->counts.n_dropped);
  return shown;
}

}  // namespace

std::span<const std::string_view> show_subjects() { return kSubjects; }

Result<std::string> show(const Chat& chat, std::string_view subject, bool has_styles) {
  if (subject == "info") return show_info(chat);
  if (subject == "template") return visible(chat.session().chat_template().source(), "\n\t") + "\n";
  if (subject == "prompt") return show_prompt(chat, has_styles);
  if (subject == "tokens") return show_tokens(chat);
  if (subject == "stats") return show_stats(chat);
  if (subject == "memory") return memory_table(chat.model().session->allocated_memory());
  return fail(ErrorCode::not_found, "unknown subject '{}', known: {}", subject, fmt::join(kSubjects, ", "));
}

std::string model_line(const Chat& chat) {
  const Engine& engine = *chat.model().engine;
  return fmt::format("{}, {}, {}, context {} tokens", model_name(engine), size_text(engine.files()),
                     main_format(engine.files()), chat.model().session->n_ctx());
}

}  // namespace tessera::cli
