// tessera.h: importance matrices.
#include "tessera/base/file.h"
#include "tessera/capi/chunks.h"
#include "tessera/eval/imatrix_run.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_imatrix_options kImatrixDefaults = {};
constexpr uint32_t kImatrixFlags =
    TESSERA_IMATRIX_OUTPUT_WEIGHT | TESSERA_IMATRIX_RESUME | TESSERA_IMATRIX_NO_PERPLEXITY | TESSERA_IMATRIX_DAT;

struct Collection {
  tessera_imatrix_options options{};
  eval::ImatrixOutput output{};
  eval::ChunkOptions chunks{};
  std::string_view text{};

  bool has(uint32_t flag) const { return (options.flags & flag) != 0; }
};

Result<Collection> read_collection(const tessera_imatrix_options* options, const char* output) {
  Collection wanted;
  TESSERA_ASSIGN(wanted.options, capi::read_sized(options, kImatrixDefaults, "options"));
  const tessera_imatrix_options& given = wanted.options;
  TESSERA_TRY(capi::require_flags(given.flags, kImatrixFlags));
  TESSERA_ASSIGN(wanted.output.path, capi::require_text(output, "output"));
  wanted.output.form =
      wanted.has(TESSERA_IMATRIX_DAT) ? eval::ImatrixForm::dat : eval::imatrix_form_of(wanted.output.path);
  TESSERA_ASSIGN(wanted.output.save_every, capi::count_or(given.save_every, 10, "save_every"));
  TESSERA_ASSIGN(wanted.output.snapshot_every, capi::count_or(given.snapshot_every, 0, "snapshot_every"));
  TESSERA_ASSIGN(wanted.chunks.n_ctx, capi::count_or(given.n_ctx, capi::kUsualChunkTokens, "n_ctx"));
  TESSERA_ASSIGN(wanted.chunks.n_skip, capi::count_or(given.n_skip, 0, "n_skip"));
  TESSERA_ASSIGN(wanted.chunks.n_max_chunks, capi::max_chunks(given.n_chunks));
  if (wanted.has(TESSERA_IMATRIX_RESUME) && given.n_merged > 0)
    return fail(ErrorCode::invalid_argument, "TESSERA_IMATRIX_RESUME and merged: set one of them");
  return wanted;
}

Result<> merge_files(const tessera_imatrix_options& options, eval::ImatrixRun& run) {
  TESSERA_ASSIGN(const auto paths, capi::read_items(options.merged, options.n_merged, "merged"));
  for (const char* const path : paths) {
    TESSERA_ASSIGN(const std::string file, capi::require_text(path, "merged"));
    TESSERA_TRY(run.merge(file));
  }
  return {};
}

Result<> collect_imatrix(const tessera_model& model, const Collection& wanted, eval::ImatrixRun& run,
                         const capi::Progress& progress) {
  const char* const name = wanted.options.text_name;
  TESSERA_TRY(run.begin(name == nullptr ? "(prompt)" : name, wanted.chunks.n_ctx, wanted.has(TESSERA_IMATRIX_RESUME)));
  TESSERA_ASSIGN(SessionOptions options, capi::chunk_session_options(model, wanted.options.session));
  options.observer = run.observer();
  TESSERA_ASSIGN(const auto chunks, eval::Chunks::create(model.engine->tokenizer(), wanted.text, wanted.chunks));
  // The last layer computes only tokens with logits, so all tokens need them.
  TESSERA_ASSIGN(const auto work, capi::create_chunk_session(model, options, chunks.n_ctx(), {0, chunks.n_ctx()}));
  ThreadPool* const scorers = wanted.has(TESSERA_IMATRIX_NO_PERPLEXITY) ? nullptr : work.threads.get();
  const auto show = [&](int64_t n) { return progress(static_cast<float>(n) / static_cast<float>(chunks.size())); };
  return run.collect(*work.session, chunks, work.run, scorers, show, progress.cancel());
}

Result<tessera_imatrix_info> imatrix_info_of(const eval::ImatrixRun& run) {
  TESSERA_ASSIGN(const convert::Imatrix all, run.total());
  const eval::PerplexityEstimate perplexity = run.perplexity();
  tessera_imatrix_info info{};
  info.n_weights = all.entries.size();
  info.n_chunks = all.n_chunks;
  info.n_scored = perplexity.n_tokens;
  info.perplexity = perplexity.ppl;
  info.perplexity_error = perplexity.error;
  return info;
}

}  // namespace

void tessera_imatrix_options_init(tessera_imatrix_options* options, size_t size) {
  capi::write_sized(options, size, kImatrixDefaults);
}

tessera_status tessera_imatrix_collect(tessera_model* model, const char* text, int64_t length, const char* output,
                                       const tessera_imatrix_options* options, tessera_progress_function progress,
                                       void* user, tessera_cancel* cancel, tessera_imatrix_info* info,
                                       tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_ASSIGN(Collection wanted, read_collection(options, output));
    TESSERA_ASSIGN(const auto shown, capi::progress_of(progress, user, cancel));
    TESSERA_TRY(capi::require_info(info));
    const bool only_merges = model == nullptr && text == nullptr && wanted.options.n_merged > 0;
    if (!only_merges) {
      TESSERA_TRY(capi::require(model, "model"));
      TESSERA_ASSIGN(wanted.text, capi::read_text(text, length, "text"));
    }
    using Output = eval::ImatrixCollector::Output;
    eval::ImatrixRun run(wanted.output, wanted.has(TESSERA_IMATRIX_OUTPUT_WEIGHT) ? Output::collect : Output::skip);
    TESSERA_TRY(merge_files(wanted.options, run));
    TESSERA_TRY(AtomicFile::create(wanted.output.path));  // before long work
    if (!only_merges) TESSERA_TRY(collect_imatrix(*model, wanted, run, shown));
    TESSERA_TRY(run.save());
    TESSERA_ASSIGN(const auto collected, imatrix_info_of(run));
    capi::write_info(info, collected);
    return {};
  });
}
