// tessera logits: the logits of a token sequence, as a file that other tools compare.
#include <fmt/format.h>

#include "tessera/base/file.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"

namespace tessera::cli {

namespace {

class LogitsCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.flags.push_back(
        {"--tokens", {}, "1,2,3", "the token ids", "", true, [this](std::string_view text) -> Result<> {
           TESSERA_ASSIGN(ids_, parse_ids(text));
           return {};
         }});
    table.flags.push_back({"--output",
                           {"-o"},
                           "FILE",
                           "int32 n, int32 n_vocab, int32 ids[n], f32 logits[n][n_vocab]",
                           "",
                           true,
                           set_string(output_)});
    context_.add_to(table);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(model_.check());
    TESSERA_TRY(context_.check());
    if (ids_.empty()) return fail(ErrorCode::invalid_argument, "no tokens: give ids with --tokens 1,2,3");
    if (output_.empty()) return fail(ErrorCode::invalid_argument, "no output: give a file with -o FILE");
    return {};
  }

  Result<> run(Context& process) override {
    // A call gives the logits of one micro-batch, so memory does not grow with the sequence.
    const auto n = static_cast<int64_t>(ids_.size());
    if (context_.session.n_ctx == 0) context_.session.n_ctx = n;
    context_.session.n_outputs = std::min(context_.session.n_ubatch, n);
    TESSERA_ASSIGN(const LoadedModel model, load_model(model_, context_, process));
    if (n > model.session->n_ctx())
      return fail(ErrorCode::limit, "{} tokens, the context holds {} (-c sets it)", n, model.session->n_ctx());
    TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(output_));
    const std::array<int32_t, 2> header = {static_cast<int32_t>(n),
                                           static_cast<int32_t>(model.engine->model().info().n_vocab)};
    TESSERA_TRY(file.write(std::as_bytes(std::span(header))));
    TESSERA_TRY(file.write(std::as_bytes(std::span(ids_))));
    for (int64_t begin = 0; begin < n; begin += context_.session.n_outputs) {
      Batch batch;
      for (int64_t i = begin; i < std::min(n, begin + context_.session.n_outputs); ++i)
        batch.add({.token = ids_[static_cast<size_t>(i)], .position = static_cast<int32_t>(i), .wants_logits = true});
      TESSERA_TRY(model.session->decode(batch, &process.interrupt));
      for (int64_t i = 0; i < batch.size(); ++i) TESSERA_TRY(file.write(std::as_bytes(model.session->logits(i))));
    }
    return file.commit();
  }

 private:
  ModelArgs model_;
  ContextArgs context_;
  std::vector<int32_t> ids_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> create_logits_command() { return std::make_unique<LogitsCommand>(); }

}  // namespace tessera::cli
