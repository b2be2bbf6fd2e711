#include "tessera/engine/chat_template_loader.h"

#include "tessera/gguf/keys.h"

namespace tessera {
namespace {

constexpr std::string_view kChatTemplateOfTools = "tokenizer.chat_template.tool_use";

std::string token_text(const text::Vocab& vocab, text::SpecialToken which) {
  const auto id = vocab.special(which);
  return id && vocab.has_text() ? std::string(vocab.text(*id)) : "";
}

}  // namespace

Result<std::optional<std::string>> load_chat_template(const Metadata& metadata, bool has_tools) {
  for (const std::string_view key : {kChatTemplateOfTools, keys::kChatTemplate}) {
    if ((key == kChatTemplateOfTools && !has_tools) || metadata.find(key) == nullptr) continue;
    TESSERA_ASSIGN(const auto source, metadata.get<std::string_view>(key));
    return std::string(source);
  }
  return std::nullopt;
}

text::ChatTokens chat_tokens(const text::Vocab& vocab) {
  return {.bos = token_text(vocab, text::SpecialToken::bos),
          .eos = token_text(vocab, text::SpecialToken::eos),
          .adds_bos = vocab.add_bos(),
          .adds_eos = vocab.add_eos()};
}

}  // namespace tessera
