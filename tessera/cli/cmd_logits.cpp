// tessera logits: writes the logits of a token sequence to a file for comparison, or prints their errors against such a
// file.
#include <algorithm>
#include <array>
#include <optional>

#include "tessera/base/file.h"
#include "tessera/cli/console.h"
#include "tessera/cli/logits_report.h"
#include "tessera/cli/model_args.h"

namespace tessera::cli {

namespace {

class LogitsCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.common("--tokens", "1,2,3", "the token ids", [this](std::string_view text) -> Result<> {
      TESSERA_ASSIGN(ids_, parse_ids(text));
      return {};
    });
    table.common("--output -o", "FILE", "file to write: int32 n, int32 n_vocab, int32 ids[n], f32 logits[n][n_vocab]",
                 set_string(output_));
    table.common("--reference", "FILE",
                 "print the error per position against the logits in this file; without --tokens, use its tokens",
                 set_string(reference_));
    context_.add_to(table);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(model_.check());
    TESSERA_TRY(context_.check());
    if (ids_.empty() && reference_.empty())
      return fail(ErrorCode::invalid_argument, "no tokens: give ids with --tokens 1,2,3");
    if (output_.empty() && reference_.empty())
      return fail(ErrorCode::invalid_argument,
                  "no output: give a file with -o FILE, or one to compare with --reference");
    return {};
  }

  Result<> run(Context& process) override {
    std::optional<eval::ReferenceLogits> reference;
    if (!reference_.empty()) {
      TESSERA_ASSIGN(reference, eval::ReferenceLogits::open(reference_));
      if (ids_.empty()) ids_.assign(reference->ids().begin(), reference->ids().end());
      if (!std::ranges::equal(ids_, reference->ids()))
        return fail(ErrorCode::mismatch, "{}: contains the logits of other tokens", reference_);
    }
    eval::fit_to_logits(context_.session, ids_.size());
    TESSERA_ASSIGN(const LoadedModel model, load_model(model_, context_, process));
    std::optional<AtomicFile> file;
    if (!output_.empty()) {
      TESSERA_ASSIGN(AtomicFile created, AtomicFile::create(output_));
      file.emplace(std::move(created));
      const std::array<int32_t, 2> header = {static_cast<int32_t>(ids_.size()),
                                             static_cast<int32_t>(model.engine->model().info().n_vocab)};
      TESSERA_TRY(file->write(std::as_bytes(std::span(header))));
      TESSERA_TRY(file->write(std::as_bytes(std::span(ids_))));
    }
    TESSERA_TRY(
        eval::for_each_logits(*model.session, ids_, process.interrupt, [&](std::span<const float> logits) -> Result<> {
          if (reference) TESSERA_TRY(reference->compare_next(logits));
          return file ? file->write(std::as_bytes(logits)) : Result<>{};
        }));
    if (file) TESSERA_TRY(file->commit());
    return reference ? print(position_table(*reference)) : Result<>{};
  }

 private:
  ModelArgs model_;
  ContextArgs context_;
  std::vector<int32_t> ids_;
  std::string output_, reference_;
};

}  // namespace

std::unique_ptr<Command> create_logits_command() { return std::make_unique<LogitsCommand>(); }

}  // namespace tessera::cli
