// tessera.h: sessions and their sequences.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/capi/plans.h"

using namespace tessera;
using capi::guarded;
using capi::require_sequence;

Result<> capi::require_sequence(const tessera_session* session, int32_t sequence) {
  TESSERA_TRY(require(session, "session"));
  const int32_t n = session->session->options().n_sequences;
  if (sequence >= 0 && sequence < n) return {};
  return fail(ErrorCode::invalid_argument, "sequence: {}, want 0 to {}", sequence, n - 1);
}

namespace {

// The position behind the last token of a sequence.
int32_t next_position(const Session& session, int32_t sequence) {
  return session.max_position(sequence).value_or(-1) + 1;
}

int32_t end_or_all(int32_t end) { return end == -1 ? INT32_MAX : end; }

// Calls a function of the session for a sequence that exists.
template <class Function>
tessera_status with_sequence(tessera_session* session, int32_t sequence, tessera_error* error, Function&& function) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    return function(*session->session);
  });
}

Result<> decode(tessera_session& session, std::span<const tessera_batch_token> tokens, const CancelToken* cancel) {
  const Session& of = *session.session;
  std::vector<int32_t> next(static_cast<size_t>(of.options().n_sequences));
  for (size_t i = 0; i < next.size(); ++i) next[i] = next_position(of, static_cast<int32_t>(i));
  session.batch.clear();
  for (const tessera_batch_token& token : tokens) {
    TESSERA_TRY(require_sequence(&session, token.sequence));
    if (token.position < -1) return fail(ErrorCode::invalid_argument, "position: {}, want -1 or more", token.position);
    int32_t& behind = next[static_cast<size_t>(token.sequence)];
    const int32_t position = token.position == -1 ? behind : token.position;
    behind = position + 1;
    session.batch.add({.token = token.token,
                       .position = position,
                       .sequence = token.sequence,
                       .wants_logits = (token.flags & TESSERA_WANTS_OUTPUT) != 0});
  }
  return session.session->decode(session.batch, cancel);
}

}  // namespace

Result<SessionOptions> capi::read_session_options(const tessera_model& model, const tessera_session_options* options) {
  if (!model.is_loaded) return fail(ErrorCode::invalid_argument, "model: call tessera_model_load() first");
  TESSERA_ASSIGN(SessionOptions wanted, session_options(model, options));
  for (const auto& [adapter, scale] : wanted.adapters)
    if (!adapter->is_loaded())
      return fail(ErrorCode::invalid_argument, "adapters: {}: call tessera_adapter_load() first", adapter->name());
  return wanted;
}

Result<std::unique_ptr<Session>> capi::create_session(const tessera_model& model, SessionOptions options) {
  TESSERA_ASSIGN(options.threads.pool, model.runtime->threads());
  return Session::create(model.engine, options);
}

tessera_status tessera_session_create(tessera_model* model, const tessera_session_options* options,
                                      tessera_session** session, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(session, "session"));
    TESSERA_ASSIGN(const SessionOptions wanted, capi::read_session_options(*model, options));
    auto created = std::make_unique<tessera_session>(model);
    TESSERA_ASSIGN(created->memory, capi::take_session_memory(*model, wanted));
    TESSERA_ASSIGN(created->session, capi::create_session(*model, wanted));
    if (const std::string_view warning = created->session->warning(); !warning.empty())
      model->runtime->log(TESSERA_LOG_WARNING, std::string(warning));
    *session = created.release();
    return {};
  });
}

tessera_session* tessera_session_retain(tessera_session* session) { return capi::retain(session); }
void tessera_session_release(tessera_session* session) { capi::release(session); }

tessera_status tessera_session_info_get(const tessera_session* session, tessera_session_info* info,
                                        tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    TESSERA_TRY(capi::require_pointer(info, "info"));
    TESSERA_TRY(capi::require_size(info->size, "info"));
    const SessionOptions& options = session->session->options();
    const ModelInfo& model = session->session->engine().model().info();
    tessera_session_info found{};
    found.flags = options.embeddings ? uint32_t{TESSERA_SESSION_EMBEDDINGS} : 0;
    found.n_ctx = options.n_ctx;
    found.n_ubatch = options.n_ubatch;
    found.n_outputs = options.n_outputs;
    found.n_row = options.embeddings ? model.n_embd : model.n_vocab;
    found.n_sequences = options.n_sequences;
    found.n_threads = options.threads.n_threads;
    capi::write_sized(info, info->size, found);
    return {};
  });
}

int64_t tessera_session_n_ctx(const tessera_session* session) {
  return capi::is_handle(session) ? session->session->n_ctx() : 0;
}

tessera_status tessera_session_memory(tessera_session* session, tessera_memory_part* parts, uint64_t room,
                                      uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    return capi::write_parts(session->session->allocated_memory().parts, parts, room, needed);
  });
}

tessera_status tessera_session_decode(tessera_session* session, const tessera_batch_token* tokens, uint64_t count,
                                      tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    TESSERA_ASSIGN(const auto given, capi::read_items(tokens, count, "tokens"));
    return decode(*session, given, token);
  });
}

tessera_status tessera_session_append(tessera_session* session, int32_t sequence, const int32_t* tokens, uint64_t count,
                                      uint32_t flags, tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    TESSERA_ASSIGN(const auto ids, capi::read_items(tokens, count, "tokens"));
    std::vector<tessera_batch_token> batch(ids.size());
    for (size_t i = 0; i < ids.size(); ++i)
      batch[i] = {.token = ids[i], .position = -1, .sequence = sequence, .flags = 0};
    if (!batch.empty()) batch.back().flags = flags;
    return decode(*session, batch, token);
  });
}

tessera_status tessera_session_encode(tessera_session* session, int32_t sequence, const int32_t* tokens, uint64_t count,
                                      tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_sequence(session, sequence));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    TESSERA_ASSIGN(const auto ids, capi::read_items(tokens, count, "tokens"));
    return session->session->encode(sequence, ids, token);
  });
}

int64_t tessera_session_output_count(tessera_session* session) {
  return capi::is_handle(session) ? session->session->n_outputs() : 0;
}

const float* tessera_session_output(tessera_session* session, int64_t index, uint64_t* count) {
  if (count != nullptr) *count = 0;
  if (!capi::is_handle(session) || index < 0 || index >= session->session->n_outputs()) return nullptr;
  const std::span<const float> row = session->session->logits(index);
  if (count != nullptr) *count = row.size();
  return row.data();
}

tessera_status tessera_sequence_range(tessera_session* session, int32_t sequence, int32_t* first, int32_t* last,
                                      tessera_error* error) {
  return with_sequence(session, sequence, error, [&](Session& of) -> Result<> {
    if (first != nullptr) *first = of.min_position(sequence).value_or(-1);
    if (last != nullptr) *last = of.max_position(sequence).value_or(-1);
    return {};
  });
}

tessera_status tessera_sequence_remove(tessera_session* session, int32_t sequence, int32_t begin, int32_t end,
                                       tessera_error* error) {
  return with_sequence(session, sequence, error,
                       [&](Session& of) { return of.remove(sequence, begin, end_or_all(end)); });
}

tessera_status tessera_sequence_keep(tessera_session* session, int32_t sequence, tessera_error* error) {
  return with_sequence(session, sequence, error, [&](Session& of) { return of.keep(sequence); });
}

tessera_status tessera_sequence_fork(tessera_session* session, int32_t from, int32_t to, int32_t begin, int32_t end,
                                     tessera_error* error) {
  return with_sequence(session, from, error, [&](Session& of) -> Result<> {
    TESSERA_TRY(require_sequence(session, to));
    return of.copy(from, to, begin, end_or_all(end));
  });
}

tessera_status tessera_sequence_shift(tessera_session* session, int32_t sequence, int32_t begin, int32_t end,
                                      int32_t delta, tessera_error* error) {
  return with_sequence(session, sequence, error,
                       [&](Session& of) { return of.shift(sequence, begin, end_or_all(end), delta); });
}

tessera_status tessera_session_clear(tessera_session* session, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    return session->session->clear();
  });
}

tessera_status tessera_sequence_save(tessera_session* session, int32_t sequence, void* buffer, uint64_t room,
                                     uint64_t* needed, tessera_error* error) {
  return with_sequence(session, sequence, error, [&](Session& of) -> Result<> {
    TESSERA_ASSIGN(const uint64_t n_bytes, of.state_bytes(sequence));
    if (needed != nullptr) *needed = n_bytes;
    if (n_bytes > room) return fail(ErrorCode::limit, "buffer: {} bytes are needed, room is for {}", n_bytes, room);
    TESSERA_ASSIGN(const std::vector<std::byte> state, of.save_state(sequence));
    return capi::write_items(std::span<const std::byte>(state), static_cast<std::byte*>(buffer), room, needed,
                             "buffer");
  });
}

tessera_status tessera_sequence_restore(tessera_session* session, int32_t sequence, const void* state, uint64_t n_bytes,
                                        tessera_error* error) {
  return with_sequence(session, sequence, error, [&](Session& of) -> Result<> {
    if (n_bytes > 0) TESSERA_TRY(capi::require_pointer(state, "state"));
    return of.restore_state(sequence, {static_cast<const std::byte*>(state), static_cast<size_t>(n_bytes)});
  });
}
