#include "tessera/hub/content_hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace tessera::hub {

void ContentHash::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash& ContentHash::operator=(ContentHash&&) noexcept = default;
ContentHash::~ContentHash() = default;

HashKind hash_kind(std::string_view hex) { return hex.size() == 64 ? HashKind::sha256 : HashKind::git_sha1; }

Result<ContentHash> ContentHash::create(HashKind kind, uint64_t size) {
  ContentHash hash(EVP_MD_CTX_new());
  const EVP_MD* algorithm = kind == HashKind::sha256 ? EVP_sha256() : EVP_sha1();
  if (hash.context_ == nullptr || EVP_DigestInit_ex(hash.context_.get(), algorithm, nullptr) != 1)
    return fail(ErrorCode::out_of_memory, "no memory for a hash");
  if (kind == HashKind::git_sha1) {
    const std::string header = fmt::format("blob {}", size);
    hash.add(std::as_bytes(std::span(header.c_str(), header.size() + 1)));  // with the zero after it
  }
  return hash;
}

void ContentHash::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string ContentHash::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

Result<std::string> sha256_hex(std::string_view text) {
  TESSERA_ASSIGN(ContentHash hash, ContentHash::create(HashKind::sha256, text.size()));
  hash.add(std::as_bytes(std::span(text)));
  return hash.finish();
}

}  // namespace tessera::hub
