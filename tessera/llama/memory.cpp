// llama.h: the stored tokens of sequences.
#include <algorithm>

#include "tessera/llama/context.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

// A range of positions [begin, end), where negative numbers are open ends.
struct Positions {
  Positions(llama_pos p0, llama_pos p1) : begin(std::max(p0, 0)), end(p1 < 0 ? INT32_MAX : p1) {}
  bool is_empty() const { return begin >= end; }
  int32_t begin, end;
};

// Calls a function for the context of a memory. A model without memory has NULL, for which nothing happens.
template <class T, class Function>
T of_memory(const char* function, llama_memory_t memory, T failed, Function&& body) {
  if (memory == nullptr) return failed;
  return guarded<T>(function, failed, [&]() -> Result<T> {
    TESSERA_TRY(require(memory, "mem"));
    return body(memory->context);
  });
}

// Calls a function that returns a Result<> for a sequence that exists.
template <class Function>
void of_sequence(const char* function, llama_memory_t memory, llama_seq_id sequence, Function&& body) {
  of_memory(function, memory, false, [&](llama_context& of) -> Result<bool> {
    TESSERA_TRY(of.require_sequence(sequence));
    TESSERA_TRY(body(*of.session));
    return true;
  });
}

// Whether the positions are gone. That a part of a recurrent state cannot go is no error.
Result<bool> remove_positions(llama_context& context, llama_seq_id sequence, const Positions& positions) {
  if (positions.is_empty()) return true;
  const auto removed = context.session->remove(sequence, positions.begin, positions.end);
  if (!removed) log_line(LogLevel::debug, "llama_memory_seq_rm", removed.error().message());
  return removed.has_value();
}

}  // namespace

void tessera_llama_memory_clear(llama_memory_t mem, bool /*data*/) {
  of_memory("llama_memory_clear", mem, false, [](llama_context& of) -> Result<bool> {
    TESSERA_TRY(of.session->clear());
    return true;
  });
}

bool tessera_llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1) {
  if (mem == nullptr) return true;
  return of_memory("llama_memory_seq_rm", mem, false, [&](llama_context& of) -> Result<bool> {
    const Positions positions(p0, p1);
    if (seq_id >= 0) {
      TESSERA_TRY(of.require_sequence(seq_id));
      return remove_positions(of, seq_id, positions);
    }
    bool are_removed = true;
    for (int32_t sequence = 0; sequence < of.options.n_sequences; ++sequence) {
      TESSERA_ASSIGN(const bool is_removed, remove_positions(of, sequence, positions));
      are_removed &= is_removed;
    }
    return are_removed;
  });
}

void tessera_llama_memory_seq_cp(llama_memory_t mem, llama_seq_id seq_id_src, llama_seq_id seq_id_dst, llama_pos p0,
                                 llama_pos p1) {
  of_memory("llama_memory_seq_cp", mem, false, [&](llama_context& of) -> Result<bool> {
    TESSERA_TRY(of.require_sequence(seq_id_src));
    TESSERA_TRY(of.require_sequence(seq_id_dst));
    const Positions positions(p0, p1);
    if (positions.is_empty() || seq_id_src == seq_id_dst) return true;
    // The copy takes the place of what the other sequence has there.
    TESSERA_TRY(of.session->remove(seq_id_dst, positions.begin, positions.end));
    TESSERA_TRY(of.session->copy(seq_id_src, seq_id_dst, positions.begin, positions.end));
    return true;
  });
}

void tessera_llama_memory_seq_keep(llama_memory_t mem, llama_seq_id seq_id) {
  of_sequence("llama_memory_seq_keep", mem, seq_id, [&](Session& session) { return session.keep(seq_id); });
}

void tessera_llama_memory_seq_add(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1,
                                  llama_pos delta) {
  of_sequence("llama_memory_seq_add", mem, seq_id, [&](Session& session) -> Result<> {
    const Positions positions(p0, p1);
    if (positions.is_empty() || delta == 0) return {};
    return session.shift(seq_id, positions.begin, positions.end, delta);
  });
}

// Several tokens would come to the same position, of which the paged cache has one cell each.
void tessera_llama_memory_seq_div(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1, int32_t d) {
  of_sequence("llama_memory_seq_div", mem, seq_id, [&](Session&) -> Result<> {
    if (d == 1 || Positions(p0, p1).is_empty()) return {};
    return fail(ErrorCode::unsupported, "positions are not divided: each belongs to one token");
  });
}

llama_pos tessera_llama_memory_seq_pos_min(llama_memory_t mem, llama_seq_id seq_id) {
  return of_memory<llama_pos>("llama_memory_seq_pos_min", mem, -1, [&](llama_context& of) -> Result<llama_pos> {
    TESSERA_TRY(of.require_sequence(seq_id));
    return of.session->min_position(seq_id).value_or(-1);
  });
}

llama_pos tessera_llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id) {
  return of_memory<llama_pos>("llama_memory_seq_pos_max", mem, -1, [&](llama_context& of) -> Result<llama_pos> {
    TESSERA_TRY(of.require_sequence(seq_id));
    return of.session->max_position(seq_id).value_or(-1);
  });
}

bool tessera_llama_memory_can_shift(llama_memory_t mem) {
  return of_memory("llama_memory_can_shift", mem, false,
                   [](llama_context& of) -> Result<bool> { return of.session->require_shiftable().has_value(); });
}
