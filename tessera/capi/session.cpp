// tessera.h: sessions and their sequences.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"

using namespace tessera;
using capi::guarded;
using capi::guarded_value;

namespace {

constexpr tessera_session_options kSessionDefaults = {};

constexpr std::array kCacheTypes = {DType::f16,  DType::f32,  DType::f16,  DType::bf16, DType::q8_0,
                                    DType::q5_1, DType::q5_0, DType::q4_1, DType::q4_0, DType::iq4_nl};

Result<DType> cache_type(int32_t type, std::string_view name) {
  if (type < 0 || static_cast<size_t>(type) >= kCacheTypes.size())
    return fail(ErrorCode::invalid_argument, "{}: {}, want a TESSERA_CACHE_ type, 0 to {}", name, type,
                kCacheTypes.size() - 1);
  return kCacheTypes[static_cast<size_t>(type)];
}

Result<SessionOptions> session_options(const tessera_model& model, const tessera_session_options* options) {
  TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kSessionDefaults, "options"));
  if ((wanted.flags & ~uint32_t{TESSERA_SESSION_EMBEDDINGS}) != 0)
    return fail(ErrorCode::invalid_argument, "flags: {:#x}, known is {:#x}", wanted.flags, TESSERA_SESSION_EMBEDDINGS);
  if (wanted.n_threads < 0) return fail(ErrorCode::invalid_argument, "n_threads: {}, want 0 or more", wanted.n_threads);
  SessionOptions result;
  result.n_ctx = wanted.n_ctx;
  if (wanted.n_ubatch != 0) result.n_ubatch = wanted.n_ubatch;
  if (wanted.n_sequences != 0) result.n_sequences = wanted.n_sequences;
  if (wanted.n_outputs != 0) result.n_outputs = wanted.n_outputs;
  result.embeddings = (wanted.flags & TESSERA_SESSION_EMBEDDINGS) != 0;
  result.n_checkpoints = wanted.n_checkpoints;
  TESSERA_ASSIGN(result.type_k, cache_type(wanted.type_k, "type_k"));
  TESSERA_ASSIGN(result.type_v, cache_type(wanted.type_v, "type_v"));
  result.threads.n_threads = wanted.n_threads == 0 ? model.runtime->n_threads : wanted.n_threads;
  return result;
}

int32_t kind_of(MemoryPart::Kind kind) {
  switch (kind) {
    case MemoryPart::Kind::weights:
      return TESSERA_MEMORY_WEIGHTS;
    case MemoryPart::Kind::cache:
      return TESSERA_MEMORY_CACHE;
    case MemoryPart::Kind::compute:
      return TESSERA_MEMORY_COMPUTE;
    case MemoryPart::Kind::output:
      break;
  }
  return TESSERA_MEMORY_OUTPUT;
}

Result<> write_parts(const MemoryReport& report, tessera_memory_part* parts, uint64_t room, uint64_t* needed) {
  std::vector<tessera_memory_part> found;
  for (const MemoryPart& part : report.parts) {
    tessera_memory_part& one = found.emplace_back();
    capi::copy_text(part.device, one.device);
    capi::copy_text(part.buffer, one.buffer);
    one.kind = kind_of(part.kind);
    one.n_bytes = part.bytes;
  }
  return capi::write_items(std::span<const tessera_memory_part>(found), parts, room, needed, "parts");
}

Result<> require_sequence(const tessera_session* session, int32_t sequence) {
  TESSERA_TRY(capi::require(session, "session"));
  const int32_t n = session->session->options().n_sequences;
  if (sequence >= 0 && sequence < n) return {};
  return fail(ErrorCode::invalid_argument, "sequence: {}, want 0 to {}", sequence, n - 1);
}

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
  return session_options(model, options);
}

void tessera_session_options_init(tessera_session_options* options, size_t size) {
  capi::write_sized(options, size, kSessionDefaults);
}

tessera_status tessera_session_plan(tessera_model* model, const tessera_session_options* options,
                                    tessera_memory_part* parts, uint64_t room, uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_ASSIGN(const SessionOptions wanted, session_options(*model, options));
    TESSERA_ASSIGN(const MemoryReport report, Session::plan(*model->engine, wanted));
    return write_parts(report, parts, room, needed);
  });
}

tessera_status tessera_session_create(tessera_model* model, const tessera_session_options* options,
                                      tessera_session** session, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    if (session == nullptr) return fail(ErrorCode::invalid_argument, "session: is NULL");
    TESSERA_ASSIGN(const SessionOptions wanted, capi::read_session_options(*model, options));
    auto created = std::make_unique<tessera_session>(model);
    TESSERA_ASSIGN(created->session, Session::create(model->engine, wanted));
    if (const std::string_view warning = created->session->warning(); !warning.empty())
      model->runtime->log(TESSERA_LOG_WARNING, std::string(warning));
    *session = created.release();
    return {};
  });
}

tessera_session* tessera_session_retain(tessera_session* session) { return capi::retain(session); }
void tessera_session_release(tessera_session* session) { capi::release(session); }

int64_t tessera_session_n_ctx(const tessera_session* session) {
  return capi::is_handle(session) ? session->session->n_ctx() : 0;
}

tessera_status tessera_session_memory(tessera_session* session, tessera_memory_part* parts, uint64_t room,
                                      uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    return write_parts(session->session->allocated_memory(), parts, room, needed);
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
    TESSERA_ASSIGN(const std::vector<std::byte> state, of.save_state(sequence));
    return capi::write_items(std::span<const std::byte>(state), static_cast<std::byte*>(buffer), room, needed,
                             "buffer");
  });
}

tessera_status tessera_sequence_restore(tessera_session* session, int32_t sequence, const void* state, uint64_t n_bytes,
                                        tessera_error* error) {
  return with_sequence(session, sequence, error, [&](Session& of) -> Result<> {
    if (state == nullptr && n_bytes > 0) return fail(ErrorCode::invalid_argument, "state: is NULL");
    return of.restore_state(sequence, {static_cast<const std::byte*>(state), static_cast<size_t>(n_bytes)});
  });
}
