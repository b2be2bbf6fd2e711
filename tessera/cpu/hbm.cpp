#include "tessera/cpu/hbm.h"

#ifdef TESSERA_HAVE_MEMKIND
#include <memkind.h>

#include <cstring>
#endif

namespace tessera::cpu {

#ifdef TESSERA_HAVE_MEMKIND

namespace {

constexpr size_t kPage = 4096;

std::string text_of(int error) {
  char text[MEMKIND_ERROR_MESSAGE_SIZE];
  memkind_error_message(error, text, sizeof text);
  return text;
}

}  // namespace

Result<> require_hbm() {
  if (const int error = memkind_check_available(MEMKIND_HBW); error != MEMKIND_SUCCESS)
    return fail(ErrorCode::unsupported, "this machine has no high-bandwidth memory ({})", text_of(error));
  return {};
}

Result<std::byte*> allocate_hbm(size_t bytes) {
  TESSERA_TRY(require_hbm());
  void* memory = nullptr;
  if (const int error = memkind_posix_memalign(MEMKIND_HBW, &memory, kPage, bytes); error != 0 || memory == nullptr)
    return fail(ErrorCode::out_of_memory, "{} bytes of high-bandwidth memory: {}", bytes, std::strerror(error));
  std::memset(memory, 0, bytes);  // memkind reuses freed memory without clearing it
  return static_cast<std::byte*>(memory);
}

void free_hbm(std::byte* memory) { memkind_free(MEMKIND_HBW, memory); }

#else

Result<> require_hbm() { return fail(ErrorCode::unsupported, "this build has no memkind (TESSERA_MEMKIND)"); }

Result<std::byte*> allocate_hbm(size_t) {
  TESSERA_TRY(require_hbm());
  return nullptr;
}

void free_hbm(std::byte*) {}

#endif

}  // namespace tessera::cpu
