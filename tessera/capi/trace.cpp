// tessera.h: timelines of sessions.
#include "tessera/capi/pieces.h"
#include "tessera/observe/session_trace.h"

using namespace tessera;
using capi::guarded;

namespace {

Result<> require_trace(const tessera_session* session) {
  TESSERA_TRY(capi::require(session, "session"));
  if (session->trace != nullptr) return {};
  return fail(ErrorCode::invalid_argument, "session: nothing is recorded: call tessera_trace_begin() first");
}

}  // namespace

tessera_status tessera_trace_begin(tessera_session* session, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    if (session->trace != nullptr) return fail(ErrorCode::invalid_argument, "session: is recorded already");
    session->trace = std::make_unique<observe::SessionTrace>(*session->session);
    return {};
  });
}

tessera_status tessera_trace_end(tessera_session* session, char* buffer, uint64_t room, uint64_t* needed,
                                 tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_trace(session));
    TESSERA_TRY(capi::write_text(session->trace->json(), buffer, room, needed));
    session->trace.reset();
    return {};
  });
}

tessera_status tessera_trace_end_pieces(tessera_session* session, tessera_write_function write, void* user,
                                        tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_trace(session));
    TESSERA_TRY(capi::write_pieces(session->trace->json(), write, user));
    session->trace.reset();
    return {};
  });
}
