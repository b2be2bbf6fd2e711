#include "tessera/cuda/context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera::cuda {

namespace {

constexpr int kMinCapability = 80;  // asynchronous copies, bf16 and tf32 products
// The least shared memory that a block may have on devices of capability 8.0 and later.
constexpr int kFewestShared = 99 << 10;
constexpr uint32_t kDefaultShared = 48 << 10;  // more must be requested per kernel
// Memory of the host for transfers, and the most that a write has there. Writes of at most kMostPending bytes travel as
// the argument of a kernel.
constexpr size_t kStagingBytes = 1 << 20, kMostStaged = 64 << 10, kMostPending = 512;
constexpr uint32_t kWritesThreads = 128;  // of the kernel of writes

}  // namespace

Result<Options> options_from_environment() {
  Options options;
  const char* memory = std::getenv("TESSERA_CUDA_MEMORY");
  if (memory == nullptr) return options;
  const std::string_view text = memory;
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), bytes);
  if (error != std::errc() || end != text.end())
    return fail(ErrorCode::invalid_argument, "TESSERA_CUDA_MEMORY: '{}', want a number of bytes", text);
  options.max_bytes = std::make_shared<std::atomic<uint64_t>>(bytes);
  return options;
}

Allocation::Allocation(Allocation&& other) noexcept { *this = std::move(other); }

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Allocation::~Allocation() {
  if (context_ == nullptr || !context_->enter()) return;
  const Driver& driver = context_->driver();
  if (mapped_ != nullptr) {
    driver.host_free(mapped_);
  } else {
    context_->finish_writes();
    driver.memory_free(address_);
    context_->taken_bytes_ -= bytes_;
  }
}

Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<const Driver> driver, int ordinal,
                                                 const Options& options) {
  std::unique_ptr<Context> context(new Context);
  context->driver_ = std::move(driver);
  context->max_bytes_ = options.max_bytes;
  TESSERA_TRY(context->read_properties(ordinal));
  context->used_capability_ = std::min(context->capability_, options.capability);
  if (context->used_capability_ < context->capability_)
    context->most_shared_ = std::min(context->most_shared_, kFewestShared);
  const Driver& d = *context->driver_;
  TESSERA_CUDA(d, context_retain, &context->context_, context->device_);
  TESSERA_TRY(context->enter());
  TESSERA_TRY(context->load_kernels(options.images));
  TESSERA_CUDA(d, stream_create, &context->transfers_, kCuStreamNonBlocking);
  TESSERA_CUDA(d, event_create, &context->sent_, kCuEventWithoutTime);
  TESSERA_ASSIGN(context->writes_kernel_, context->kernel("tessera_writes", 0));
  TESSERA_ASSIGN(context->staging_, context->allocate_host(kStagingBytes));
  size_t free = 0, total = 0;
  TESSERA_CUDA(d, memory_info, &free, &total);
  context->all_bytes_ = total;
  return context;
}

Context::~Context() {
  if (context_ == nullptr || !enter()) return;
  pending_.n = 0;
  if (transfers_ != nullptr) driver_->stream_destroy(transfers_);
  if (sent_ != nullptr) driver_->event_destroy(sent_);
  staging_ = {};
  for (const CuModule module : modules_) driver_->module_unload(module);
  driver_->context_release(device_);
}

Result<> Context::read_properties(int ordinal) {
  const Driver& d = *driver_;
  TESSERA_CUDA(d, device_get, &device_, ordinal);
  char name[256] = {};
  TESSERA_CUDA(d, device_name, name, int{sizeof name - 1}, device_);
  name_ = name;
  std::array<unsigned char, 16> uuid{};
  TESSERA_CUDA(d, device_uuid, uuid.data(), device_);
  uuid_ = fmt::format("{:02x}", fmt::join(uuid, ""));
  int major = 0, minor = 0;
  TESSERA_CUDA(d, device_attribute, &major, kCuCapabilityMajor, device_);
  TESSERA_CUDA(d, device_attribute, &minor, kCuCapabilityMinor, device_);
  TESSERA_CUDA(d, device_attribute, &n_multiprocessors_, kCuMultiprocessorCount, device_);
  TESSERA_CUDA(d, device_attribute, &l2_bytes_, kCuL2CacheSize, device_);
  TESSERA_CUDA(d, device_attribute, &most_shared_, kCuMaxSharedPerBlock, device_);
  capability_ = 10 * major + minor;
  if (capability_ < kMinCapability)
    return fail(ErrorCode::unsupported, "{}: compute capability {}.{}, want at least 8.0", name_, major, minor);
  return {};
}

Result<> Context::load_kernels(std::span<const std::span<const std::byte>> images) {
  if (images.empty()) return fail(ErrorCode::unsupported, "{}: this program was built without CUDA kernels", name_);
  for (const std::span<const std::byte> image : images) {
    CuModule module = nullptr;
    TESSERA_CUDA(*driver_, module_load, &module, image.data());
    modules_.push_back(module);
  }
  return {};
}

Result<> Context::enter() const { return driver_->check(driver_->context_set(context_), "context_set"); }

uint64_t Context::total_bytes() const {
  return max_bytes_ == nullptr ? all_bytes_ : std::min<uint64_t>(*max_bytes_, all_bytes_);
}

uint64_t Context::free_bytes() const {
  size_t free = 0, total = 0;
  if (!enter() || driver_->memory_info(&free, &total) != kCuSuccess) return 0;
  const uint64_t limit = total_bytes(), taken = taken_bytes_;
  return std::min<uint64_t>(free, limit - std::min(limit, taken));
}

Result<Allocation> Context::allocate(size_t bytes) const {
  TESSERA_TRY(enter());
  Allocation allocation;
  const uint64_t taken = taken_bytes_.fetch_add(bytes) + bytes;
  CuPointer address = 0;
  CuResult result = taken > total_bytes() ? kCuOutOfMemory : kCuSuccess;
  if (result == kCuSuccess) result = driver_->memory_allocate(&address, std::max<size_t>(bytes, 1));
  if (result != kCuSuccess) {
    taken_bytes_ -= bytes;
    if (result != kCuOutOfMemory) return std::unexpected(driver_->check(result, "memory_allocate").error());
    return fail(ErrorCode::out_of_memory, "{}: cannot allocate {} bytes, {} of {} are free", name_, bytes, free_bytes(),
                total_bytes());
  }
  allocation.context_ = this;
  allocation.address_ = address;
  allocation.bytes_ = bytes;
  return allocation;
}

Result<Allocation> Context::allocate_host(size_t bytes) const {
  TESSERA_TRY(enter());
  void* memory = nullptr;
  TESSERA_CUDA(*driver_, host_allocate, &memory, bytes, kCuHostPortable | kCuHostMapped);
  Allocation allocation;
  allocation.context_ = this;
  allocation.bytes_ = bytes;
  allocation.mapped_ = static_cast<std::byte*>(memory);
  std::memset(memory, 0, bytes);
  CuPointer address = 0;
  TESSERA_CUDA(*driver_, host_address, &address, memory, 0);
  allocation.address_ = address;
  return allocation;
}

// Sends the pending writes with the next command of a stream, after those that other streams have sent.
Result<> Context::send_pending(CuStream stream, uint64_t& n_seen) const {
  if (n_seen != n_sent_) TESSERA_CUDA(*driver_, stream_wait_event, stream, sent_, 0);
  n_seen = n_sent_;
  if (pending_.n == 0) return {};
  const CuLaunchConfig config{.grid = {1, 1, 1},
                              .block = {kWritesThreads, 1, 1},
                              .shared_bytes = 0,
                              .stream = stream,
                              .attributes = nullptr,
                              .n_attributes = 0};
  void* arguments[] = {&pending_};
  TESSERA_CUDA(*driver_, launch, &config, writes_kernel_, arguments, nullptr);
  pending_.n = pending_.n_bytes = 0;
  return note_sent(stream, n_seen);
}

Result<> Context::note_sent(CuStream stream, uint64_t& n_seen) const {
  TESSERA_CUDA(*driver_, event_record, sent_, stream);
  n_seen = ++n_sent_;
  return {};
}

Result<> Context::begin_transfer() const {
  TESSERA_TRY(enter());
  return send_pending(transfers_, n_transfers_seen_);
}

// Memory that is about to be freed may be the target of a pending write.
void Context::finish_writes() const {
  const std::lock_guard lock(mutex_);
  if (pending_.n != 0 && begin_transfer()) std::ignore = finish_transfer();
}

Result<> Context::finish_transfer() const {
  TESSERA_CUDA(*driver_, stream_wait, transfers_);
  staged_bytes_ = 0;
  return {};
}

// The inputs of a step are a few small writes, for which neither the host nor the device waits one by one.
Result<> Context::write(uint64_t to, std::span<const std::byte> from) const {
  if (from.empty()) return {};
  const std::lock_guard lock(mutex_);
  if (from.size() <= kMostPending) {
    if (pending_.n == kMostWrites || pending_.n_bytes + from.size() > kMostWrittenBytes) TESSERA_TRY(begin_transfer());
    const uint32_t begin = pending_.n_bytes, n_bytes = static_cast<uint32_t>(from.size());
    pending_.ranges[pending_.n++] = {to, begin, n_bytes};
    std::ranges::copy(from, pending_.bytes.begin() + begin);
    pending_.n_bytes = round_up(begin + n_bytes, uint32_t{alignof(uint64_t)});
    return {};
  }
  TESSERA_TRY(begin_transfer());
  if (from.size() > kMostStaged) {
    TESSERA_CUDA(*driver_, copy_to_device, to, from.data(), from.size(), transfers_);
    return finish_transfer();
  }
  if (staged_bytes_ + from.size() > kStagingBytes) TESSERA_TRY(finish_transfer());
  std::byte* staged = staging_.mapped() + staged_bytes_;
  std::memcpy(staged, from.data(), from.size());
  staged_bytes_ += from.size();
  TESSERA_CUDA(*driver_, copy_to_device, to, staged, from.size(), transfers_);
  return note_sent(transfers_, n_transfers_seen_);
}

Result<> Context::await_writes(CuStream stream, uint64_t& n_seen) const {
  const std::lock_guard lock(mutex_);
  return send_pending(stream, n_seen);
}

Result<> Context::read(uint64_t from, std::span<std::byte> to) const {
  if (to.empty()) return {};
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(begin_transfer());
  // Copies of the stream run in order: the writes before this one have left the staging memory when the bytes arrive.
  std::byte* at = to.size() <= kStagingBytes ? staging_.mapped() : to.data();
  TESSERA_CUDA(*driver_, copy_to_host, at, from, to.size(), transfers_);
  TESSERA_TRY(finish_transfer());
  if (at != to.data()) std::memcpy(to.data(), at, to.size());
  return {};
}

Result<> Context::copy(uint64_t from, uint64_t to, size_t bytes) const {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(begin_transfer());
  TESSERA_CUDA(*driver_, copy_on_device, to, from, bytes, transfers_);
  return finish_transfer();
}

Result<> Context::fill(uint64_t to, std::byte value, size_t bytes) const {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(begin_transfer());
  TESSERA_CUDA(*driver_, fill, to, static_cast<unsigned char>(value), bytes, transfers_);
  return finish_transfer();
}

Result<CuFunction> Context::kernel(const std::string& name, uint32_t shared_bytes) const {
  TESSERA_TRY(enter());
  const std::lock_guard lock(mutex_);
  auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    CuFunction function = nullptr;
    const auto has_it = [&](CuModule module) {
      return driver_->module_function(&function, module, name.c_str()) == kCuSuccess;
    };
    if (!std::ranges::any_of(modules_, has_it)) return fail(ErrorCode::unsupported, "no CUDA kernel {}", name);
    found = kernels_.emplace(name, std::pair{function, kDefaultShared}).first;
  }
  auto& [function, allowed] = found->second;
  if (shared_bytes > allowed) {
    TESSERA_CUDA(*driver_, function_set, function, kCuMaxDynamicShared, static_cast<int>(shared_bytes));
    allowed = shared_bytes;
  }
  return function;
}

}  // namespace tessera::cuda
