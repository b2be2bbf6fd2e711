#include "tessera/eval/base_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/checked.h"
#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/eval/log_prob_codes.h"
#include "tessera/eval/perplexity.h"

namespace tessera::eval {

namespace {

using Magic = std::array<char, 8>;
constexpr Magic kMagic = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};
constexpr Magic kTrailerMagic = {'t', 'e', 's', 's', 'e', 'r', 'a', '\0'};

struct Header {
  Magic magic = kMagic;
  uint32_t n_ctx = 0;
  int32_t n_vocab = 0, n_chunks = 0;
};
static_assert(sizeof(Header) == 20);

struct Trailer {
  Magic magic = kTrailerMagic;
  uint64_t vocab_hash = 0;
};

uint64_t row_bytes(int64_t n_vocab) { return 2 * log_prob_row_words(to_size(n_vocab)); }

uint64_t n_tokens(const Header& header) { return uint64_t{header.n_ctx} * static_cast<uint64_t>(header.n_chunks); }

uint64_t n_rows(const Header& header) {
  return static_cast<uint64_t>(scored_positions(header.n_ctx).size()) * static_cast<uint64_t>(header.n_chunks);
}

// Returns the offset of the end of the rows, or nothing if it overflows.
std::optional<uint64_t> bytes_of(const Header& header) {
  const auto of_rows = checked_mul<uint64_t>(n_rows(header), row_bytes(header.n_vocab));
  return of_rows ? checked_add<uint64_t>(*of_rows, sizeof(Header) + 4 * n_tokens(header)) : std::nullopt;
}

std::span<std::byte> bytes_of_object(auto& object) { return std::as_writable_bytes(std::span(&object, 1)); }

}  // namespace

uint64_t vocab_hash(const text::Vocab& vocab) {
  Hash64 hash;
  hash.add(uint64_t{vocab.n_tokens()});
  if (!vocab.has_text()) return hash.value();
  for (size_t id = 0; id < vocab.n_tokens(); ++id) hash.add(vocab.text(static_cast<int32_t>(id)));
  return hash.value();
}

Result<BaseFileWriter> BaseFileWriter::create(const std::string& path, const Chunks& chunks, const text::Vocab& vocab) {
  if (chunks.stride() != chunks.n_ctx())
    return fail(ErrorCode::invalid_argument, "{}: chunks that overlap have no place in a base file", path);
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  BaseFileWriter writer(std::move(file));
  Header header{.n_ctx = static_cast<uint32_t>(chunks.n_ctx()),
                .n_vocab = static_cast<int32_t>(vocab.n_tokens()),
                .n_chunks = static_cast<int32_t>(chunks.size())};
  const auto bytes = bytes_of(header);
  if (!bytes) return fail(ErrorCode::limit, "{}: size overflows", path);
  writer.bytes_ = *bytes + sizeof(Trailer) + 4 * n_rows(header);
  writer.vocab_hash_ = vocab_hash(vocab);
  TESSERA_TRY(writer.file_.write(bytes_of_object(header)));
  TESSERA_TRY(writer.file_.write(std::as_bytes(chunks.text_tokens())));
  return writer;
}

Result<> BaseFileWriter::add(const Chunks& chunks, std::span<const ChunkRow> rows, ThreadPool& threads) {
  const size_t n_words = log_prob_row_words(rows[0].logits.size());
  words_.resize(rows.size() * n_words);
  const size_t n_before = nll_.size();
  nll_.resize(n_before + rows.size());
  const auto encode = [&](size_t i) -> Result<> {
    const ChunkRow& row = rows[i];
    auto grid = row_grid(row.logits);
    if (!grid) return forward_error(grid, fmt::format("chunk {}, position {}", row.chunk, row.position));
    encode_log_probs(*grid, row.logits, std::span(words_).subspan(i * n_words, n_words));
    const int32_t token = chunks.token(row.chunk, row.position + 1);
    nll_[n_before + i] = static_cast<float>(grid->nll(row.logits[to_size(token)]));
    return {};
  };
  TESSERA_TRY(for_each_row(threads, rows.size(), encode));
  return file_.write(std::as_bytes(std::span(words_)));
}

Result<> BaseFileWriter::finish() {
  Trailer trailer{.vocab_hash = vocab_hash_};
  TESSERA_TRY(file_.write(bytes_of_object(trailer)));
  TESSERA_TRY(file_.write(std::as_bytes(std::span(nll_))));
  return file_.commit();
}

Result<BaseFile> BaseFile::open(const std::string& path) {
  TESSERA_ASSIGN(File file, File::open(path));
  BaseFile base(std::move(file));
  if (auto read = base.read_header(); !read) return forward_error(read, path);
  return base;
}

Result<> BaseFile::read_header() {
  Header header;
  const uint64_t size = file_.size();
  if (size < sizeof header) return fail(ErrorCode::format, "{} bytes, too short for a base file", size);
  TESSERA_TRY(file_.read_at(0, bytes_of_object(header)));
  if (header.magic != kMagic)
    return fail(ErrorCode::format, "not a file of log-probabilities (option base_file writes one)");
  if (header.n_ctx < kMinChunkTokens || header.n_ctx > kMaxContext)
    return fail(ErrorCode::format, "chunks of {} tokens, want {} to {}", header.n_ctx, kMinChunkTokens, kMaxContext);
  if (header.n_vocab < 1 || header.n_chunks < 1)
    return fail(ErrorCode::format, "{} tokens in the vocabulary, {} chunks: want at least 1", header.n_vocab,
                header.n_chunks);
  const auto wanted = bytes_of(header);
  if (!wanted || size < *wanted)
    return fail(ErrorCode::format, "truncated: {} bytes, want {} for {} chunks of {} tokens and {} log-probabilities",
                size, wanted.value_or(UINT64_MAX), header.n_chunks, header.n_ctx, header.n_vocab);
  n_ctx_ = header.n_ctx;
  n_vocab_ = header.n_vocab;
  tokens_.resize(n_tokens(header));
  first_row_ = sizeof header + 4 * tokens_.size();
  TESSERA_TRY(file_.read_at(sizeof header, std::as_writable_bytes(std::span(tokens_))));
  // Other data after the rows belongs to another program and is ignored.
  return size - *wanted == sizeof(Trailer) + 4 * n_rows(header) ? read_trailer(*wanted) : Result<>();
}

Result<> BaseFile::read_trailer(uint64_t offset) {
  Trailer trailer;
  TESSERA_TRY(file_.read_at(offset, bytes_of_object(trailer)));
  if (trailer.magic != kTrailerMagic) return {};
  vocab_hash_ = trailer.vocab_hash;
  nll_.resize((file_.size() - offset - sizeof trailer) / sizeof(float));
  TESSERA_TRY(file_.read_at(offset + sizeof trailer, std::as_writable_bytes(std::span(nll_))));
  for (size_t i = 0; i < nll_.size(); ++i)
    if (!(nll_[i] >= 0) || !std::isfinite(nll_[i]))
      return fail(ErrorCode::format, "-log p of scored token {} is {}, want a finite number from 0 on", i, nll_[i]);
  return {};
}

Result<Chunks> BaseFile::chunks(const text::Vocab& vocab, int64_t n_max) const {
  if (static_cast<uint64_t>(n_vocab_) != vocab.n_tokens())
    return fail(ErrorCode::mismatch, "{}: made with a vocabulary of {} tokens, the model's has {}", path(), n_vocab_,
                vocab.n_tokens());
  if (vocab_hash_ && *vocab_hash_ != eval::vocab_hash(vocab))
    return fail(ErrorCode::mismatch, "{}: made with another vocabulary of {} tokens", path(), n_vocab_);
  const int64_t n = n_max < 0 ? n_chunks() : std::min(n_max, n_chunks());
  auto chunks = Chunks::create(vocab, {tokens_.begin(), tokens_.begin() + n * n_ctx_}, n_ctx_);
  if (!chunks) return forward_error(chunks, path());
  return chunks;
}

int64_t BaseFile::row_number(int64_t chunk, int64_t position) const {
  const Range scored = scored_positions(n_ctx_);
  return chunk * scored.size() + position - scored.begin;
}

Result<> BaseFile::read_rows(int64_t chunk, int64_t position, std::span<uint16_t> words) const {
  const auto row = static_cast<uint64_t>(row_number(chunk, position));
  return file_.read_at(first_row_ + row * row_bytes(n_vocab_), std::as_writable_bytes(words));
}

std::optional<float> BaseFile::exact_nll(int64_t chunk, int64_t position) const {
  if (nll_.empty()) return std::nullopt;
  return nll_[to_size(row_number(chunk, position))];
}

}  // namespace tessera::eval
