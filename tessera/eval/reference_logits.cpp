#include "tessera/eval/reference_logits.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "tessera/base/bytes.h"
#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera::eval {

Result<ReferenceLogits> ReferenceLogits::open(const std::string& path) {
  TESSERA_ASSIGN(const File file, File::open(path));
  TESSERA_ASSIGN(auto map, MappedFile::map(file));
  TESSERA_ASSIGN(auto reference, parse(map->bytes(), path));
  reference.map_ = std::move(map);
  return reference;
}

Result<ReferenceLogits> ReferenceLogits::parse(std::span<const std::byte> bytes, std::string name) {
  ReferenceLogits reference;
  ByteReader in(bytes);
  auto n = in.read<int32_t>();
  auto n_vocab = in.read<int32_t>();
  if (!n || !n_vocab) return fail(ErrorCode::format, "{}: {} bytes are no logits", name, bytes.size());
  if (*n < 1 || *n_vocab < 1)
    return fail(ErrorCode::format, "{}: {} tokens of a vocabulary of {}: no logits of `tessera logits`", name, *n,
                *n_vocab);
  const auto n_rows = static_cast<uint64_t>(*n), n_columns = static_cast<uint64_t>(*n_vocab);
  const auto n_numbers = checked_mul(n_rows, n_columns + 1);  // an id and its logits
  const auto n_bytes = n_numbers ? checked_mul<uint64_t>(*n_numbers, sizeof(float)) : std::nullopt;
  if (!n_bytes || *n_bytes != in.remaining())
    return fail(ErrorCode::format, "{}: {} bytes are not the logits of {} tokens of a vocabulary of {}", name,
                bytes.size(), *n, *n_vocab);
  for (uint64_t i = 0; i < n_rows; ++i) {
    TESSERA_ASSIGN(const int32_t id, in.read<int32_t>());
    if (id < 0 || id >= *n_vocab)
      return fail(ErrorCode::format, "{}: token {} is {}, want 0 to {}", name, i, id, *n_vocab - 1);
    reference.ids_.push_back(id);
  }
  TESSERA_ASSIGN(reference.logits_, in.take(in.remaining()));
  reference.n_vocab_ = *n_vocab;
  reference.name_ = std::move(name);
  return reference;
}

Result<> ReferenceLogits::compare_next(std::span<const float> logits) {
  if (std::cmp_not_equal(logits.size(), n_vocab_))
    return fail(ErrorCode::mismatch, "{}: logits of {} tokens, the model has {}", name_, n_vocab_, logits.size());
  const size_t i = rows_.size();
  const auto row = logits_.subspan(i * logits.size_bytes(), logits.size_bytes());
  RowError found;
  SquaredError sum;
  float highest = -std::numeric_limits<float>::infinity();
  size_t top = 0;
  for (size_t j = 0; j < logits.size(); ++j) {
    float want;
    std::memcpy(&want, row.data() + j * sizeof(float), sizeof(float));
    if (!std::isfinite(want)) return fail(ErrorCode::format, "{}: logit {} after token {} is {}", name_, j, i, want);
    const auto a = static_cast<double>(want), b = static_cast<double>(logits[j]);
    sum.add(a, b);
    const double difference = std::abs(b - a);
    if (std::isnan(difference) || difference > found.max_difference) found.max_difference = difference;  // NaN stays
    if (want > highest) highest = want, top = j;
  }
  all_.add(sum);
  found.nmse = sum.nmse();
  found.same_top = std::ranges::max_element(logits) == logits.begin() + static_cast<ptrdiff_t>(top);
  rows_.push_back(found);
  return {};
}

void fit_to_logits(SessionOptions& options, size_t n) {
  if (options.n_ctx == 0) options.n_ctx = static_cast<int64_t>(n);
  options.n_outputs = std::min(options.n_ubatch, static_cast<int64_t>(n));
}

Result<> for_each_logits(Session& session, std::span<const int32_t> ids, const CancelToken& interrupt,
                         FunctionRef<Result<>(std::span<const float>)> visit) {
  const auto n = static_cast<int64_t>(ids.size()), step = session.options().n_outputs;
  if (n > session.n_ctx())
    return fail(ErrorCode::limit, "{} tokens, the context holds {} (option n_ctx sets it)", n, session.n_ctx());
  for (int64_t begin = 0; begin < n; begin += step) {
    Batch batch;
    for (int64_t i = begin; i < std::min(n, begin + step); ++i)
      batch.add({.token = ids[to_size(i)], .position = static_cast<int32_t>(i), .wants_logits = true});
    TESSERA_TRY(session.decode(batch, &interrupt));
    for (int64_t i = 0; i < batch.size(); ++i) TESSERA_TRY(visit(session.logits(i)));
  }
  return {};
}

}  // namespace tessera::eval
