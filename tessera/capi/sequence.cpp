// tessera.h: states of sequences in files, checkpoints, and how far a sequence can go back.
#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/engine/state_file.h"

using namespace tessera;
using capi::guarded;
using capi::require_sequence;

tessera_status tessera_sequence_state_bytes(tessera_session* session, int32_t sequence, uint64_t* n_bytes,
                                            tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    TESSERA_TRY(capi::require_pointer(n_bytes, "n_bytes"));
    TESSERA_ASSIGN(*n_bytes, session->session->state_bytes(sequence));
    return {};
  });
}

tessera_status tessera_sequence_save_file(tessera_session* session, int32_t sequence, const char* path,
                                          tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    TESSERA_TRY(capi::require_pointer(path, "path"));
    return save_state_file(*session->session, sequence, path);
  });
}

tessera_status tessera_sequence_restore_file(tessera_session* session, int32_t sequence, const char* path,
                                             tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    TESSERA_TRY(capi::require_pointer(path, "path"));
    return restore_state_file(*session->session, sequence, path);
  });
}

int32_t tessera_sequence_can_shift(const tessera_session* session) {
  return capi::guarded_value<int32_t>(
      0, [&] { return capi::is_handle(session) && session->session->require_shiftable() ? 1 : 0; });
}

tessera_status tessera_sequence_rollback_limit(tessera_session* session, int32_t sequence, int32_t* position,
                                               tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    TESSERA_TRY(capi::require_pointer(position, "position"));
    *position = session->session->lowest_rollback(sequence).value_or(0);
    return {};
  });
}

tessera_status tessera_sequence_checkpoint(tessera_session* session, int32_t sequence, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    return session->session->checkpoint(sequence);
  });
}

tessera_status tessera_sequence_drop_checkpoints(tessera_session* session, int32_t sequence, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    return session->session->drop_checkpoints(sequence);
  });
}
