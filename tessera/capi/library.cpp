// tessera.h: the library and cancel objects.
#include <algorithm>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr const char* kStatusNames[] = {"success",       "invalid argument", "not found",     "I/O error",
                                        "bad format",    "limit exceeded",   "unsupported",   "mismatch",
                                        "out of memory", "cancelled",        "internal error"};

}  // namespace

uint32_t tessera_version(void) { return TESSERA_VERSION; }

const char* tessera_version_text(void) {
#define TESSERA_TEXT_OF(x) #x
#define TESSERA_VERSION_AS_TEXT(a, b, c) TESSERA_TEXT_OF(a) "." TESSERA_TEXT_OF(b) "." TESSERA_TEXT_OF(c)
  return TESSERA_VERSION_AS_TEXT(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}

const char* tessera_build_info(void) { return "tessera " TESSERA_ENGINE_VERSION; }

const char* tessera_status_name(tessera_status status) {
  const bool is_known = status >= 0 && static_cast<size_t>(status) < std::size(kStatusNames);
  return is_known ? kStatusNames[status] : "unknown status";
}

tessera_status tessera_cancel_create(tessera_cancel** cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    if (cancel == nullptr) return fail(ErrorCode::invalid_argument, "cancel: is NULL");
    *cancel = std::make_unique<tessera_cancel>().release();
    return {};
  });
}

void tessera_cancel_set(tessera_cancel* cancel) {
  if (cancel != nullptr) cancel->token.cancel();
}
int32_t tessera_cancel_is_set(const tessera_cancel* cancel) {
  return cancel != nullptr && cancel->token.cancelled() ? 1 : 0;
}
void tessera_cancel_reset(tessera_cancel* cancel) {
  if (cancel != nullptr) cancel->token.reset();
}
tessera_cancel* tessera_cancel_retain(tessera_cancel* cancel) { return capi::retain(cancel); }
void tessera_cancel_release(tessera_cancel* cancel) { capi::release(cancel); }
