// llama.h: states of contexts and of sequences, in memory and in files.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "tessera/base/file.h"
#include "tessera/llama/context.h"
#include "tessera/llama/saved_state.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

using SequenceBytes = std::map<int32_t, std::vector<std::byte>>;

Result<SequenceBytes> save_sequences(llama_context& context, std::span<const int32_t> sequences) {
  SequenceBytes saved;
  for (const int32_t sequence : sequences) {
    TESSERA_TRY(context.require_sequence(sequence));
    if (!context.session->max_position(sequence)) continue;
    TESSERA_ASSIGN(saved[sequence], context.session->save_state(sequence));
  }
  return saved;
}

Result<> empty_sequences(llama_context& context, std::span<const int32_t> sequences) {
  for (const int32_t sequence : sequences) TESSERA_TRY(context.session->remove(sequence, 0, INT32_MAX));
  return {};
}

Result<> restore_sequences(llama_context& context, std::span<const SavedSequence> saved) {
  for (const SavedSequence& one : saved) TESSERA_TRY(context.session->restore_state(one.sequence, one.bytes));
  return {};
}

// Replaces sequences by saved ones, which are some of them. After an error they are as they were.
Result<> replace_sequences(llama_context& context, std::span<const int32_t> sequences,
                           std::span<const SavedSequence> saved) {
  if (sequences.size() == 1 && saved.size() == 1) return restore_sequences(context, saved);
  TESSERA_ASSIGN(const SequenceBytes before, save_sequences(context, sequences));
  TESSERA_TRY(empty_sequences(context, sequences));
  Result<> restored = restore_sequences(context, saved);
  if (restored) return restored;
  TESSERA_TRY(empty_sequences(context, sequences));
  for (const auto& [sequence, bytes] : before) TESSERA_TRY(context.session->restore_state(sequence, bytes));
  return restored;
}

Result<std::vector<std::byte>> save(llama_context& context, std::span<const int32_t> sequences,
                                    std::span<const int32_t> tokens) {
  TESSERA_ASSIGN(const SequenceBytes saved, save_sequences(context, sequences));
  SavedState state{.tokens = {tokens.begin(), tokens.end()}};
  for (const auto& [sequence, bytes] : saved) state.sequences.push_back({sequence, bytes});
  return pack_state(state);
}

// Replaces these sequences by those of a state. After an error they are as they were.
Result<> restore(llama_context& context, std::span<const int32_t> sequences, SavedState& state) {
  for (const int32_t sequence : sequences) TESSERA_TRY(context.require_sequence(sequence));
  if (sequences.size() == 1) {
    if (state.sequences.size() > 1)
      return fail(ErrorCode::mismatch, "a state of {} sequences, want one", state.sequences.size());
    for (SavedSequence& one : state.sequences) one.sequence = sequences.front();
  }
  for (const SavedSequence& one : state.sequences) TESSERA_TRY(context.require_sequence(one.sequence));
  return replace_sequences(context, sequences, state.sequences);
}

std::vector<int32_t> one_or_all(const llama_context& context, std::optional<int32_t> sequence) {
  if (sequence) return {*sequence};
  std::vector<int32_t> all(static_cast<size_t>(context.options.n_sequences));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// --- in memory

Result<size_t> write_state(llama_context& context, std::span<const int32_t> sequences, uint8_t* to, size_t room) {
  if (to == nullptr) return fail(ErrorCode::invalid_argument, "dst: is NULL");
  TESSERA_ASSIGN(const auto saved, save(context, sequences, {}));
  if (saved.size() > room) return fail(ErrorCode::limit, "a state of {} bytes, the buffer has {}", saved.size(), room);
  std::memcpy(to, saved.data(), saved.size());
  return saved.size();
}

size_t state_bytes(const char* function, llama_context* ctx, std::optional<int32_t> sequence) {
  return of_context<size_t>(function, ctx, 0, [&](llama_context& of) -> Result<size_t> {
    std::vector<uint64_t> sequence_bytes;
    for (const int32_t one : one_or_all(of, sequence)) {
      TESSERA_TRY(of.require_sequence(one));
      if (!of.session->max_position(one)) continue;
      TESSERA_ASSIGN(sequence_bytes.emplace_back(), of.session->state_bytes(one));
    }
    return packed_state_bytes(0, sequence_bytes);
  });
}

size_t get_state(const char* function, llama_context* ctx, std::optional<int32_t> sequence, uint8_t* to, size_t room) {
  return of_context<size_t>(function, ctx, 0,
                            [&](llama_context& of) { return write_state(of, one_or_all(of, sequence), to, room); });
}

size_t set_state(const char* function, llama_context* ctx, std::optional<int32_t> sequence, const uint8_t* from,
                 size_t size) {
  return of_context<size_t>(function, ctx, 0, [&](llama_context& of) -> Result<size_t> {
    if (from == nullptr) return fail(ErrorCode::invalid_argument, "src: is NULL");
    const auto bytes = std::as_bytes(std::span(from, size));
    TESSERA_ASSIGN(SavedState state, unpack_state(bytes));
    TESSERA_TRY(restore(of, one_or_all(of, sequence), state));
    return claimed_state_bytes(bytes.data());
  });
}

// --- in files

Result<size_t> save_file(llama_context& context, std::span<const int32_t> sequences, const char* path,
                         const llama_token* tokens, size_t n_tokens) {
  TESSERA_ASSIGN(const std::string_view name, read_text(path, "path"));
  TESSERA_ASSIGN(const auto given, read_items(tokens, n_tokens, "tokens"));
  TESSERA_ASSIGN(const auto saved, save(context, sequences, given));
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(std::string(name)));
  TESSERA_TRY(file.write(saved));
  TESSERA_TRY(file.commit());
  return saved.size();
}

// Reads a file that may be a state of this context.
Result<std::vector<std::byte>> read_state_file(llama_context& context, const std::string& path) {
  TESSERA_ASSIGN(const File file, File::open(path));
  TESSERA_ASSIGN(const uint64_t of_sequence, context.session->most_state_bytes());
  const uint64_t most = most_state_bytes(of_sequence, static_cast<uint64_t>(context.options.n_sequences));
  if (file.size() > most)
    return fail(ErrorCode::limit, "{}: {} bytes, a state of this context has at most {}", path, file.size(), most);
  std::vector<std::byte> bytes(static_cast<size_t>(file.size()));
  TESSERA_TRY(file.read_at(0, bytes));
  return bytes;
}

struct TokenRoom {
  llama_token* tokens;
  size_t n;
  size_t* n_written;
};

// A single sequence is empty after a state that was refused: node-llama-cpp then goes on at position 0.
Result<size_t> load_file(llama_context& context, std::optional<int32_t> sequence, const char* path,
                         const TokenRoom& room) {
  TESSERA_ASSIGN(const std::string_view name, read_text(path, "path"));
  TESSERA_ASSIGN(const std::vector<std::byte> file, read_state_file(context, std::string(name)));
  Result<> restored = [&]() -> Result<> {
    TESSERA_ASSIGN(SavedState state, unpack_state(file));
    if (state.tokens.size() > room.n || (room.tokens == nullptr && !state.tokens.empty()))
      return fail(ErrorCode::limit, "{} tokens, room is for {}", state.tokens.size(), room.n);
    TESSERA_TRY(restore(context, one_or_all(context, sequence), state));
    std::ranges::copy(state.tokens, room.tokens);
    if (room.n_written != nullptr) *room.n_written = state.tokens.size();
    return {};
  }();
  if (restored) return file.size();
  if (sequence && context.require_sequence(*sequence)) TESSERA_TRY(empty_sequences(context, std::span(&*sequence, 1)));
  return forward_error(restored, name);
}

}  // namespace

size_t tessera_llama_state_get_size(llama_context* ctx) { return state_bytes("llama_state_get_size", ctx, {}); }
size_t tessera_llama_state_get_data(llama_context* ctx, uint8_t* dst, size_t size) {
  return get_state("llama_state_get_data", ctx, {}, dst, size);
}
size_t tessera_llama_state_set_data(llama_context* ctx, const uint8_t* src, size_t size) {
  return set_state("llama_state_set_data", ctx, {}, src, size);
}

// These two know no sizes: the caller has asked for that of the state, which is also in its first bytes.
size_t tessera_llama_copy_state_data(llama_context* ctx, uint8_t* dst) {
  return get_state("llama_copy_state_data", ctx, {}, dst, SIZE_MAX);
}
size_t tessera_llama_set_state_data(llama_context* ctx, const uint8_t* src) {
  const size_t size = src == nullptr ? 0 : claimed_state_bytes(reinterpret_cast<const std::byte*>(src));
  return set_state("llama_set_state_data", ctx, {}, src, size);
}

bool tessera_llama_state_load_file(llama_context* ctx, const char* path_session, llama_token* tokens_out,
                                   size_t n_token_capacity, size_t* n_token_count_out) {
  return of_context("llama_state_load_file", ctx, false, [&](llama_context& of) -> Result<bool> {
    TESSERA_TRY(load_file(of, {}, path_session, {tokens_out, n_token_capacity, n_token_count_out}));
    return true;
  });
}
bool tessera_llama_state_save_file(llama_context* ctx, const char* path_session, const llama_token* tokens,
                                   size_t n_token_count) {
  return of_context("llama_state_save_file", ctx, false, [&](llama_context& of) -> Result<bool> {
    TESSERA_TRY(save_file(of, one_or_all(of, {}), path_session, tokens, n_token_count));
    return true;
  });
}

size_t tessera_llama_state_seq_get_size(llama_context* ctx, llama_seq_id seq_id) {
  return state_bytes("llama_state_seq_get_size", ctx, seq_id);
}
size_t tessera_llama_state_seq_get_data(llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id) {
  return get_state("llama_state_seq_get_data", ctx, seq_id, dst, size);
}
size_t tessera_llama_state_seq_set_data(llama_context* ctx, const uint8_t* src, size_t size, llama_seq_id dest_seq_id) {
  return set_state("llama_state_seq_set_data", ctx, dest_seq_id, src, size);
}

// The flags ask for a part of a state, or for one that stays on its device. All of it in memory serves as well.
size_t tessera_llama_state_seq_get_size_ext(llama_context* ctx, llama_seq_id seq_id, uint32_t /*flags*/) {
  return state_bytes("llama_state_seq_get_size_ext", ctx, seq_id);
}
size_t tessera_llama_state_seq_get_data_ext(llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id,
                                            uint32_t /*flags*/) {
  return get_state("llama_state_seq_get_data_ext", ctx, seq_id, dst, size);
}
size_t tessera_llama_state_seq_set_data_ext(llama_context* ctx, const uint8_t* src, size_t size,
                                            llama_seq_id dest_seq_id, uint32_t /*flags*/) {
  return set_state("llama_state_seq_set_data_ext", ctx, dest_seq_id, src, size);
}

size_t tessera_llama_state_seq_save_file(llama_context* ctx, const char* filepath, llama_seq_id seq_id,
                                         const llama_token* tokens, size_t n_token_count) {
  return of_context<size_t>("llama_state_seq_save_file", ctx, 0, [&](llama_context& of) {
    return save_file(of, std::span(&seq_id, 1), filepath, tokens, n_token_count);
  });
}
size_t tessera_llama_state_seq_load_file(llama_context* ctx, const char* filepath, llama_seq_id dest_seq_id,
                                         llama_token* tokens_out, size_t n_token_capacity, size_t* n_token_count_out) {
  return of_context<size_t>("llama_state_seq_load_file", ctx, 0, [&](llama_context& of) {
    return load_file(of, dest_seq_id, filepath, {tokens_out, n_token_capacity, n_token_count_out});
  });
}
