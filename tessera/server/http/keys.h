// API keys: the ring of valid ones, the file that lists them, and the key that a request sends. The ring holds digests
// only, so that no key is in a message or a core file for longer than it is read.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/server/http/message.h"
#include "tessera/server/sha256.h"

namespace tessera::server {

inline constexpr size_t kMaxKeyBytes = 4096;
inline constexpr size_t kMaxKeyFileBytes = 1 << 20;

struct KeyOwner {
  std::string name{};
  int best_priority = -10;
  std::string id{};  // a part of the key's digest: the same after a restart
};

class KeyRing {
 public:
  bool empty() const { return entries_.empty(); }

  /// Adds a key. Error: invalid_argument for an empty, long or repeated one and for one with blanks.
  Result<> add(std::string_view key, KeyOwner owner);

  /// Adds the keys of a file's text: "KEY [name=NAME] [best=PRIORITY]" per line; "#" after a blank or at the beginning
  /// of a line begins a comment. Error: invalid_argument with the number of the line, without the key.
  Result<> add_lines(std::string_view text);

  /// The owner of a key. The time does not depend on the keys of the ring other than by their number.
  const KeyOwner* find(std::string_view key) const;

 private:
  struct Entry {
    Digest digest;
    KeyOwner owner;
  };
  std::vector<Entry> entries_{};
};

/// Reads a key file. Errors: io; invalid_argument where other users of the machine may read or write it, where it is
/// no regular file, has no key, or has a bad line.
Result<> add_key_file(KeyRing& ring, const std::string& path);

/// The owner of the key in "Authorization: Bearer" or "X-Api-Key".
const KeyOwner* find_sent_key(const KeyRing& ring, const HttpRequest& request);

}  // namespace tessera::server
