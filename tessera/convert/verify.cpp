#include "tessera/convert/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/gguf/printable.h"
#include "tessera/quant/formats.h"
#include "tessera/text/detokenize.h"

namespace tessera::convert {

namespace {

// A range of whole blocks in one tensor.
struct Piece {
  const ModelFiles::Tensor* tensor;
  uint64_t offset;
  uint64_t n_bytes;
};

std::vector<Piece> cut(const ModelFiles& model) {
  constexpr uint64_t kPieceBytes = 8u << 20;
  std::vector<Piece> pieces;
  for (const ModelFiles::Tensor& tensor : model.tensors()) {
    const auto block_bytes = static_cast<uint64_t>(info(tensor.info.dtype).block_bytes);
    const uint64_t step = kPieceBytes / block_bytes * block_bytes;
    for (uint64_t offset = 0; offset < tensor.info.n_bytes; offset += step)
      pieces.push_back({&tensor, offset, std::min(step, tensor.info.n_bytes - offset)});
  }
  return pieces;
}

std::unexpected<Error> fault_in(const ModelFiles& model, const Piece& piece, const quant::BlockFault& fault) {
  const GgufTensor& tensor = piece.tensor->info;
  const DTypeInfo& type = info(tensor.dtype);
  const int64_t block = fault.block + static_cast<int64_t>(piece.offset) / type.block_bytes;
  return fail(ErrorCode::format, "{}: tensor {}: {} {} (row {}): {}", model.files()[piece.tensor->file]->name(),
              printable(tensor.name), type.is_blocked() ? "block" : "element", block,
              block / (tensor.shape[0] / type.block_elements), fault.what);
}

// The fault in the first piece that has one. Pieces before it are always checked.
class FirstFault {
 public:
  bool is_after(size_t piece) const { return piece > piece_; }
  void add(size_t piece, const quant::BlockFault& fault) {
    const std::lock_guard lock(mutex_);
    if (is_after(piece)) return;
    piece_ = piece;
    fault_ = fault;
  }
  size_t piece() const { return piece_; }
  const std::optional<quant::BlockFault>& fault() const { return fault_; }

 private:
  std::mutex mutex_;
  std::atomic<size_t> piece_{SIZE_MAX};
  std::optional<quant::BlockFault> fault_;
};

constexpr std::array<std::string_view, 10> kSamples = {
    "Hello, world!",
    " leading and trailing  spaces ",
    "Numbers 0123456789, 3.14159 and -2e10.",
    "def f(x):\n\treturn [x ** 2, {'a': \"b\"}]\r\n\n\n",
    "\xC3\x9C"
    "ber die Br\xC3\xBC"
    "cke, na\xC3\xAFve caf\xC3\xA9.",
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82, \xD0\xBC\xD0\xB8\xD1\x80!",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82",
    "\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7 \xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
    "\xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 emoji",
    "\x01\x02\x7F",
};

constexpr std::string_view kSpmSpace = "\xE2\x96\x81";

// The text that a token of an SPM vocabulary spells.
std::string spelt(std::string_view token) {
  std::string text;
  while (!token.empty()) {
    const bool is_space = token.starts_with(kSpmSpace);
    text += is_space ? ' ' : token.front();
    token.remove_prefix(is_space ? kSpmSpace.size() : 1);
  }
  return text;
}

bool has_all_byte_tokens(const text::Vocab& vocab) {
  for (int byte = 0; byte < 256; ++byte)
    if (!vocab.byte_token(static_cast<uint8_t>(byte))) return false;
  return true;
}

// True if a user-defined token removes the whitespace beside it.
bool strips_whitespace(const text::Vocab& vocab) {
  for (size_t i = 0; i < vocab.n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (vocab.type(id) == text::TokenType::user_defined && (vocab.strips_left(id) || vocab.strips_right(id)))
      return true;
  }
  return false;
}

bool gives_texts_back(const text::Vocab& vocab) {
  return vocab.has_text() && vocab.model() == "llama" && vocab.find(kSpmSpace) && has_all_byte_tokens(vocab) &&
         !strips_whitespace(vocab);
}

Result<> check_round_trip(const text::Tokenizer& tokenizer, std::string_view text) {
  TESSERA_ASSIGN(const std::vector<int32_t> ids, tokenizer.tokenize(text));
  TESSERA_ASSIGN(const std::string back, text::detokenize(tokenizer, ids));
  if (back == text) return {};
  return fail(ErrorCode::format, "{} comes back as {}", quote_name(text), quote_name(back));
}

}  // namespace

Result<> check_values(const ModelFiles& model, ThreadPool& threads, const VerifyProgress& progress) {
  const std::vector<Piece> pieces = cut(model);
  FirstFault first;
  std::atomic<uint64_t> n_done{0};
  std::atomic<bool> stopped{false};
  float shown = 0;  // by thread 0, which may get no piece
  threads.run([&](ThreadContext& thread) {
    for (;;) {
      const auto i = to_size(thread.next_chunk());
      if (i >= pieces.size() || first.is_after(i) || stopped) return;
      const Piece& piece = pieces[i];
      const auto bytes = model.data(*piece.tensor).subspan(piece.offset, piece.n_bytes);
      if (const auto fault = quant::first_fault(piece.tensor->info.dtype, bytes)) first.add(i, *fault);
      if (const MappedFile* map = model.files()[piece.tensor->file]->map())
        map->discard(piece.tensor->info.file_offset + piece.offset, piece.n_bytes);
      n_done += piece.n_bytes;
      if (thread.index != 0 || !progress) continue;
      shown = static_cast<float>(n_done) / static_cast<float>(model.n_tensor_bytes());
      if (!progress(shown)) stopped = true;
    }
  });
  const bool is_complete = !stopped && !first.fault();
  if (is_complete && progress && shown < 1 && !progress(1)) stopped = true;
  if (stopped) return fail(ErrorCode::cancelled, "checking was stopped");
  if (first.fault()) return fault_in(model, pieces[first.piece()], *first.fault());
  return {};
}

uint64_t count_blocks(const ModelFiles& model) {
  uint64_t n = 0;
  for (const ModelFiles::Tensor& tensor : model.tensors())
    n += tensor.info.n_bytes / static_cast<uint64_t>(info(tensor.info.dtype).block_bytes);
  return n;
}

Result<size_t> check_round_trips(const text::Tokenizer& tokenizer) {
  const text::Vocab& vocab = tokenizer.vocab();
  if (!gives_texts_back(vocab)) return 0;
  for (const std::string_view text : kSamples) {
    Result<> checked = check_round_trip(tokenizer, text);
    if (!checked) return forward_error(checked, "tokenizer");
  }
  size_t n = kSamples.size();
  for (size_t i = 0; i < vocab.n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (vocab.type(id) != text::TokenType::normal) continue;
    Result<> checked = check_round_trip(tokenizer, spelt(vocab.text(id)));
    if (!checked) return forward_error(checked, fmt::format("tokenizer: token {}", id));
    ++n;
  }
  return n;
}

}  // namespace tessera::convert
