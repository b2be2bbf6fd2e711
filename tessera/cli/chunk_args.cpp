#include "tessera/cli/chunk_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/cli/console.h"

namespace tessera::cli {

void ChunkArgs::add_to(FlagTable& table) {
  model.add_to(table);
  text.add_to(table);
  context.add_to(table);
  Flag& size = table.at("--ctx-size");
  size.help = "tokens per chunk of text; for choice tests, the limit of a text";
  Setter setter = noting(is_size_given, set_integer(chunks.n_ctx, eval::kMinChunkTokens, kMaxContext));
  size.default_text = std::move(setter.default_text);
  size.set = std::move(setter.set);
  table.common("--chunks", "N", "largest number of chunks to process; -1: all",
               set_integer(chunks.n_max_chunks, -1, INT64_MAX));
}

Result<> ChunkArgs::check() {
  TESSERA_TRY(text.check());
  return context.check();
}

Result<ChunkWork> ChunkArgs::open(Range outputs, Context& process) {
  TESSERA_ASSIGN(const std::string content, text.read(process));
  TESSERA_ASSIGN(LoadedModel opened, open_model(model, context));
  TESSERA_ASSIGN(eval::Chunks cut, eval::Chunks::create(opened.engine->tokenizer(), content, chunks));
  ChunkWork work{.model = std::move(opened), .chunks = std::move(cut), .run = {}, .threads = {}};
  TESSERA_TRY(load(work, outputs, process));
  return work;
}

Result<ChunkWork> ChunkArgs::open(const eval::BaseFile& base, Context& process) {
  if (is_size_given && chunks.n_ctx != base.n_ctx())
    return fail(ErrorCode::mismatch, "{}: chunks of {} tokens, but -c is {}", base.path(), base.n_ctx(), chunks.n_ctx);
  TESSERA_ASSIGN(LoadedModel opened, open_model(model, context));
  TESSERA_ASSIGN(eval::Chunks cut, base.chunks(opened.engine->vocab(), chunks.n_max_chunks));
  TESSERA_TRY(require_same(base, cut, opened.engine->tokenizer(), process));
  ChunkWork work{.model = std::move(opened), .chunks = std::move(cut), .run = {}, .threads = {}};
  TESSERA_TRY(load(work, eval::scored_positions(base.n_ctx()), process));
  return work;
}

// A text given together with a base file is compared with the base file's tokens.
Result<> ChunkArgs::require_same(const eval::BaseFile& base, const eval::Chunks& of_base,
                                 const text::Tokenizer& tokenizer, const Context& process) const {
  if (!text.text && text.file.empty()) return {};
  TESSERA_ASSIGN(const std::string content, text.read(process));
  TESSERA_ASSIGN(
      const eval::Chunks given,
      eval::Chunks::create(tokenizer, content, {.n_ctx = base.n_ctx(), .n_max_chunks = chunks.n_max_chunks}));
  const auto ours = given.text_tokens(), theirs = of_base.text_tokens();
  const auto [here, there] = std::ranges::mismatch(ours, theirs);
  if (there == theirs.end()) return {};
  const auto i = there - theirs.begin();
  if (here == ours.end())
    return fail(ErrorCode::mismatch, "{}: made from a longer text of {} chunks, the given text has {}", base.path(),
                base.n_chunks(), given.size());
  return fail(ErrorCode::mismatch, "{}: made from another text: token {} is {}, but {} in the given text", base.path(),
              i, *there, *here);
}

Result<> ChunkArgs::load(ChunkWork& work, Range outputs, Context& process) {
  // A decode call returns the logits of one micro-batch, so memory does not grow with the chunk.
  work.run = {.n_call = std::min(context.n_batch, context.session.n_ubatch), .outputs = outputs};
  work.run.set_up(context.session, work.chunks.n_ctx());
  TESSERA_ASSIGN(work.threads, create_side_threads(context));
  return load_session(work.model, context, process);
}

std::string running_ppl(const eval::PerplexityEstimate& estimate) {
  return estimate.n_tokens == 0 ? "" : fmt::format("PPL = {:.4f} +/- {:.4f}", estimate.ppl, estimate.error);
}

}  // namespace tessera::cli
