#include "tessera/cli/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera::cli {
namespace {

// A fence longer than all runs of backticks in the text.
std::string fence_for(std::string_view text) {
  size_t longest = 2;
  for (size_t i = 0, n = 0; i < text.size(); ++i) {
    n = text[i] == '`' ? n + 1 : 0;
    longest = std::max(longest, n);
  }
  return std::string(longest + 1, '`');
}

bool is_answer(const text::ChatMessage& message) { return message.role == "assistant"; }

}  // namespace

std::vector<text::ChatMessage> Conversation::with_system() const {
  std::vector<text::ChatMessage> all;
  if (!system.empty()) all.push_back({.role = "system", .content = system});
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

std::vector<text::ToolCall> Conversation::open_calls() const {
  const auto answer = std::ranges::find_if(messages.rbegin(), messages.rend(), is_answer);
  const auto n_later = static_cast<size_t>(answer - messages.rbegin());
  if (answer == messages.rend() || n_later >= answer->calls.size()) return {};
  const bool are_results =
      std::all_of(messages.rbegin(), answer, [](const auto& later) { return later.role == "tool"; });
  if (!are_results) return {};
  return {answer->calls.begin() + static_cast<std::ptrdiff_t>(n_later), answer->calls.end()};
}

void Conversation::add(std::string text) {
  const std::vector<text::ToolCall> calls = open_calls();
  if (!calls.empty()) {
    messages.push_back({.role = "tool", .content = std::move(text), .call_id = calls.front().id});
    return;
  }
  if (!attached.empty()) text += (text.empty() ? "" : "\n\n") + std::exchange(attached, {});
  messages.push_back({.role = "user", .content = std::move(text)});
}

void Conversation::attach(std::string_view name, std::string_view text) {
  const std::string fence = fence_for(text);
  const bool ends_line = text.empty() || text.ends_with('\n');
  attached +=
      fmt::format("{}{}:\n{}\n{}{}{}", attached.empty() ? "" : "\n\n", name, fence, text, ends_line ? "" : "\n", fence);
}

std::optional<std::string> Conversation::undo() {
  const auto found =
      std::ranges::find(messages.rbegin(), messages.rend(), std::string_view("user"), &text::ChatMessage::role);
  if (found == messages.rend()) return std::nullopt;
  std::string text = std::move(found->content);
  messages.erase(found.base() - 1, messages.end());
  return text;
}

bool Conversation::remove_answer() {
  if (messages.empty() || !is_answer(messages.back())) return false;
  messages.pop_back();
  return true;
}

}  // namespace tessera::cli
