// Saved states of sequences in files: the bytes of Session::save_state(), which have a checksum.
#pragma once

#include <string>

#include "tessera/engine/session.h"

namespace tessera {

/// Writes the state of a sequence. The file appears under its path when it is complete. Errors: those of save_state()
/// and AtomicFile.
Result<> save_state_file(Session& session, int32_t sequence, const std::string& path);

/// Replaces a sequence by the state in a file. Errors, all with the path: those of File and of restore_state(); limit
/// (more bytes than a state of this session can have, before any is read). After such an error the sequence is as it
/// was.
Result<> restore_state_file(Session& session, int32_t sequence, const std::string& path);

}  // namespace tessera
