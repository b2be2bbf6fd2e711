#include "tessera/llama/saved_state.h"

#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/hash.h"

namespace tessera::llama {
namespace {

constexpr uint64_t kStateMagic = 0x65746174'736c7374;  // "tslstate"
constexpr uint32_t kStateVersion = 1;

struct StateHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t n_tokens;
  uint32_t n_sequences;
  uint32_t unused;
  uint64_t n_bytes;  // of the whole state, with the checksum at its end
};

struct SequenceHeader {
  int32_t sequence;
  uint32_t unused;
  uint64_t n_bytes;
};

template <class T>
void append_items(std::vector<std::byte>& to, std::span<const T> items) {
  const auto bytes = std::as_bytes(items);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Reads one part of a state after another.
class StateCursor {
 public:
  explicit StateCursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  Result<std::span<const std::byte>> take(uint64_t n) {
    if (n > rest_.size()) return fail(ErrorCode::format, "state: {} bytes are missing", n - rest_.size());
    const auto taken = rest_.first(static_cast<size_t>(n));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  template <class T>
  Result<T> value() {
    T read;
    TESSERA_ASSIGN(const auto bytes, take(sizeof read));
    std::memcpy(&read, bytes.data(), sizeof read);
    return read;
  }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

Result<std::span<const std::byte>> checked_body(std::span<const std::byte> bytes) {
  TESSERA_ASSIGN(const auto header, StateCursor(bytes).value<StateHeader>());
  if (header.magic != kStateMagic) return fail(ErrorCode::format, "state: not written by this library");
  if (header.version != kStateVersion)
    return fail(ErrorCode::unsupported, "state: version {}, want {}", header.version, kStateVersion);
  if (header.n_bytes > bytes.size() || header.n_bytes < sizeof header + sizeof(uint64_t))
    return fail(ErrorCode::format, "state: {} bytes, its header says {}", bytes.size(), header.n_bytes);
  const auto body = bytes.first(static_cast<size_t>(header.n_bytes) - sizeof(uint64_t));
  TESSERA_ASSIGN(const auto checksum, StateCursor(bytes.subspan(body.size())).value<uint64_t>());
  if (Hash64().add(body).value() != checksum) return fail(ErrorCode::format, "state: damaged (the checksum differs)");
  return body;
}

}  // namespace

uint64_t packed_state_bytes(size_t n_tokens, std::span<const uint64_t> sequence_bytes) {
  uint64_t n_bytes = sizeof(StateHeader) + n_tokens * sizeof(int32_t) + sizeof(uint64_t);
  for (const uint64_t one : sequence_bytes) n_bytes += sizeof(SequenceHeader) + one;
  return n_bytes;
}

std::vector<std::byte> pack_state(const SavedState& state) {
  std::vector<uint64_t> sequence_bytes;
  for (const SavedSequence& one : state.sequences) sequence_bytes.push_back(one.bytes.size());
  const StateHeader header{.magic = kStateMagic,
                           .version = kStateVersion,
                           .n_tokens = static_cast<uint32_t>(state.tokens.size()),
                           .n_sequences = static_cast<uint32_t>(state.sequences.size()),
                           .unused = 0,
                           .n_bytes = packed_state_bytes(state.tokens.size(), sequence_bytes)};
  std::vector<std::byte> packed;
  packed.reserve(static_cast<size_t>(header.n_bytes));
  append_items(packed, std::span<const StateHeader>(&header, 1));
  append_items(packed, std::span<const int32_t>(state.tokens));
  for (const SavedSequence& one : state.sequences) {
    const SequenceHeader sequence{.sequence = one.sequence, .unused = 0, .n_bytes = one.bytes.size()};
    append_items(packed, std::span<const SequenceHeader>(&sequence, 1));
    append_items(packed, one.bytes);
  }
  const uint64_t checksum = Hash64().add(packed).value();
  append_items(packed, std::span<const uint64_t>(&checksum, 1));
  return packed;
}

Result<SavedState> unpack_state(std::span<const std::byte> bytes) {
  TESSERA_ASSIGN(const auto body, checked_body(bytes));
  StateCursor cursor(body);
  TESSERA_ASSIGN(const auto header, cursor.value<StateHeader>());
  SavedState state;
  TESSERA_ASSIGN(const auto tokens, cursor.take(uint64_t{header.n_tokens} * sizeof(int32_t)));
  state.tokens.resize(header.n_tokens);
  if (!tokens.empty()) std::memcpy(state.tokens.data(), tokens.data(), tokens.size());
  for (uint32_t i = 0; i < header.n_sequences; ++i) {
    TESSERA_ASSIGN(const auto sequence, cursor.value<SequenceHeader>());
    TESSERA_ASSIGN(const auto saved, cursor.take(sequence.n_bytes));
    state.sequences.push_back({sequence.sequence, saved});
  }
  if (!cursor.is_at_end()) return fail(ErrorCode::format, "state: bytes behind its last sequence");
  return state;
}

uint64_t most_state_bytes(uint64_t of_sequence, uint64_t n_sequences) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 24;  // the longest context
  constexpr uint64_t kOthers = sizeof(StateHeader) + kMostTokens * sizeof(int32_t) + sizeof(uint64_t);
  const auto with_header = checked_add<uint64_t>(of_sequence, sizeof(SequenceHeader));
  const auto of_all = with_header ? checked_mul(*with_header, n_sequences) : std::nullopt;
  const auto most = of_all ? checked_add(*of_all, kOthers) : std::nullopt;
  return most.value_or(UINT64_MAX);
}

size_t claimed_state_bytes(const std::byte* bytes) {
  StateHeader header;
  std::memcpy(&header, bytes, sizeof header);
  return header.magic == kStateMagic ? static_cast<size_t>(header.n_bytes) : 0;
}

}  // namespace tessera::llama
