// The CPU's cache of streamed weights (backend/streamed_weights.h). Threads of its own read matrices from the file and
// pack them into slots. A product first announces the experts that it will use. It then computes those in memory while
// the others are read, each into the slot of a matrix that is not needed any more.
//
// A forecast names experts that a later product will probably use. They are read when nothing else is to be read, and
// only as long as the forecasts for the weight have been right often enough.
//
// The cache never waits for a product: a thread that waits for a matrix holds no other one. So products of several
// backends can share a cache, and two slots per weight are enough for any number of threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/backend/streamed_weights.h"
#include "tessera/cpu/buffers.h"

namespace tessera::cpu {

class ExpertCacheType final : public StreamedBufferType {
 public:
  ExpertCacheType(const Device& device, const Kernels& kernels) : packed_(device, kernels), kernels_(kernels) {}

  std::string_view name() const override { return "cpu-experts"; }
  const Device& device() const override { return packed_.device(); }
  size_t alignment() const override { return 1; }
  size_t max_size() const override { return packed_.max_size(); }
  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override;
  bool is_host() const override { return false; }
  /// Fails: create() needs to know the weights.
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override;

  Result<size_t> slot_bytes(DType dtype, const Shape& shape) const override;
  Result<size_t> cache_bytes(std::span<const StreamedWeight> weights) const override;
  Result<std::unique_ptr<StreamedBuffer>> create(std::span<const StreamedWeight> weights,
                                                 std::unique_ptr<StreamSource> source) const override;

 private:
  PackedBufferType packed_;  // whose panels the cache holds
  const Kernels& kernels_;
};

class ExpertCache final : public StreamedBuffer {
 public:
  /// For ExpertCacheType::create(), which has checked the sizes.
  ExpertCache(const ExpertCacheType& type, const Kernels& kernels, std::span<const StreamedWeight> weights,
              std::unique_ptr<StreamSource> source, HostMemory memory, size_t size);
  ~ExpertCache() override;
  /// Starts the threads that read. Errors: out_of_memory (no thread can be started).
  Result<> start();

  /// Announces that a product will use these matrices of a weight, and starts to read those that are missing, as far
  /// as there are slots. Takes back an earlier announcement for the weight.
  void expect(size_t weight, std::span<const int32_t> matrices);
  /// Names matrices of a weight that a product will probably announce next.
  void forecast(size_t weight, std::span<const int32_t> matrices);
  /// Puts the matrices into the order in which a product best uses them: first those in memory.
  void sort_for_use(size_t weight, std::span<int32_t> matrices);

  /// Waits until a matrix is in memory and keeps it there until release(). Returns its panels. Errors: those of
  /// StreamSource::read().
  Result<const std::byte*> acquire(size_t weight, int64_t matrix);
  /// is_done: the product does not need the matrix any more.
  void release(size_t weight, int64_t matrix, bool is_done);

  StreamCounts counts() const override;

  std::byte* base() override { return memory_.data(); }
  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override;
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override;
  Result<> clear(std::byte value) override;
  Result<> reset() override;

 private:
  struct Slot {
    int32_t matrix = -1;        // -1: empty
    int32_t n_users = 0;        // threads between acquire() and release()
    int64_t n_pieces_left = 0;  // to be read
    int64_t n_queued = 0;       // of these, those that no thread has begun
    uint64_t last_use = 0;
    std::optional<Error> error{};  // of a failed read

    bool is_idle() const { return n_users == 0 && n_pieces_left == 0; }
  };
  struct Streamed {
    const Tensor* tensor;
    const PanelFormat* format;
    size_t row_bytes;  // in the file
    size_t slot_bytes;
    int64_t piece_rows;  // rows that are read at once
    std::byte* slots_begin;
    std::vector<Slot> slots;
    std::vector<int32_t> slot_of;        // by matrix; -1: none
    std::vector<uint8_t> is_wanted;      // by matrix: announced and not used yet
    std::vector<int32_t> to_read{};      // announced matrices without a slot, in order
    size_t n_taken = 0;                  // of to_read: those that got a slot
    std::vector<uint8_t> is_forecast{};  // by matrix
    double right_share = 1;              // of forecast matrices, those that were announced next: an average
  };
  struct Job {
    size_t weight;
    int32_t slot;
    int64_t piece;
  };

  enum class Need { now, announced, forecast };

  static constexpr int32_t kNone = -1;
  /// Returns a slot for another matrix, or kNone. Only a matrix that is needed now may take the slot of one that was
  /// announced or forecast.
  static int32_t find_slot(const Streamed& streamed, Need need);
  void assign(size_t weight, int32_t slot, int32_t matrix, Need need);
  void read_ahead(size_t weight);
  void settle_forecast(size_t weight, std::span<const int32_t> announced);
  static void empty(Streamed& streamed, Slot& slot);
  void read_until_stopped(std::span<std::byte> staging);
  /// Returns the number of bytes read from the file.
  Result<size_t> read_piece(const Job& job, int32_t matrix, std::span<std::byte> staging);

  std::unique_ptr<StreamSource> source_;
  HostMemory memory_;
  std::vector<std::span<std::byte>> staging_;  // by thread
  std::vector<Streamed> weights_;

  mutable std::mutex mutex_;  // of all below, and of the changing members of weights_
  std::condition_variable work_, changed_;
  std::deque<Job> jobs_, forecast_jobs_;  // a thread takes one of the latter if there is none of the former
  uint64_t clock_ = 0;                    // counts uses
  StreamCounts counts_;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::cpu
