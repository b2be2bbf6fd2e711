#include "tessera/train/dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/train/dataset_order.h"

namespace tessera::train {
namespace {

constexpr int64_t kMaxContext = std::numeric_limits<int32_t>::max() - 1;
constexpr double kMaxEvalShare = 0.5;

Result<> check(const DatasetOptions& options) {
  if (options.n_ctx < 1 || options.n_ctx > kMaxContext)
    return fail(ErrorCode::invalid_argument, "context of {} tokens: want 1 to {}", options.n_ctx, kMaxContext);
  if (!(options.eval_share >= 0 && options.eval_share <= kMaxEvalShare))
    return fail(ErrorCode::invalid_argument, "share of the text for evaluation: {}, want 0 to {}", options.eval_share,
                kMaxEvalShare);
  return {};
}

}  // namespace

Result<Dataset> Dataset::create(TextSource next, const text::Tokenizer& tokenizer, const DatasetOptions& options,
                                const CancelToken* cancel) {
  using enum text::SpecialToken;
  TESSERA_TRY(check(options));
  Dataset dataset(options);
  const text::Vocab& vocab = tokenizer.vocab();
  dataset.padding_ = vocab.special(padding).value_or(vocab.special(eos).value_or(0));
  while (true) {
    if (cancel != nullptr && cancel->cancelled()) return fail(ErrorCode::cancelled, "reading of the text: interrupted");
    TESSERA_ASSIGN(const std::optional<TextPiece> piece, next());
    if (!piece) break;
    TESSERA_TRY(dataset.add(*piece, tokenizer));
  }
  TESSERA_TRY(dataset.cut_windows());
  TESSERA_TRY(dataset.choose_eval());
  return dataset;
}

Result<Dataset> Dataset::read(std::vector<std::string> paths, std::string separator, const text::Tokenizer& tokenizer,
                              const DatasetOptions& options, const CancelToken* cancel) {
  TextReader reader(std::move(paths), std::move(separator));
  return create([&] { return reader.next(); }, tokenizer, options, cancel);
}

Result<> Dataset::add(const TextPiece& piece, const text::Tokenizer& tokenizer) {
  using enum text::SpecialToken;
  const text::Vocab& vocab = tokenizer.vocab();
  if (piece.begins_document) {
    document_begins_.push_back(tokens_.size());
    if (const auto id = vocab.special(bos); id && vocab.add_bos()) tokens_.push_back(*id);
  }
  std::string_view text = piece.text;
  // Long documents are cut in front of a space. Remove it if the tokenizer adds one.
  if (!piece.begins_document && tokenizer.adds_space_prefix() && text.starts_with(' ')) text.remove_prefix(1);
  TESSERA_ASSIGN(const auto tokens, tokenizer.tokenize(text, {.parse_special = options_.parse_special}));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (!piece.ends_document) return {};
  if (const auto id = vocab.special(eos); id && (vocab.add_eos() || options_.end_documents)) tokens_.push_back(*id);
  return {};
}

Result<> Dataset::cut_windows() {
  if (document_begins_.empty()) return fail(ErrorCode::format, "text to train on: empty");
  const auto n_ctx = to_size(options_.n_ctx);
  if (options_.layout == WindowLayout::packed) {
    if (tokens_.size() <= n_ctx)
      return fail(ErrorCode::limit, "text to train on: {} tokens, want at least {}: a context of {} and the next one",
                  tokens_.size(), n_ctx + 1, n_ctx);
    n_windows_ = (tokens_.size() - 1) / n_ctx;
    return {};
  }
  pad_windows();
  n_windows_ = padded_windows_.size();
  if (n_windows_ == 0)
    return fail(ErrorCode::limit, "text to train on: no document of its {} has two tokens", n_documents());
  return {};
}

size_t Dataset::document_end(size_t i) const {
  return i + 1 < document_begins_.size() ? document_begins_[i + 1] : tokens_.size();
}

void Dataset::pad_windows() {
  const auto n_ctx = to_size(options_.n_ctx);
  for (size_t i = 0; i < document_begins_.size();) {
    const size_t first = document_begins_[i];
    size_t end = document_end(i++);
    if (options_.layout == WindowLayout::whole)
      while (i < document_begins_.size() && document_end(i) - first - 1 <= n_ctx) end = document_end(i++);
    for (size_t begin = first; begin + 1 < end; begin += n_ctx)
      padded_windows_.push_back({begin, std::min(n_ctx, end - begin - 1)});
  }
}

Result<> Dataset::choose_eval() {
  if (options_.eval_share == 0) return {};
  if (n_windows_ < 2)
    return fail(ErrorCode::limit,
                "text to train on: {} tokens fill one context of {}; to set some apart for evaluation takes two",
                tokens_.size(), options_.n_ctx);
  n_eval_ = std::max<size_t>(1, static_cast<size_t>(options_.eval_share * static_cast<double>(n_windows_)));
  eval_step_ = n_windows_ / n_eval_;
  eval_offset_ = Hash64().add(options_.seed).value() % eval_step_;
  return {};
}

size_t Dataset::train_window(uint64_t n_seen) const {
  const uint64_t epoch = n_seen / n_train_windows();
  const Permutation order(n_train_windows(), Hash64().add(options_.seed).add(epoch).value());
  const size_t i = order(n_seen % n_train_windows());
  if (n_eval_ == 0 || options_.eval_choice == EvalChoice::tail) return i;
  const size_t n_between = eval_step_ - 1;
  if (i >= n_eval_ * n_between) return i + n_eval_;
  const size_t place = i % n_between;
  return i / n_between * eval_step_ + place + (place < eval_offset_ ? 0 : 1);
}

size_t Dataset::eval_window(size_t i) const {
  return options_.eval_choice == EvalChoice::tail ? n_train_windows() + i : i * eval_step_ + eval_offset_;
}

Dataset::Window Dataset::window(size_t i) const {
  const auto n_ctx = to_size(options_.n_ctx);
  return options_.layout == WindowLayout::packed ? Window{i * n_ctx, n_ctx} : padded_windows_[i];
}

void Dataset::fill(size_t i, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  const auto [begin, n_inputs] = window(i);
  const auto from = tokens_.begin() + static_cast<ptrdiff_t>(begin);
  const auto n = static_cast<ptrdiff_t>(n_inputs);
  std::fill(std::copy(from, from + n, tokens.begin()), tokens.end(), padding_);
  std::fill(std::copy(from + 1, from + n + 1, targets.begin()), targets.end(), kNoTarget);
  if (!options_.mask_boundaries) return;
  auto next = std::upper_bound(document_begins_.begin(), document_begins_.end(), begin);
  for (; next != document_begins_.end() && *next <= begin + n_inputs; ++next) targets[*next - begin - 1] = kNoTarget;
}

uint64_t Dataset::fingerprint() const {
  Hash64 hash;
  hash.add(std::as_bytes(std::span(tokens_))).add(std::as_bytes(std::span(document_begins_)));
  hash.add(static_cast<uint64_t>(options_.n_ctx)).add(static_cast<uint64_t>(options_.layout)).add(options_.seed);
  hash.add(static_cast<uint64_t>(options_.eval_choice)).add(n_eval_).add(uint64_t{options_.mask_boundaries});
  return hash.value();
}

}  // namespace tessera::train
