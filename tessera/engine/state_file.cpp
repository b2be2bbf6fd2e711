#include "tessera/engine/state_file.h"

#include "tessera/base/file.h"
#include "tessera/base/index.h"

namespace tessera {

Result<> save_state_file(Session& session, int32_t sequence, const std::string& path) {
  TESSERA_ASSIGN(const std::vector<std::byte> state, session.save_state(sequence));
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(state));
  return file.commit();
}

Result<> restore_state_file(Session& session, int32_t sequence, const std::string& path) {
  TESSERA_ASSIGN(const File file, File::open(path));
  TESSERA_ASSIGN(const uint64_t most, session.most_state_bytes());
  if (file.size() > most)
    return fail(ErrorCode::limit, "{}: {} bytes, a state of this session has at most {}", path, file.size(), most);
  std::vector<std::byte> state(to_size(file.size()));
  TESSERA_TRY(file.read_at(0, state));
  auto restored = session.restore_state(sequence, state);
  if (!restored) return forward_error(restored, path);
  return {};
}

}  // namespace tessera
