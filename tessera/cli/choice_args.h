// Multiple-choice tests that perplexity runs instead of measuring a text: --hellaswag, --winogrande, --multiple-choice.
#pragma once

#include <string>
#include <string_view>

#include "tessera/cli/model_args.h"
#include "tessera/cli/text_args.h"
#include "tessera/eval/choices.h"

namespace tessera::cli {

struct ChoiceArgs {
  bool is_hellaswag = false, is_winogrande = false, is_multiple_choice = false;
  int64_t n_hellaswag_tasks = 400, n_winogrande_tasks = 0, n_multiple_choice_tasks = 0;  // 0: all
  std::string binary_path;

  void add_to(FlagTable& table);
  bool is_wanted() const { return is_hellaswag || is_winogrande || is_multiple_choice; }
  /// Returns "--hellaswag", "--winogrande" or "--multiple-choice". Requires is_wanted().
  std::string_view mode_flag() const;
  /// Errors: invalid_argument.
  Result<> check() const;
  /// Reads the tasks, loads the model, and prints the score. context.session.n_ctx bounds the tokens of a text.
  Result<> run(const ModelArgs& model, ContextArgs& context, const TextArgs& text, bool is_json, Context& process);

 private:
  eval::ChoiceForm form() const;
  int64_t n_wanted_tasks() const;
  Result<std::string> read(const TextArgs& text, const Context& process) const;
};

}  // namespace tessera::cli
