// libFuzzer target for files of the server: saved slots and blocks of the disk tier. The first byte chooses the format.
// Any bytes give what was written or a refusal; what is accepted is written again as the same bytes.
// fuzz/CMakeLists.txt explains how to run it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fuzz/storage_input.h"

namespace {

using namespace tessera::server;

// libFuzzer reports the input of a violation.
void require(bool holds) {
  if (!holds) std::abort();
}

void check_slot(std::span<const std::byte> bytes) {
  const SlotFileLimits limits = tessera::fuzz::slot_limits();
  const auto slot = parse_slot_file({bytes.begin(), bytes.end()}, limits);
  if (!slot) return require(!slot.error().message().empty());
  require(std::ssize(slot->tokens) <= limits.n_tokens && slot->state.size() <= limits.n_state_bytes);
  require(slot->salt.size() <= kMostSaltBytes);
  for (const int32_t token : slot->tokens) require(token >= 0 && token < limits.n_vocab);
  require(std::ranges::equal(tessera::fuzz::slot_file(*slot), bytes));
}

void check_block(std::span<const std::byte> bytes) {
  const BlockKey key = tessera::fuzz::block_key();
  const auto payload = block_payload(bytes, key, tessera::fuzz::kPayloadBytes);
  if (!payload) return require(!payload.error().message().empty());
  require(std::ranges::equal(tessera::fuzz::block_file(key, *payload), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, n)).subspan(1);
  data[0] % 2 == 0 ? check_slot(bytes) : check_block(bytes);
  return 0;
}
