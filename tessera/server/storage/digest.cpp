#include "tessera/server/storage/digest.h"

#include <gnu/libc-version.h>

#include <bit>

#include "tessera/engine/numerics.h"

namespace tessera::server {

// The layers of a model may be on several devices, each with bits of its own. Sines and exponentials are the C
// library's.
Digest session_digest(const Session& session) {
  const Engine& engine = session.engine();
  Sha256 sha;
  sha.add_text("tessera session 1").add(uint64_t{kNumericsRevision}).add_text(::gnu_get_libc_version());
  sha.add(engine.fingerprint());
  sha.add(static_cast<uint64_t>(session.options().type_k)).add(static_cast<uint64_t>(session.options().type_v));
  sha.add(static_cast<uint64_t>(session.options().activations)).add(static_cast<uint64_t>(session.options().attention));
  sha.add(static_cast<uint64_t>(kKvBlockTokens));
  const ModelPlacement& placement = engine.placement();
  sha.add(static_cast<uint64_t>(placement.n_entries()));
  for (int64_t i = 0; i < placement.n_entries(); ++i) sha.add_text(placement.entry(i).name());
  for (const Device* device : engine.devices()) {
    sha.add_text(device->name());
    if (device->kind() != DeviceKind::cpu) sha.add_text(device->description());
    for (const auto& [name, value] : device->properties())
      if (name == "isa") sha.add_text(value);
  }
  return sha.finish();
}

std::vector<AdapterKey> adapter_keys(const Session& session, std::span<const AdapterScale> adapters) {
  std::vector<AdapterKey> keys;
  for (const auto& [adapter, scale] : adapters)
    keys.push_back({.fingerprint = session.options().adapters[adapter].adapter->fingerprint(), .scale = scale});
  return keys;
}

Result<std::vector<AdapterScale>> find_adapters(const Session& session, std::span<const AdapterKey> keys) {
  const std::vector<SessionAdapter>& all = session.options().adapters;
  std::vector<AdapterScale> adapters;
  size_t next = 0;
  for (const AdapterKey& key : keys) {
    while (next < all.size() && all[next].adapter->fingerprint() != key.fingerprint) ++next;
    if (next == all.size())
      return fail(ErrorCode::mismatch, "computed with an adapter that this server does not have, or in another order");
    adapters.push_back({.adapter = next++, .scale = key.scale});
  }
  return adapters;
}

Digest root_digest(const Digest& session, std::string_view salt, std::span<const AdapterKey> adapters) {
  Sha256 sha;
  sha.add(session).add_text(salt);
  for (const auto& [fingerprint, scale] : adapters) sha.add(fingerprint).add(uint64_t{std::bit_cast<uint32_t>(scale)});
  return sha.finish();
}

Digest block_digest(const Digest& parent, std::span<const int32_t> tokens) {
  return Sha256().add(parent).add(std::as_bytes(tokens)).finish();
}

Digest part_digest(const Digest& block, const SavedPart& part) {
  if (part.kind == SavedPart::Kind::block) return block;
  const auto begin_row = static_cast<uint64_t>(part.begin_row);
  return Sha256().add(block).add(static_cast<uint64_t>(part.kind)).add(uint64_t{part.group}).add(begin_row).finish();
}

}  // namespace tessera::server
