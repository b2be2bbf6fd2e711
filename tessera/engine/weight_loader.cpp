#include "tessera/engine/weight_loader.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/quant/formats.h"

namespace tessera {

namespace {

constexpr int kLowNiceness = 5;

// Threads inherit the niceness of the thread that creates them, and cannot take it back. So a thread of its own becomes
// nice. If the system refuses, the work is done all the same.
Result<> on_low_thread(const std::function<Result<>()>& work) {
  Result<> outcome;
  try {
    std::thread thread([&] {
      static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowNiceness));
      try {
        outcome = work();
      } catch (const std::bad_alloc&) {
        outcome = fail(ErrorCode::out_of_memory, "out of memory");
      }
    });
    thread.join();
  } catch (const std::system_error&) {
    return work();
  }
  return outcome;
}

}  // namespace

namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;
// A piece consists of whole panels of every packed form (16 rows). A multiple is harmless.
constexpr int64_t kPieceRows = 64;

// Refuses values that are not finite. Reports the first value that decodes to one in the first block with a fault.
Result<> check_finite(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) {
  const DTypeInfo& type = info(tensor.dtype);
  const quant::Format* format = quant::find_format(tensor.dtype);
  if (format == nullptr) return {};
  const auto block_bytes = to_size(type.block_bytes);
  std::vector<float> values(to_size(type.block_elements));
  for (size_t at = 0; const auto fault = quant::first_fault(tensor.dtype, bytes.subspan(at)); at += block_bytes) {
    at += to_size(fault->block) * block_bytes;
    format->dequantize_row(bytes.data() + at, type.block_elements, values.data());
    const auto bad = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
    if (bad != values.end())
      return fail(ErrorCode::format, "tensor {}: block {}: value {} is {}", tensor.name, (offset + at) / block_bytes,
                  bad - values.begin(), *bad);
  }
  return {};
}

}  // namespace

std::vector<WeightLoader::Piece> WeightLoader::cut(std::span<const Weight* const> weights, bool copy) const {
  std::vector<Piece> pieces;
  for (const Weight* weight : weights) {
    const auto row = to_size(weight->tensor.layout.nb[1]);
    const size_t unit = row * to_size(kPieceRows);
    const size_t size = std::max<size_t>(kPieceBytes / std::max<size_t>(unit, 1), 1) * unit;
    size_t begin = 0;
    const auto cut_tensor = [&](const Tensor& to, size_t total) {
      for (size_t offset = 0; offset < total; offset += size)
        pieces.push_back({weight, begin + offset, std::min(size, total - offset), copy ? &to : nullptr, offset});
      begin += total;
    };
    if (weight->row_parts.empty()) cut_tensor(weight->tensor, weight->source->info.n_bytes);
    for (const Tensor& part : weight->row_parts) cut_tensor(part, row * to_size(part.shape()[1]));
  }
  return pieces;
}

// bytes: those of the piece, from the map or, in other modes, read from the file.
Result<> WeightLoader::copy_piece(const Piece& piece, std::span<const std::byte> bytes) const {
  const ModelFiles::Tensor& source = *piece.weight->source;
  const GgufFile& file = *files_.files()[source.file];
  Buffer& buffer = *piece.to->buffer;
  if (options_.mode != LoadMode::mmap || file.map() == nullptr) return buffer.set(*piece.to, piece.to_offset, bytes);
  return buffer.load(*piece.to, piece.to_offset,
                     {.path = file.file()->path(),
                      .file = file.bytes(),
                      .offset = to_size(source.info.file_offset) + piece.offset,
                      .n = piece.bytes});
}

Result<> WeightLoader::load_piece(const Piece& piece, std::vector<std::byte>& staging) const {
  const ModelFiles::Tensor& source = *piece.weight->source;
  const GgufFile& file = *files_.files()[source.file];
  std::span<const std::byte> bytes = files_.data(source).subspan(piece.offset, piece.bytes);
  if (options_.mode == LoadMode::read && file.file() != nullptr) {
    staging.resize(piece.bytes);
    TESSERA_TRY(file.file()->read_at(source.info.file_offset + piece.offset, staging));
    bytes = staging;
  }
  if (options_.check) {
    auto finite = check_finite(piece.weight->tensor, piece.offset, bytes);
    if (!finite) return forward_error(finite, files_.name());
  }
  if (piece.to != nullptr) TESSERA_TRY(copy_piece(piece, bytes));
  const bool stays_mapped = piece.to == nullptr && piece.weight->tensor.buffer_type->is_host();
  if (!stays_mapped && options_.mode == LoadMode::mmap && file.map() != nullptr)
    file.map()->discard(source.info.file_offset + piece.offset, piece.bytes);
  return {};
}

Result<> WeightLoader::load(std::span<Weight* const> copied, std::span<const Weight* const> only_checked,
                            const LoadProgress& progress) const {
  std::vector<Piece> pieces = cut(std::vector<const Weight*>(copied.begin(), copied.end()), true);
  if (options_.check) {
    const std::vector<Piece> more = cut(only_checked, false);
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  if (options_.threads.priority != Priority::low) return load_pieces(pieces, progress);
  return on_low_thread([&] { return load_pieces(pieces, progress); });
}

Result<> WeightLoader::load_pieces(std::span<const Piece> pieces, const LoadProgress& progress) const {
  size_t total = 0;
  for (const Piece& piece : pieces) total += piece.bytes;

  TESSERA_ASSIGN(auto threads, ThreadPool::create(options_.threads));
  std::atomic<size_t> done{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  Result<> outcome;
  const auto stop_with = [&](Result<> error) {
    const std::lock_guard lock(mutex);
    if (outcome) outcome = std::move(error);
    stop = true;
  };
  const auto load = [&](ThreadContext& thread) {
    std::vector<std::byte> staging;
    for (int64_t i = thread.next_chunk(); i < static_cast<int64_t>(pieces.size()) && !stop; i = thread.next_chunk()) {
      const Piece& piece = pieces[to_size(i)];
      if (auto loaded = load_piece(piece, staging); !loaded) stop_with(std::move(loaded));
      done += piece.bytes;
      const float share = static_cast<float>(done) / static_cast<float>(total);
      if (thread.index == 0 && progress && !progress(share))
        stop_with(fail(ErrorCode::cancelled, "loading was stopped"));
    }
  };
  threads->run([&](ThreadContext& thread) {
    try {
      load(thread);
    } catch (const std::bad_alloc&) {  // an exception must not leave the work of a pool
      stop_with(fail(ErrorCode::out_of_memory, "out of memory"));
    }
  });
  if (outcome && progress) progress(1.0f);
  return outcome;
}

}  // namespace tessera
