// tessera verify: checks a model file: its structure, its values, and that its tokenizer restores texts. With a file of
// `tessera logits`, also checks that the model computes the same logits as before.
#include <fmt/format.h>

#include <optional>

#include "tessera/cli/console.h"
#include "tessera/cli/logits_report.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/progress.h"
#include "tessera/convert/verify.h"
#include "tessera/eval/verify_model.h"
#include "tessera/gguf/printable.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

// Results of the checks. The result of a skipped check is absent.
struct Findings {
  uint64_t n_tensors = 0;
  uint64_t n_bytes = 0;
  uint64_t n_blocks = 0;
  std::optional<eval::TokenizerCheck> vocabulary;
  std::optional<eval::ReferenceLogits> reference;
};

class VerifyCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.common("--json", "", "print JSON", set_switch(json_));
    table.common("--reference", "FILE", "logits of this model, written by `tessera logits`", set_string(reference_));
    table.common("--max-nmse", "X", "largest allowed normalised mean squared error of the logits",
                 set_real(max_nmse_, 0.0f, 1e30f));
    context_.add_to(table);
    table.positional = "[MODEL.gguf]";
    table.add_positional = [this, is_first = true](std::string_view text) mutable -> Result<> {
      if (!is_first) return fail(ErrorCode::invalid_argument, "unexpected argument '{}': one model at a time", text);
      is_first = false;
      model_.options.path = text;
      return {};
    };
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(model_.check());
    return context_.check();
  }

  Result<> run(Context& process) override {
    Findings found;
    TESSERA_ASSIGN(const auto files, ModelFiles::open(model_.options.path));
    TESSERA_TRY(check_values(*files, process, found));
    TESSERA_TRY(check_tokenizer(*files, process, found));
    if (!reference_.empty()) TESSERA_TRY(check_logits(process, found));
    return print(json_ ? json_of(found) : text_of(found));
  }

 private:
  Result<> check_values(const ModelFiles& files, Context& process, Findings& found) const {
    TESSERA_ASSIGN(const auto threads, ThreadPool::create(context_.session.threads));
    ProgressBar bar("checking", process.quiet);
    TESSERA_TRY(convert::check_values(files, *threads, [&](float share) {
      bar.update(share);
      return !process.interrupt.cancelled();
    }));
    found.n_tensors = files.tensors().size();
    found.n_bytes = files.n_tensor_bytes();
    found.n_blocks = convert::count_blocks(files);
    return {};
  }

  static Result<> check_tokenizer(const ModelFiles& files, const Context& process, Findings& found) {
    std::string warning;
    TESSERA_ASSIGN(found.vocabulary, eval::check_tokenizer(files, warning));
    if (!warning.empty() && !process.quiet) log("warning: " + warning);
    return {};
  }

  Result<> check_logits(Context& process, Findings& found) {
    TESSERA_ASSIGN(eval::ReferenceLogits reference, eval::ReferenceLogits::open(reference_));
    eval::fit_to_logits(context_.session, reference.ids().size());
    TESSERA_ASSIGN(const LoadedModel model, load_model(model_, context_, process));
    TESSERA_TRY(eval::check_logits(*model.session, reference, double{max_nmse_}, process.interrupt));
    found.reference = std::move(reference);
    return {};
  }

  static std::string text_of(const Findings& found) {
    std::string text = fmt::format("values: {} tensors, {} bytes ({}), {} blocks, all finite\n", found.n_tensors,
                                   found.n_bytes, human_bytes(static_cast<double>(found.n_bytes)), found.n_blocks);
    if (const auto& vocabulary = found.vocabulary) {
      text += fmt::format("tokenizer: {}, {} tokens", printable(vocabulary->model), vocabulary->n_tokens);
      if (vocabulary->n_round_trips > 0) text += fmt::format(", {} texts round-trip", vocabulary->n_round_trips);
      text += '\n';
    }
    if (const auto& reference = found.reference)
      text += fmt::format("logits: {} tokens, normalised mean squared error {:.3g}\n{}", reference->ids().size(),
                          reference->nmse(), position_table(*reference));
    return text;
  }

  static std::string json_of(const Findings& found) {
    std::string text = fmt::format(R"({{"n_tensors": {}, "n_bytes": {}, "n_blocks": {})", found.n_tensors,
                                   found.n_bytes, found.n_blocks);
    if (const auto& vocabulary = found.vocabulary)
      text += fmt::format(R"(, "tokenizer": {{"model": {}, "n_tokens": {}, "n_round_trips": {}}})",
                          text::json_quoted(vocabulary->model), vocabulary->n_tokens, vocabulary->n_round_trips);
    if (const auto& reference = found.reference)
      text += fmt::format(R"(, "reference": {{"n_tokens": {}, "nmse": {}, "positions": {}}})", reference->ids().size(),
                          reference->nmse(), position_json(*reference));
    return text + "}\n";
  }

  ModelArgs model_;
  ContextArgs context_;
  std::string reference_;
  float max_nmse_ = 0.01f;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace tessera::cli
