// tessera tokenize: converts text to token ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/cli/console.h"
#include "tessera/cli/json_text.h"
#include "tessera/cli/text_args.h"
#include "tessera/cli/vocab_args.h"

namespace tessera::cli {

namespace {

class TokenizeCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    vocab_.add_to(table, "the text is a JSON array of strings; prints a JSON array of id arrays",
                  "add BOS and EOS as the model does, and read special tokens in the text");
    text_.add_to(table);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(vocab_.check());
    return text_.check();
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto tokenizer, vocab_.open(process));
    TESSERA_ASSIGN(const std::string text, text_.read(process));
    const text::TokenizeOptions options{.add_special = vocab_.special, .parse_special = vocab_.special};
    if (!vocab_.json) {
      TESSERA_ASSIGN(const auto ids, tokenizer->tokenize(text, options));
      return print(fmt::format("[{}]\n", fmt::join(ids, ", ")));
    }
    TESSERA_ASSIGN(const auto texts, parse_json_texts(text));
    Output out;
    TESSERA_TRY(out.append("["));
    for (size_t i = 0; i < texts.size(); ++i) {
      auto ids = tokenizer->tokenize(texts[i], options);
      if (!ids) return forward_error(ids, fmt::format("element {}", i));
      TESSERA_TRY(out.append(fmt::format("{}[{}]", i == 0 ? "" : ",\n", fmt::join(*ids, ","))));
    }
    TESSERA_TRY(out.append("]\n"));
    return out.finish();
  }

 private:
  VocabArgs vocab_;
  TextArgs text_;
};

}  // namespace

std::unique_ptr<Command> create_tokenize_command() { return std::make_unique<TokenizeCommand>(); }

}  // namespace tessera::cli
