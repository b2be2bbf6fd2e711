#include "tessera/server/api/openai_format.h"

#include <algorithm>
#include <chrono>
#include <random>

namespace tessera::server {

std::string new_id(std::string_view prefix) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::mt19937_64 random(std::random_device{}());
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

void OpenAiHead::write(JsonWriter& writer, std::string_view object, const Usage* usage) const {
  writer.member("created", created_s).member("model", model).member("system_fingerprint", fingerprint);
  writer.member("object", object);
  if (usage != nullptr) write_usage(writer.key("usage"), *usage);
  writer.member("id", id);
}

const char* finish_reason_of(EndReason reason) {
  return reason == EndReason::eos || reason == EndReason::stop_word ? "stop" : "length";
}

void write_usage(JsonWriter& writer, const Usage& usage) {
  writer.begin_object().member("completion_tokens", usage.n_generated).member("prompt_tokens", usage.n_prompt);
  writer.member("total_tokens", usage.n_prompt + usage.n_generated);
  writer.key("prompt_tokens_details").begin_object().member("cached_tokens", usage.n_cached).end_object();
  if (usage.n_reasoning >= 0) {
    writer.key("completion_tokens_details").begin_object();
    writer.member("reasoning_tokens", usage.n_reasoning).end_object();
  }
  writer.end_object();
}

}  // namespace tessera::server
