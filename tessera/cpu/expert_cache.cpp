#include "tessera/cpu/expert_cache.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera::cpu {

namespace {

// Reads that a disk serves at the same time, and the bytes of one: together enough for the full rate of a fast disk.
constexpr int kReadThreads = 8;
constexpr size_t kPieceBytes = size_t{1} << 20;

int64_t rows_per_piece(const Shape& shape, size_t row_bytes) {
  const auto panels = static_cast<int64_t>(kPieceBytes / (row_bytes * kPanelRows));
  return std::min(std::max<int64_t>(panels, 1) * kPanelRows, shape[1]);
}

// Forecasts of a weight lead to reads as long as this share of them was right: a wrong one costs the time of a read.
// The average is over about this number of announcements.
constexpr double kLeastRightShare = 0.5, kForecastsInAverage = 32;

// Staging memory of one thread.
Result<size_t> staging_bytes(std::span<const StreamedWeight> weights) {
  size_t most = 0;
  for (const StreamedWeight& weight : weights) {
    TESSERA_ASSIGN(const size_t row, row_bytes(weight.tensor->dtype, weight.tensor->shape()[0]));
    most = std::max(most, row * to_size(rows_per_piece(weight.tensor->shape(), row)));
  }
  return round_up(most, StreamSource::kAlignment) + StreamSource::kSlack;
}

}  // namespace

Result<size_t> ExpertCacheType::tensor_bytes(DType dtype, const Shape& shape) const {
  if (shape[1] % kPanelRows != 0)
    return fail(ErrorCode::unsupported, "{} of {}: only matrices of whole panels can stay in the file",
                to_string(shape), info(dtype).name);
  return packed_.tensor_bytes(dtype, shape);
}

Result<size_t> ExpertCacheType::slot_bytes(DType dtype, const Shape& shape) const {
  TESSERA_TRY(tensor_bytes(dtype, shape));
  return tensor_bytes(dtype, {shape[0], shape[1]});
}

Result<size_t> ExpertCacheType::cache_bytes(std::span<const StreamedWeight> weights) const {
  TESSERA_ASSIGN(const size_t staging, staging_bytes(weights));
  size_t total = StreamSource::kAlignment + staging * kReadThreads;
  for (const StreamedWeight& weight : weights) {
    const Shape& shape = weight.tensor->shape();
    if (weight.n_slots < 1 || weight.n_slots > shape[2])
      return fail(ErrorCode::invalid_argument, "tensor {}: {} slots for {} matrices", weight.tensor->name,
                  weight.n_slots, shape[2]);
    TESSERA_ASSIGN(const size_t slot, slot_bytes(weight.tensor->dtype, shape));
    const auto bytes = checked_mul(slot, to_size(weight.n_slots));
    const auto sum = bytes ? checked_add(total, *bytes) : std::nullopt;
    if (!sum) return fail(ErrorCode::limit, "cache of experts: size overflows");
    total = *sum;
  }
  return total;
}

Result<std::unique_ptr<Buffer>> ExpertCacheType::allocate(size_t, BufferUsage) const {
  return fail(ErrorCode::unsupported, "{}: a cache of experts is created for a list of weights", name());
}

Result<std::unique_ptr<StreamedBuffer>> ExpertCacheType::create(std::span<const StreamedWeight> weights,
                                                                std::unique_ptr<StreamSource> source) const {
  TESSERA_ASSIGN(const size_t bytes, cache_bytes(weights));
  auto memory = HostMemory::allocate(bytes);
  if (!memory) return forward_error(memory, name());
  auto cache = std::make_unique<ExpertCache>(*this, kernels_, weights, std::move(source), std::move(*memory), bytes);
  TESSERA_TRY(cache->start());
  return cache;
}

ExpertCache::ExpertCache(const ExpertCacheType& type, const Kernels& kernels, std::span<const StreamedWeight> weights,
                         std::unique_ptr<StreamSource> source, HostMemory memory, size_t size)
    : StreamedBuffer(type, size, BufferUsage::weights), source_(std::move(source)), memory_(std::move(memory)) {
  const size_t staging = staging_bytes(weights).value();
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  std::byte* next = memory_.data() + (round_up(address, StreamSource::kAlignment) - address);
  for (int i = 0; i < kReadThreads; ++i, next += staging) staging_.push_back({next, staging});
  for (const StreamedWeight& weight : weights) {
    const Tensor& tensor = *weight.tensor;
    const auto n = to_size(tensor.shape()[2]);
    const size_t row = row_bytes(tensor.dtype, tensor.shape()[0]).value();
    weights_.push_back({.tensor = &tensor,
                        .format = kernels.panel_formats[to_size(tensor.dtype)],
                        .row_bytes = row,
                        .slot_bytes = type.slot_bytes(tensor.dtype, tensor.shape()).value(),
                        .piece_rows = rows_per_piece(tensor.shape(), row),
                        .slots_begin = next,
                        .slots = std::vector<Slot>(to_size(weight.n_slots)),
                        .slot_of = std::vector<int32_t>(n, kNone),
                        .is_wanted = std::vector<uint8_t>(n),
                        .is_forecast = std::vector<uint8_t>(n)});
    weights_.back().to_read.reserve(n);
    next += weights_.back().slot_bytes * to_size(weight.n_slots);
  }
}

ExpertCache::~ExpertCache() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<> ExpertCache::start() {
  try {
    for (const std::span<std::byte> staging : staging_)
      threads_.emplace_back([this, staging] { read_until_stopped(staging); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::out_of_memory, "cache of experts: cannot start a thread: {}", error.what());
  }
  return {};
}

int32_t ExpertCache::find_slot(const Streamed& streamed, Need need) {
  int32_t best = kNone;
  bool best_is_wanted = true;
  for (size_t i = 0; i < streamed.slots.size(); ++i) {
    const Slot& slot = streamed.slots[i];
    if (!slot.is_idle()) continue;
    if (slot.matrix < 0) return static_cast<int32_t>(i);
    const auto matrix = to_size(slot.matrix);
    const bool is_wanted = streamed.is_wanted[matrix] != 0 || streamed.is_forecast[matrix] != 0;
    if (is_wanted && need != Need::now) continue;
    const bool is_better = best == kNone || (best_is_wanted && !is_wanted) ||
                           (best_is_wanted == is_wanted && slot.last_use < streamed.slots[to_size(best)].last_use);
    if (!is_better) continue;
    best = static_cast<int32_t>(i);
    best_is_wanted = is_wanted;
  }
  return best;
}

void ExpertCache::empty(Streamed& streamed, Slot& slot) {
  if (slot.matrix >= 0) streamed.slot_of[to_size(slot.matrix)] = kNone;
  slot.matrix = -1;
  slot.error.reset();
}

void ExpertCache::assign(size_t weight, int32_t slot_index, int32_t matrix, Need need) {
  Streamed& streamed = weights_[weight];
  Slot& slot = streamed.slots[to_size(slot_index)];
  empty(streamed, slot);
  slot.matrix = matrix;
  slot.last_use = ++clock_;
  slot.n_pieces_left = slot.n_queued = div_ceil(streamed.tensor->shape()[1], streamed.piece_rows);
  streamed.slot_of[to_size(matrix)] = slot_index;
  for (int64_t piece = 0; piece < slot.n_pieces_left; ++piece) {
    const Job job{weight, slot_index, piece};
    if (need == Need::now) {
      jobs_.push_front(job);
    } else {
      (need == Need::announced ? jobs_ : forecast_jobs_).push_back(job);
    }
  }
  work_.notify_all();
}

void ExpertCache::read_ahead(size_t weight) {
  Streamed& streamed = weights_[weight];
  for (; streamed.n_taken < streamed.to_read.size(); ++streamed.n_taken) {
    const int32_t matrix = streamed.to_read[streamed.n_taken];
    if (streamed.slot_of[to_size(matrix)] != kNone || streamed.is_wanted[to_size(matrix)] == 0) continue;
    const int32_t slot = find_slot(streamed, Need::announced);
    if (slot == kNone) return;
    assign(weight, slot, matrix, Need::announced);
  }
}

void ExpertCache::forecast(size_t weight, std::span<const int32_t> matrices) {
  const std::lock_guard lock(mutex_);
  Streamed& streamed = weights_[weight];
  std::ranges::fill(streamed.is_forecast, uint8_t{0});
  for (const int32_t matrix : matrices) streamed.is_forecast[to_size(matrix)] = 1;
  if (streamed.right_share < kLeastRightShare) return;  // only compared with what comes
  for (const int32_t matrix : matrices) {
    if (streamed.slot_of[to_size(matrix)] != kNone) continue;
    const int32_t slot = find_slot(streamed, Need::forecast);
    if (slot == kNone) return;
    assign(weight, slot, matrix, Need::forecast);
  }
}

// Compares the forecast with what was announced. Reads of the announced matrices no longer wait for others, and those
// of other matrices that have not begun are dropped.
void ExpertCache::settle_forecast(size_t weight, std::span<const int32_t> announced) {
  Streamed& streamed = weights_[weight];
  const auto n_forecast = std::ranges::count(streamed.is_forecast, uint8_t{1});
  if (n_forecast > 0) {
    const auto n_right =
        std::ranges::count_if(announced, [&](int32_t m) { return streamed.is_forecast[to_size(m)] != 0; });
    counts_.n_forecast += static_cast<uint64_t>(n_forecast);
    counts_.n_right += static_cast<uint64_t>(n_right);
    streamed.right_share +=
        (static_cast<double>(n_right) / static_cast<double>(n_forecast) - streamed.right_share) / kForecastsInAverage;
    std::ranges::fill(streamed.is_forecast, uint8_t{0});
  }
  if (forecast_jobs_.empty()) return;
  std::erase_if(forecast_jobs_, [&](const Job& job) {
    if (job.weight != weight) return false;
    Slot& slot = streamed.slots[to_size(job.slot)];
    const bool is_announced = std::ranges::find(announced, slot.matrix) != announced.end();
    if (is_announced) jobs_.push_back(job);
    if (is_announced || slot.n_queued < slot.n_pieces_left || slot.n_users > 0) return is_announced;
    slot.n_pieces_left = slot.n_queued -= 1;
    if (slot.n_queued == 0) empty(streamed, slot);
    return true;
  });
}

void ExpertCache::expect(size_t weight, std::span<const int32_t> matrices) {
  const std::lock_guard lock(mutex_);
  Streamed& streamed = weights_[weight];
  settle_forecast(weight, matrices);
  streamed.to_read.clear();
  streamed.n_taken = 0;
  constexpr uint8_t kNamed = 2;
  for (const int32_t matrix : matrices) {
    uint8_t& is_wanted = streamed.is_wanted[to_size(matrix)];
    const int32_t slot = streamed.slot_of[to_size(matrix)];
    const bool is_in_memory = slot != kNone && streamed.slots[to_size(slot)].n_pieces_left == 0;
    if (is_wanted == 0) ++(is_in_memory ? counts_.n_hits : counts_.n_misses);
    if (slot == kNone) streamed.to_read.push_back(matrix);
    is_wanted = kNamed;
  }
  for (uint8_t& is_wanted : streamed.is_wanted) is_wanted = is_wanted == kNamed ? 1 : 0;
  read_ahead(weight);
}

void ExpertCache::sort_for_use(size_t weight, std::span<int32_t> matrices) {
  const std::lock_guard lock(mutex_);
  const Streamed& streamed = weights_[weight];
  const auto rank = [&](int32_t matrix) {
    const int32_t slot = streamed.slot_of[to_size(matrix)];
    if (slot == kNone) return 2;
    return streamed.slots[to_size(slot)].n_pieces_left > 0 ? 1 : 0;
  };
  std::ranges::stable_sort(matrices, {}, rank);
}

Result<const std::byte*> ExpertCache::acquire(size_t weight, int64_t matrix) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  Streamed& streamed = weights_[weight];
  std::optional<Clock::time_point> begin;
  const auto wait = [&] {
    if (!begin) begin = Clock::now();
    changed_.wait(lock);
  };
  int32_t index = streamed.slot_of[to_size(matrix)];
  while (index == kNone) {
    index = find_slot(streamed, Need::now);
    if (index != kNone) {
      assign(weight, index, static_cast<int32_t>(matrix), Need::now);
    } else {
      wait();  // every slot is being read or computed with, and neither waits for this thread
      index = streamed.slot_of[to_size(matrix)];
    }
  }
  Slot& slot = streamed.slots[to_size(index)];
  ++slot.n_users;
  while (slot.n_pieces_left > 0) wait();
  if (begin)
    counts_.n_wait_us +=
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - *begin).count());
  if (!slot.error) return streamed.slots_begin + to_size(index) * streamed.slot_bytes;
  Error error = *slot.error;
  if (--slot.n_users == 0) {
    empty(streamed, slot);
    changed_.notify_all();
  }
  return std::unexpected(std::move(error));
}

void ExpertCache::release(size_t weight, int64_t matrix, bool is_done) {
  const std::lock_guard lock(mutex_);
  Streamed& streamed = weights_[weight];
  Slot& slot = streamed.slots[to_size(streamed.slot_of[to_size(matrix)])];
  slot.last_use = ++clock_;
  if (is_done) streamed.is_wanted[to_size(matrix)] = 0;
  if (--slot.n_users > 0) return;
  read_ahead(weight);
  changed_.notify_all();
}

void ExpertCache::read_until_stopped(std::span<std::byte> staging) {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stops_ || !jobs_.empty() || !forecast_jobs_.empty(); });
    if (stops_) return;
    std::deque<Job>& jobs = jobs_.empty() ? forecast_jobs_ : jobs_;
    const Job job = jobs.front();
    jobs.pop_front();
    Streamed& streamed = weights_[job.weight];
    Slot& slot = streamed.slots[to_size(job.slot)];
    --slot.n_queued;
    const int32_t matrix = slot.matrix;
    lock.unlock();
    Result<size_t> read = 0;
    try {
      read = read_piece(job, matrix, staging);
    } catch (const std::bad_alloc&) {
      read = fail(ErrorCode::out_of_memory, "out of memory");
    }
    lock.lock();
    if (read)
      counts_.n_read_bytes += *read;
    else if (!slot.error)
      slot.error = read.error();
    if (--slot.n_pieces_left > 0) continue;
    if (slot.error && slot.n_users == 0) empty(streamed, slot);  // the next acquire() reads it again
    changed_.notify_all();
  }
}

Result<size_t> ExpertCache::read_piece(const Job& job, int32_t matrix, std::span<std::byte> staging) {
  const Streamed& streamed = weights_[job.weight];
  const Shape& shape = streamed.tensor->shape();
  const int64_t begin = job.piece * streamed.piece_rows, end = std::min(begin + streamed.piece_rows, shape[1]);
  const size_t n = to_size(end - begin) * streamed.row_bytes;
  TESSERA_ASSIGN(const std::span<const std::byte> rows,
                 source_->read(job.weight, to_size(matrix * shape[1] + begin) * streamed.row_bytes, n, staging));
  std::byte* slot = streamed.slots_begin + to_size(job.slot) * streamed.slot_bytes;
  for (int64_t row = begin; row < end; row += kPanelRows)
    streamed.format->pack(rows.data() + to_size(row - begin) * streamed.row_bytes, streamed.row_bytes, kPanelRows,
                          shape[0], slot + to_size(row / kPanelRows) * streamed.format->panel_bytes(shape[0]));
  return n;
}

StreamCounts ExpertCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Result<> ExpertCache::set(const Tensor& tensor, size_t, std::span<const std::byte>) {
  return fail(ErrorCode::unsupported, "tensor {}: the file has it, and it is only read", tensor.name);
}

Result<> ExpertCache::get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) {
  TESSERA_ASSIGN(const size_t tensor_bytes, nbytes(tensor.dtype, tensor.shape()));
  TESSERA_TRY(require_range(tensor, offset, bytes.size(), tensor_bytes));
  std::vector<std::byte> memory(kPieceBytes + StreamSource::kSlack + StreamSource::kAlignment);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const std::span<std::byte> staging = std::span(memory).subspan(round_up(address, StreamSource::kAlignment) - address,
                                                                 kPieceBytes + StreamSource::kSlack);
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kPieceBytes);
    TESSERA_ASSIGN(const std::span<const std::byte> read, source_->read(tensor.offset, offset, n, staging));
    std::ranges::copy(read, bytes.begin());
    offset += n;
    bytes = bytes.subspan(n);
  }
  return {};
}

Result<> ExpertCache::clear(std::byte) {
  return fail(ErrorCode::unsupported, "{}: its weights are only read", type().name());
}
Result<> ExpertCache::reset() { return clear(std::byte{0}); }

}  // namespace tessera::cpu
