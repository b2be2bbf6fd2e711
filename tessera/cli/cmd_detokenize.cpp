// tessera detokenize: converts token ids to text.
#include <fmt/format.h>

#include "tessera/cli/console.h"
#include "tessera/cli/json_text.h"
#include "tessera/cli/text_args.h"
#include "tessera/cli/vocab_args.h"
#include "tessera/text/detokenize.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

class DetokenizeCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    vocab_.add_to(table, "the input is a JSON array of id arrays; prints a JSON array of strings",
                  "print special tokens too");
    table.positional = "[IDS]";
    table.add_positional = [this](std::string_view text) -> Result<> {
      ids_.append(text).append(" ");
      return {};
    };
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(vocab_.check());
    if (!vocab_.json) TESSERA_TRY(parse_ids(ids_));
    return {};
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto tokenizer, vocab_.open(process));
    std::string input = ids_;
    if (input.empty()) {
      TESSERA_ASSIGN(input, read_text("", process));
    }
    const text::DetokenizeOptions options{.render_special = vocab_.special};
    if (!vocab_.json) {
      TESSERA_ASSIGN(const auto ids, parse_ids(input));
      TESSERA_ASSIGN(const std::string text, text::detokenize(*tokenizer, ids, options));
      return print(text + "\n");
    }
    TESSERA_ASSIGN(const auto lists, parse_json_id_lists(input));
    Output out;
    TESSERA_TRY(out.append("["));
    for (size_t i = 0; i < lists.size(); ++i) {
      auto text = text::detokenize(*tokenizer, lists[i], options);
      if (!text) return forward_error(text, fmt::format("list {}", i));
      TESSERA_TRY(out.append((i == 0 ? "" : ",\n") + text::json_quoted(*text)));
    }
    TESSERA_TRY(out.append("]\n"));
    return out.finish();
  }

 private:
  VocabArgs vocab_;
  std::string ids_;  // from the arguments
};

}  // namespace

std::unique_ptr<Command> create_detokenize_command() { return std::make_unique<DetokenizeCommand>(); }

}  // namespace tessera::cli
