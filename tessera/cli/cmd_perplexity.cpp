// tessera perplexity: how well a model predicts a text.
#include <fmt/format.h>

#include "tessera/cli/chunk_args.h"
#include "tessera/cli/console.h"
#include "tessera/cli/json_text.h"

namespace tessera::cli {

namespace {

class PerplexityCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    table.flags.push_back({"--json", {}, "", "print a JSON object", "", true, set_switch(is_json_)});
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(args_.model.check());
    if (args_.chunks.n_max_chunks == 0) return fail(ErrorCode::invalid_argument, "--chunks 0: nothing to measure");
    return args_.check();
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(ChunkWork work, args_.open(eval::scored_positions(args_.chunks.n_ctx), process));
    TESSERA_ASSIGN(const eval::PerplexityEstimate estimate, measure(work, process));
    if (!is_json_) return print(fmt::format("Final estimate: PPL = {:.4f} +/- {:.5f}\n", estimate.ppl, estimate.error));
    return print(
        fmt::format("{{\"model\": {}, \"text\": {}, \"context\": {}, \"chunks\": {}, \"tokens\": {}, "
                    "\"ppl\": {}, \"error\": {}}}\n",
                    json_quoted(args_.model.path), json_quoted(args_.text.file), work.chunks.n_ctx(),
                    work.chunks.size(), estimate.n_tokens, estimate.ppl, estimate.error));
  }

 private:
  static Result<eval::PerplexityEstimate> measure(ChunkWork& work, const Context& process) {
    eval::Perplexity perplexity;
    const eval::Chunks& chunks = work.chunks;
    ChunkProgress progress(chunks.size(), 0, process);
    const int64_t n_parallel = work.run.n_parallel(chunks.n_ctx());
    for (int64_t begin = 0; begin < chunks.size(); begin += n_parallel) {
      const Range which{begin, std::min(begin + n_parallel, chunks.size())};
      TESSERA_TRY(eval::decode_chunks(
          *work.model.session, chunks, which, work.run,
          [&](int64_t chunk, int64_t position, std::span<const float> logits) {
            return eval::score(perplexity, chunks, chunk, position, logits);
          },
          &process.interrupt));
      progress.update(which.end, perplexity.estimate());
    }
    return perplexity.estimate();
  }

  ChunkArgs args_;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_perplexity_command() { return std::make_unique<PerplexityCommand>(); }

}  // namespace tessera::cli
