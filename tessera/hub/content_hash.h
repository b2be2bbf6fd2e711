// The hashes by which a hub names the contents of files: SHA-256 of large files, git's SHA-1 of small ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/result.h"

struct evp_md_ctx_st;

namespace tessera::hub {

enum class HashKind : uint8_t { sha256, git_sha1 };

/// The kind of a hash by its length in hexadecimal digits, 64 or 40.
HashKind hash_kind(std::string_view hex);

class ContentHash {
 public:
  /// size: of the whole content, which is a part of git's hash. Errors: out_of_memory.
  static Result<ContentHash> create(HashKind kind, uint64_t size);
  ContentHash(ContentHash&&) noexcept;
  ContentHash& operator=(ContentHash&&) noexcept;
  ~ContentHash();

  void add(std::span<const std::byte> bytes);
  /// Returns the hash in hexadecimal digits, and ends it.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  explicit ContentHash(evp_md_ctx_st* context) : context_(context) {}
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// The SHA-256 of a text in hexadecimal digits. Errors: out_of_memory.
Result<std::string> sha256_hex(std::string_view text);

}  // namespace tessera::hub
