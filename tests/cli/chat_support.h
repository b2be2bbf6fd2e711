// Chats for tests: in the process of the test, with the bundled model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/cli/chat.h"
#include "tessera/cli/model_args.h"
#include "tessera/engine/chat_template_loader.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// A template that shows roles and contents.
inline constexpr std::string_view kPlainChatTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}";

/// A chat with a context of 256 tokens.
inline std::unique_ptr<cli::Chat> open_chat(std::string_view source = kPlainChatTemplate) {
  cli::ContextArgs context;
  context.session.n_ctx = 256;
  context.session.threads.n_threads = 1;
  CancelToken interrupt;
  auto model = cli::load_model({.may_be_bundled = true}, context, {.interrupt = interrupt, .quiet = true});
  EXPECT_OK(model);
  auto chat_template = text::ChatTemplate::create(std::string(source), chat_tokens(model->engine->vocab()));
  EXPECT_TRUE(chat_template.has_value());
  return std::make_unique<cli::Chat>(std::move(*model), std::move(*chat_template), 64);
}

}  // namespace tessera::testing
