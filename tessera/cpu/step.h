// A compiled graph is a list of steps. A step is one operation with the addresses of its operands. All threads run a
// step together, with a barrier after it. Consecutive small steps run on one thread, with one barrier at the end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/index.h"
#include "tessera/base/partition.h"
#include "tessera/base/thread_pool.h"
#include "tessera/cpu/kernels/kernels.h"
#include "tessera/cpu/step_clock.h"
#include "tessera/graph/node.h"

namespace tessera::cpu {

/// Elements of a row that one thread computes at a time: a multiple of every vector width, large enough to outweigh the
/// cost of distribution, small enough that a piece stays in the first-level cache.
inline constexpr int64_t kPieceElements = 1024;
/// Floats per cache line. Two threads should not write to the same line.
inline constexpr int64_t kLineFloats = 16;

class ExpertCache;

/// A weight of a cache of experts.
struct StreamedOperand {
  ExpertCache* cache = nullptr;  // null in a step that serves only to compute sizes
  size_t weight = 0;
};

struct Operand : TensorSpec {
  std::byte* data = nullptr;                  // null: an absent optional operand
  bool packed = false;                        // stored in panels (buffers.h)
  std::optional<StreamedOperand> streamed{};  // stored in panels too, each matrix where the cache has it

  bool present() const { return data != nullptr; }
  /// Returns the first element of row (i1, i2, i3).
  template <class T = float>
  T* row(int64_t i1, int64_t i2 = 0, int64_t i3 = 0) const {
    return reinterpret_cast<T*>(data + i1 * layout.nb[1] + i2 * layout.nb[2] + i3 * layout.nb[3]);
  }
  /// Returns the first element of the i-th row in row-major order.
  template <class T = float>
  T* nth_row(int64_t i) const {
    const Shape& s = layout.shape;
    return row<T>(i % s[1], i / s[1] % s[2], i / s[1] / s[2]);
  }
};

/// The stride of a dimension of floats, in floats.
inline int64_t stride(const Operand& x, size_t dimension) {
  return x.layout.nb[dimension] / static_cast<int64_t>(sizeof(float));
}

struct OpKernel;

struct Step {
  const OpKernel* kernel = nullptr;
  const Node* node = nullptr;
  Operand out;
  std::array<Operand, kMaxSources> in;
  std::byte* work = nullptr;  // kernel->work_bytes() bytes
  int n_threads = 1;
  bool is_solo = false;     // runs on thread 0 only
  bool has_barrier = true;  // false: the next step also runs on thread 0 only

  ActivationPrecision activations =
      ActivationPrecision::automatic;  // mul_mat: precision of activations for quantized weights
  /// mul_mat: further products of the same x that run in this step (q, k and v; gate and up).
  struct Product {
    Operand weights;
    Operand out;
  };
  std::vector<Product> more_products;
  /// mul_mat_experts: weights of experts that later steps use for the same rows.
  std::vector<StreamedOperand> next_streamed{};
  /// mul_mat_experts: the router of the next layer, which is applied to this step's x to forecast its experts.
  struct Forecast {
    Operand router;  // weights [k, n_experts]
    int64_t n_used;
    std::vector<StreamedOperand> experts;  // of the next layer
  };
  std::optional<Forecast> forecast{};
};

/// The result of checks of data during a run. The first report is kept and fails the run.
class Fault {
 public:
  struct Record {
    const Step* step = nullptr;
    const char* what = nullptr;
    int64_t value = 0;
    int64_t limit = 0;
    std::optional<Error> error{};  // in place of all others
  };
  /// Records that `value` is not in [0, limit).
  void report(const Step& step, const char* what, int64_t value, int64_t limit) noexcept {
    if (claimed_.exchange(true, std::memory_order_relaxed)) return;
    record_ = {&step, what, value, limit};
    set_.store(true, std::memory_order_release);
  }
  /// Records an error of another source.
  void report(Error error) noexcept {
    if (claimed_.exchange(true, std::memory_order_relaxed)) return;
    record_ = {.error = std::move(error)};
    set_.store(true, std::memory_order_release);
  }
  void clear() noexcept {
    claimed_.store(false, std::memory_order_relaxed);
    set_.store(false, std::memory_order_relaxed);
  }
  const Record* get() const { return set_.load(std::memory_order_acquire) ? &record_ : nullptr; }

 private:
  std::atomic<bool> claimed_{false};
  std::atomic<bool> set_{false};
  Record record_;
};

struct Worker {
  ThreadContext& thread;
  const Kernels& kernels;
  Fault& fault;
  StepClock* clock = nullptr;  // null: nothing is measured
  size_t step = 0;             // index of the step that runs
  bool is_solo = false;

  /// Tells the clock that this thread has prepared the operands of the step.
  void note_prepared() const {
    if (clock != nullptr) clock->prepared(step, thread.index);
  }

  Range share(int64_t n_items) const {
    return is_solo ? Range{0, n_items} : partition(n_items, thread.count, thread.index);
  }
  void run(Elementwise op, const ElementwiseTask& task) const { kernels.elementwise[to_size(op)](task); }
  /// sum += x, n elements.
  void add(const float* x, int64_t n, float* sum) const {
    run(Elementwise::add, {.a = sum, .b = x, .n = n, .out = sum});
  }
};

/// The implementation of one operation on the CPU, defined in ops/<family>.cpp.
struct OpKernel {
  /// Whether the operation supports these operands; null: always.
  bool (*supports)(const Kernels& kernels, const Graph& graph, const Node& node) = nullptr;
  /// Bytes of scratch memory for a step whose operands have types and shapes (data may be null); null: none.
  size_t (*work_bytes)(const Kernels& kernels, const Step& step) = nullptr;
  void (*run)(const Step& step, Worker& worker);
  /// Never runs on one thread only: the size of its result does not indicate its work, or it contains a barrier.
  bool takes_all_threads = false;
};

/// Each is defined in ops/<family>.cpp, for the rows of graph/ops.def that name this device.
namespace op_kernels {
#define TESSERA_OP(name, family, parameters, devices) extern const OpKernel name;
#include "tessera/graph/ops.def"
}  // namespace op_kernels

/// Returns the kernel of an operation; null for leaves and views.
const OpKernel* kernel_of(Op op);

}  // namespace tessera::cpu
