// Handles of the C interface: objects that count their references, with a tag word that tells their kinds apart.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tessera/base/result.h"
#include "tessera/capi/boundary.h"

namespace tessera::capi {

enum class HandleKind : uint64_t {
  freed = 0,
  runtime = 0x746e7275'72737374,  // any numbers that other memory hardly has
  cancel = 0x6c636e61'63737374,
  model = 0x6c65646f'6d737374,
  session = 0x73736573'73737374,
  sampler = 0x706d6173'73737374,
  generation = 0x656e6567'6e737374,
  chat_template = 0x6c706d74'63737374,
  adapter = 0x74706164'61737374,
};

class Handle {
 public:
  HandleKind kind() const { return kind_; }
  void retain() const { n_references_.fetch_add(1, std::memory_order_relaxed); }
  /// Returns whether this was the last reference.
  bool release() const { return n_references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 protected:
  explicit Handle(HandleKind kind) : kind_(kind) {}
  ~Handle() { kind_ = HandleKind::freed; }

 private:
  HandleKind kind_;                                // the first 8 bytes
  mutable std::atomic<uint32_t> n_references_{1};  // a handle that is only read can be kept, too
};

/// Whether this is a handle of its type.
template <class T>
bool is_handle(const T* handle) noexcept {
  return handle != nullptr && handle->kind() == T::kKind;
}

/// Refuses NULL and handles of other kinds. Error: invalid_argument.
template <class T>
Result<> require(const T* handle, std::string_view name) {
  TESSERA_TRY(require_pointer(handle, name));
  if (!is_handle(handle)) return fail(ErrorCode::invalid_argument, "{}: is a handle of another kind", name);
  return {};
}

template <class T>
T* retain(T* handle) {
  if (handle != nullptr) handle->retain();
  return handle;
}

template <class T>
void release(T* handle) {
  if (handle != nullptr && handle->release()) delete handle;
}

/// One reference to a handle, for handles that keep others.
template <class T>
class Reference {
 public:
  explicit Reference(T* handle) : handle_(capi::retain(handle)) {}
  Reference(Reference&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Reference& operator=(Reference&&) = delete;
  ~Reference() { capi::release(handle_); }

  T& operator*() const { return *handle_; }
  T* operator->() const { return handle_; }

 private:
  T* handle_;
};

}  // namespace tessera::capi
