#include "tessera/cli/chunk_args.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tessera/cli/console.h"

namespace tessera::cli {

void ChunkArgs::add_to(FlagTable& table) {
  auto& f = table.flags;
  model.add_to(table);
  text.add_to(table);
  context.add_to(table);
  Flag& size = *std::ranges::find(f, "--ctx-size", &Flag::name);
  size.help = "tokens of a chunk";
  size.default_text = "512";
  size.set = set_integer(chunks.n_ctx, eval::kMinChunkTokens, kMaxContext);
  f.push_back({"--chunks",
               {},
               "N",
               "the most chunks of the text to go over; -1: all",
               "-1",
               true,
               set_integer(chunks.n_max_chunks, -1, INT64_MAX)});
}

Result<> ChunkArgs::check() {
  TESSERA_TRY(text.check());
  return context.check();
}

Result<ChunkWork> ChunkArgs::open(Range outputs, Context& process) {
  TESSERA_ASSIGN(const std::string content, text.read(process));
  ChunkWork work;
  TESSERA_ASSIGN(work.model, open_model(model, context));
  TESSERA_ASSIGN(work.chunks, eval::Chunks::create(work.model.engine->tokenizer(), content, chunks));
  // A call gives the logits of one micro-batch, so memory does not grow with the chunk.
  work.run = {.n_call = std::min(context.n_batch, context.session.n_ubatch), .outputs = outputs};
  work.run.set_up(context.session, chunks.n_ctx);
  TESSERA_ASSIGN(const MemoryReport report, Session::plan(*work.model.engine, context.session));
  TESSERA_TRY(want_memory(*work.model.engine, report));
  TESSERA_TRY(load_weights(*work.model.engine, process));
  TESSERA_ASSIGN(work.model.session, Session::create(work.model.engine, context.session));
  return work;
}

ChunkProgress::ChunkProgress(int64_t n_chunks, int64_t n_before, const Context& process)
    : n_chunks_(n_chunks), n_before_(n_before), hidden_(process.quiet) {}

ChunkProgress::~ChunkProgress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ChunkProgress::update(int64_t n_done, const eval::PerplexityEstimate& estimate) {
  if (hidden_) return;
  std::string line = fmt::format("chunk {} of {}", n_done, n_chunks_);
  if (estimate.n_tokens > 0) line += fmt::format(", PPL = {:.4f}", estimate.ppl);
  if (!stderr_is_terminal()) return log(line);
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  const double left =
      elapsed.count() / static_cast<double>(n_done - n_before_) * static_cast<double>(n_chunks_ - n_done);
  line += fmt::format(", {:%T} left", std::chrono::seconds(static_cast<int64_t>(left)));
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  drawn_ = true;
}

}  // namespace tessera::cli
