// A library to preload: calls of the C library fail as a plan says. Memory comes from functions of glibc that have
// other names; all else is found by dlsym().
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <ctime>

#include "tests/server/faults/fault_plan.h"

using tessera::testing::FaultKind;
using tessera::testing::FaultPlan;

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

FaultPlan* the_plan = nullptr;

__attribute__((constructor)) void map_plan() {
  const char* path = std::getenv(tessera::testing::kFaultPlanVariable);
  if (path == nullptr) return;
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) std::abort();
  void* address = ::mmap(nullptr, sizeof(FaultPlan), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (address == MAP_FAILED) std::abort();
  the_plan = static_cast<FaultPlan*>(address);
}

bool fails(FaultKind kind, int error, uint64_t n_bytes = UINT64_MAX) {
  if (the_plan == nullptr || !the_plan->fails(kind, n_bytes)) return false;
  errno = error;
  return true;
}

bool lacks_memory(uint64_t n_bytes) { return fails(FaultKind::memory, ENOMEM, n_bytes); }

// The counter of an event or a timer is read and written whole, and that never fails.
bool is_counter(size_t n) { return n == sizeof(uint64_t); }

// The function of this name behind the preloaded one.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define NEXT(name) static auto* const name##_next = next<decltype(name)>(#name)

extern "C" {

void* malloc(size_t n) { return lacks_memory(n) ? nullptr : __libc_malloc(n); }
void* calloc(size_t n, size_t size) { return lacks_memory(n * size) ? nullptr : __libc_calloc(n, size); }
void* realloc(void* block, size_t n) { return lacks_memory(n) ? nullptr : __libc_realloc(block, n); }
void* memalign(size_t alignment, size_t n) { return lacks_memory(n) ? nullptr : __libc_memalign(alignment, n); }
void* aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }
int posix_memalign(void** block, size_t alignment, size_t n) {
  *block = memalign(alignment, n);
  return *block != nullptr || n == 0 ? 0 : ENOMEM;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  NEXT(clock_gettime);
  const int status = clock_gettime_next(clock, time);
  if (clock == CLOCK_REALTIME && the_plan != nullptr) time->tv_sec += the_plan->clock_offset_s;
  return status;
}
time_t time(time_t* result) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

void* mmap(void* address, size_t n, int protection, int flags, int descriptor, off_t offset) noexcept {
  NEXT(mmap);
  return fails(FaultKind::map, ENOMEM) ? MAP_FAILED : mmap_next(address, n, protection, flags, descriptor, offset);
}

ssize_t read(int descriptor, void* bytes, size_t n) {
  NEXT(read);
  return !is_counter(n) && fails(FaultKind::read, EIO) ? -1 : read_next(descriptor, bytes, n);
}
ssize_t pread(int descriptor, void* bytes, size_t n, off_t offset) {
  NEXT(pread);
  return fails(FaultKind::read, EIO) ? -1 : pread_next(descriptor, bytes, n, offset);
}
ssize_t recv(int descriptor, void* bytes, size_t n, int flags) {
  NEXT(recv);
  return fails(FaultKind::read, ECONNRESET) ? -1 : recv_next(descriptor, bytes, n, flags);
}
ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  NEXT(recvmsg);
  return fails(FaultKind::read, ECONNRESET) ? -1 : recvmsg_next(descriptor, message, flags);
}

ssize_t write(int descriptor, const void* bytes, size_t n) {
  NEXT(write);
  return !is_counter(n) && fails(FaultKind::write, ENOSPC) ? -1 : write_next(descriptor, bytes, n);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t n, off_t offset) {
  NEXT(pwrite);
  return fails(FaultKind::write, ENOSPC) ? -1 : pwrite_next(descriptor, bytes, n, offset);
}
ssize_t writev(int descriptor, const iovec* parts, int n) {
  NEXT(writev);
  return fails(FaultKind::write, ENOSPC) ? -1 : writev_next(descriptor, parts, n);
}
ssize_t send(int descriptor, const void* bytes, size_t n, int flags) {
  NEXT(send);
  return fails(FaultKind::write, ECONNRESET) ? -1 : send_next(descriptor, bytes, n, flags);
}
ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  NEXT(sendmsg);
  return fails(FaultKind::write, ECONNRESET) ? -1 : sendmsg_next(descriptor, message, flags);
}

int accept(int descriptor, sockaddr* address, socklen_t* n) {
  NEXT(accept);
  return fails(FaultKind::accept, EMFILE) ? -1 : accept_next(descriptor, address, n);
}
int accept4(int descriptor, sockaddr* address, socklen_t* n, int flags) {
  NEXT(accept4);
  return fails(FaultKind::accept, EMFILE) ? -1 : accept4_next(descriptor, address, n, flags);
}

// The mode is there for new files only. Reading an absent one gives any value, which is not used.
int open(const char* path, int flags, ...) {
  NEXT(open);
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, mode_t);
  va_end(rest);
  return fails(FaultKind::open, EMFILE) ? -1 : open_next(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  NEXT(openat);
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, mode_t);
  va_end(rest);
  return fails(FaultKind::open, EMFILE) ? -1 : openat_next(folder, path, flags, mode);
}

int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return fails(FaultKind::rename, EIO) ? -1 : rename_next(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  NEXT(renameat);
  return fails(FaultKind::rename, EIO) ? -1 : renameat_next(from_folder, from, to_folder, to);
}
int fsync(int descriptor) {
  NEXT(fsync);
  return fails(FaultKind::sync, EIO) ? -1 : fsync_next(descriptor);
}
int fdatasync(int descriptor) {
  NEXT(fdatasync);
  return fails(FaultKind::sync, EIO) ? -1 : fdatasync_next(descriptor);
}

}  // extern "C"
