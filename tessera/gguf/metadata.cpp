#include "tessera/gguf/metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/gguf/limits.h"
#include "tessera/gguf/printable.h"

namespace tessera {

namespace {

Result<std::string_view> read_key(GgufDecoder& in, uint64_t i) {
  const size_t at = in.offset();
  TESSERA_ASSIGN(const std::string_view key, in.string(fmt::format("key {}", i), kGgufMaxKeyBytes));
  if (key.empty()) return fail(ErrorCode::format, "offset {}: key {} is empty", at, i);
  if (std::ranges::any_of(key, [](char c) { return c < 0x20 || c > 0x7e; }))
    return fail(ErrorCode::format, "offset {}: key {}, got {}, want printable ASCII", at, i, quote_name(key));
  return key;
}

}  // namespace

Result<Metadata> Metadata::read(GgufDecoder& in, uint64_t n_keys, std::string file_name) {
  Metadata metadata;
  metadata.file_name_ = std::move(file_name);
  std::vector<NameIndex::Entry> names;  // grows with the entries read, not with the count in the header
  for (uint64_t i = 0; i < n_keys; ++i) {
    TESSERA_ASSIGN(const std::string_view key, read_key(in, i));
    const std::string what = "value of key " + quote_name(key);
    TESSERA_ASSIGN(const GgufValue value, in.value(what, metadata.storage_));
    metadata.entries_.push_back({key, value});
    names.push_back({key, static_cast<uint32_t>(i)});
  }
  metadata.index_ = NameIndex(std::move(names));
  if (const auto twice = metadata.index_.duplicate())
    return fail(ErrorCode::format, "offset {}: key {} appears twice, as keys {} and {}",
                in.offset_of(metadata.entries_[twice->second].key), quote_name(metadata.entries_[twice->first].key),
                twice->first, twice->second);
  return metadata;
}

const GgufValue* Metadata::find(std::string_view key) const {
  const auto position = index_.find(key);
  return position ? &entries_[*position].value : nullptr;
}

std::string Metadata::at(std::string_view key) const { return fmt::format("{}: key {}", file_name_, quote_name(key)); }

}  // namespace tessera
