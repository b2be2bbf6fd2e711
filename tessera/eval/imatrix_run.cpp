#include "tessera/eval/imatrix_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "tessera/convert/quantize.h"

namespace tessera::eval {

Result<> ImatrixRun::merge(const std::string& path) {
  TESSERA_ASSIGN(convert::Imatrix imatrix, convert::Imatrix::load(path));
  if (!merged_) {
    merged_ = std::move(imatrix);
  } else if (auto added = merged_->add(imatrix); !added) {
    return forward_error(added, path);
  }
  return {};
}

Result<> ImatrixRun::begin(std::string dataset, int64_t n_ctx, bool resumes) {
  collected_.datasets = {std::move(dataset)};
  collected_.chunk_size = static_cast<uint32_t>(n_ctx);
  if (resumes && output_.form == ImatrixForm::dat)
    return fail(ErrorCode::invalid_argument, "{}: the dat format does not record the progress: want gguf",
                output_.path);
  std::error_code error;
  if (!resumes || !std::filesystem::exists(output_.path, error)) return {};
  TESSERA_ASSIGN(convert::Imatrix before, convert::Imatrix::load(output_.path));
  if (before.chunk_size != collected_.chunk_size || before.datasets != collected_.datasets)
    return fail(ErrorCode::mismatch, "{}: chunks of {} tokens of {}, cannot continue with {} of {}", output_.path,
                before.chunk_size, fmt::join(before.datasets, ", "), collected_.chunk_size, collected_.datasets[0]);
  collected_ = std::move(before);
  return {};
}

ProductObserver ImatrixRun::observer() {
  return [this](std::string_view weight, std::span<const float> sums, int64_t n_tokens) {
    collector_.observe(weight, sums, n_tokens);
  };
}

Result<> ImatrixRun::collect(Session& session, const Chunks& chunks, const ChunkRun& run, ThreadPool* threads,
                             FunctionRef<bool(int64_t)> progress, const CancelToken* cancel) {
  TESSERA_TRY(convert::require_other_file(session.engine().files(), output_.path));
  const auto visit = [&](std::span<const ChunkRow> rows) -> Result<> {
    TESSERA_TRY(collector_.status());  // checked first: names the first weight with bad values
    return threads == nullptr ? Result<>() : score(perplexity_, chunks, rows, *threads);
  };
  for (int64_t begin = collected_.n_chunks; begin < chunks.size();) {
    const int64_t end = end_of_group(begin, chunks, run);
    TESSERA_TRY(decode_chunks(session, chunks, {begin, end}, run, visit, cancel));
    collected_.n_chunks = static_cast<uint32_t>(end);
    const bool goes_on = progress(end);
    if (end % output_.save_every == 0) TESSERA_TRY(save());
    if (output_.snapshot_every > 0 && end % output_.snapshot_every == 0)
      TESSERA_TRY(save(fmt::format("{}.at_{}", output_.path, end)));
    if (!goes_on) return fail(ErrorCode::cancelled, "stopped after chunk {} of {}", end, chunks.size());
    begin = end;
  }
  return {};
}

// A group of chunks computed together ends at each save.
int64_t ImatrixRun::end_of_group(int64_t begin, const Chunks& chunks, const ChunkRun& run) const {
  int64_t n = std::min(run.n_parallel(chunks.n_ctx()), chunks.size() - begin);
  n = std::min(n, output_.save_every - begin % output_.save_every);
  if (output_.snapshot_every > 0) n = std::min(n, output_.snapshot_every - begin % output_.snapshot_every);
  return begin + n;
}

Result<convert::Imatrix> ImatrixRun::total() const {
  if (!merged_) return collected_;
  convert::Imatrix all = *merged_;
  if (!collected_.datasets.empty()) TESSERA_TRY(all.add(collected_));
  return all;
}

Result<> ImatrixRun::save(const std::string& path) const {
  TESSERA_ASSIGN(const convert::Imatrix all, total());
  return output_.form == ImatrixForm::dat ? all.save_legacy(path) : all.save(path);
}

}  // namespace tessera::eval
