// Output that a caller receives in pieces.
#pragma once

#include <string_view>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"

namespace tessera::capi {

inline constexpr size_t kPieceBytes = size_t{64} << 10;

/// Gives a text to a function of the caller. Errors: invalid_argument (NULL); cancelled (by the function).
inline Result<> write_pieces(std::string_view text, tessera_write_function write, void* user) {
  TESSERA_TRY(require_pointer(write, "write"));
  for (; !text.empty(); text.remove_prefix(std::min(kPieceBytes, text.size()))) {
    const std::string_view piece = text.substr(0, kPieceBytes);
    if (write(user, piece.data(), piece.size()) != 0) return fail(ErrorCode::cancelled, "stopped by write");
  }
  return {};
}

}  // namespace tessera::capi
