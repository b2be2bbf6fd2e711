// llama.h: the computing of batches.
#include <algorithm>
#include <ranges>

#include "tessera/engine/embedding.h"
#include "tessera/llama/context.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr int32_t kDone = 0, kNoRoom = 1, kAborted = 2, kBadBatch = -1, kFailed = -3;

// A token of a program's batch. Its first sequence computes it, the others get a copy of what is stored.
struct GivenToken {
  BatchToken token;
  std::span<const llama_seq_id> sequences;
};

int32_t status_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::limit:
      return kNoRoom;
    case ErrorCode::cancelled:
      return kAborted;
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
    case ErrorCode::mismatch:
      return kBadBatch;
    default:
      return kFailed;
  }
}

// Runs a function that returns a Result<>. The kind of its error becomes the number that llama.h documents.
template <class Function>
int32_t computed(const char* function, llama_context* ctx, Function&& body) {
  return of_context<int32_t>(function, ctx, kBadBatch, [&](llama_context& of) -> Result<int32_t> {
    of.outputs.clear();
    const Result<> done = body(of);
    if (done) return kDone;
    const bool is_expected = done.error().code() == ErrorCode::limit || done.error().code() == ErrorCode::cancelled;
    log_line(is_expected ? LogLevel::warning : LogLevel::error, function, done.error().message());
    return status_of(done.error());
  });
}

// Reads the arrays of a batch, each of which but the tokens may be missing.
class BatchReader {
 public:
  BatchReader(const llama_context& context, const llama_batch& batch) : context_(context), batch_(batch) {}

  Result<std::vector<GivenToken>> read() {
    TESSERA_TRY(require_tokens());
    next_.resize(static_cast<size_t>(context_.options.n_sequences));
    for (size_t i = 0; i < next_.size(); ++i) {
      const auto last =
          context_.is_without_memory() ? std::nullopt : context_.session->max_position(static_cast<int32_t>(i));
      next_[i] = last.value_or(-1) + 1;
    }
    std::vector<GivenToken> tokens(static_cast<size_t>(batch_.n_tokens));
    for (size_t i = 0; i < tokens.size(); ++i) TESSERA_TRY(read_token(i, tokens[i]));
    return tokens;
  }

 private:
  Result<> require_tokens() const {
    if (batch_.n_tokens < 1) return fail(ErrorCode::invalid_argument, "n_tokens: {}, want 1 or more", batch_.n_tokens);
    if (std::cmp_greater(batch_.n_tokens, context_.params.n_batch))
      return fail(ErrorCode::invalid_argument, "n_tokens: {}, n_batch is {}", batch_.n_tokens, context_.params.n_batch);
    if (batch_.token != nullptr) return {};
    if (batch_.embd != nullptr) return fail(ErrorCode::unsupported, "embd: vectors in place of tokens");
    return fail(ErrorCode::invalid_argument, "token: is NULL");
  }

  Result<std::span<const llama_seq_id>> sequences_of(size_t i) const {
    if (batch_.seq_id == nullptr) return std::span(&kFirstSequence, 1);
    const int32_t n = batch_.n_seq_id == nullptr ? 1 : batch_.n_seq_id[i];
    if (n < 1 || n > context_.options.n_sequences || batch_.seq_id[i] == nullptr)
      return fail(ErrorCode::invalid_argument, "token {}: {} sequences, want 1 to {}", i, n,
                  context_.options.n_sequences);
    const std::span<const llama_seq_id> ids(batch_.seq_id[i], static_cast<size_t>(n));
    for (const llama_seq_id id : ids) TESSERA_TRY(context_.require_sequence(id));
    return ids;
  }

  bool wants_output(size_t i) const {
    if (context_.options.embeddings) return true;
    return batch_.logits == nullptr ? i + 1 == static_cast<size_t>(batch_.n_tokens) : batch_.logits[i] != 0;
  }

  Result<> read_token(size_t i, GivenToken& to) {
    TESSERA_ASSIGN(to.sequences, sequences_of(i));
    const int32_t sequence = to.sequences.front();
    const int32_t position = batch_.pos == nullptr ? next_[static_cast<size_t>(sequence)] : batch_.pos[i];
    if (position < 0) return fail(ErrorCode::invalid_argument, "token {}: position {}", i, position);
    TESSERA_TRY(require_room(sequence, position));
    for (const llama_seq_id id : to.sequences) {
      int32_t& next = next_[static_cast<size_t>(id)];
      if (next > 0 && position != next)
        return fail(ErrorCode::invalid_argument, "token {}: position {} of sequence {}, which goes on at {}", i,
                    position, id, next);
      next = position + 1;
    }
    to.token = {.token = batch_.token[i], .position = position, .sequence = sequence, .wants_logits = wants_output(i)};
    return {};
  }

  Result<> require_room(int32_t sequence, int32_t position) const {
    if (context_.is_without_memory()) return {};
    const int32_t first = context_.session->min_position(sequence).value_or(0);
    if (position < context_.session->n_ctx() && position - first < context_.n_ctx_seq) return {};
    return fail(ErrorCode::limit, "no room for position {} of sequence {}: the context has {}", position, sequence,
                context_.n_ctx_seq);
  }

  static constexpr llama_seq_id kFirstSequence = 0;
  const llama_context& context_;
  const llama_batch& batch_;
  std::vector<int32_t> next_;  // by sequence: the position behind its last token
};

bool equal_sequences(const GivenToken& a, const GivenToken& b) { return std::ranges::equal(a.sequences, b.sequences); }

// The sequences of a batch as they were before it. Puts them back at its end, unless the batch has succeeded.
class Rollback {
 public:
  explicit Rollback(llama_context& context) : context_(context) {}
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  ~Rollback() {
    if (has_succeeded_) return;
    context_.outputs.clear();
    for (const Before& before : sequences_) guarded("llama_decode", [&] { return put_back(before); });
  }

  /// saves_states: saves the sequences that cannot be cut at their old end.
  Result<> begin(std::span<const GivenToken> tokens, bool saves_states) {
    for (const GivenToken& token : tokens)
      for (const llama_seq_id id : token.sequences)
        if (std::ranges::find(sequences_, id, &Before::sequence) == sequences_.end())
          TESSERA_TRY(add(id, saves_states));
    return {};
  }
  void succeed() { has_succeeded_ = true; }

 private:
  struct Before {
    llama_seq_id sequence;
    std::optional<int32_t> last;   // its last position
    std::vector<std::byte> state;  // empty: the sequence can be cut
  };

  // A recurrent state has no earlier positions, and a sliding window forgets them.
  bool can_be_cut() const {
    return !context_.session->is_recurrent() && tessera_llama_model_n_swa(context_.model.get()) == 0;
  }

  Result<> add(llama_seq_id sequence, bool saves_states) {
    Before before{.sequence = sequence, .last = context_.session->max_position(sequence), .state = {}};
    if (saves_states && before.last && !can_be_cut()) {
      TESSERA_ASSIGN(before.state, context_.session->save_state(sequence));
    }
    sequences_.push_back(std::move(before));
    return {};
  }

  Result<> put_back(const Before& before) {
    Session& session = *context_.session;
    if (session.max_position(before.sequence) == before.last) return {};
    if (before.state.empty()) return session.remove(before.sequence, before.last.value_or(-1) + 1, INT32_MAX);
    return session.restore_state(before.sequence, before.state);
  }

  llama_context& context_;
  std::vector<Before> sequences_;
  bool has_succeeded_ = false;
};

// Computes a batch in parts: as many outputs as the session has room for, and tokens of the same sequences if they
// belong to several.
class BatchRun {
 public:
  BatchRun(llama_context& context, std::span<const GivenToken> tokens) : context_(context), tokens_(tokens) {}

  /// Whether the batch is one call of the session, which changes nothing if it fails.
  bool is_one_call() const { return end_of_part(0) == tokens_.size() && tokens_.front().sequences.size() == 1; }

  Result<> run() {
    for (size_t begin = 0; begin < tokens_.size();) {
      const size_t end = end_of_part(begin);
      TESSERA_TRY(run_part(begin, end));
      begin = end;
    }
    return {};
  }

 private:
  size_t end_of_part(size_t begin) const {
    const bool is_shared = tokens_[begin].sequences.size() > 1;
    int64_t n_outputs = 0;
    size_t end = begin;
    for (; end < tokens_.size(); ++end) {
      const GivenToken& token = tokens_[end];
      if (is_shared ? !equal_sequences(token, tokens_[begin]) : token.sequences.size() > 1) break;
      n_outputs += token.token.wants_logits ? 1 : 0;
      if (n_outputs > context_.options.n_outputs) break;
    }
    return end;
  }

  Result<> run_part(size_t begin, size_t end) {
    Batch batch;
    for (size_t i = begin; i < end; ++i) batch.add(tokens_[i].token);
    Session& session = *context_.session;
    TESSERA_TRY(session.decode(batch, &context_.cancel));
    for (size_t i = begin, row = 0; i < end; ++i)
      if (tokens_[i].token.wants_logits) context_.outputs.add(i, session.logits(static_cast<int64_t>(row++)));
    return share(begin, end);
  }

  // A recurrent state is copied as a whole.
  Result<> share(size_t begin, size_t end) {
    const GivenToken& first = tokens_[begin];
    Session& session = *context_.session;
    for (const llama_seq_id to : first.sequences.subspan(1)) {
      if (to == first.token.sequence) continue;
      int32_t from = first.token.position;
      if (session.is_recurrent()) {
        from = 0;
        TESSERA_TRY(session.remove(to, 0, INT32_MAX));
      }
      TESSERA_TRY(session.copy(first.token.sequence, to, from, tokens_[end - 1].token.position + 1));
    }
    return {};
  }

  llama_context& context_;
  std::span<const GivenToken> tokens_;
};

// One vector, or the scores of the rank head, per sequence of the batch.
Result<> pool(llama_context& context, std::span<const GivenToken> tokens) {
  const size_t width = context.outputs.width();
  for (int32_t sequence = 0; sequence < context.options.n_sequences; ++sequence) {
    std::vector<float> rows;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (std::ranges::find(tokens[i].sequences, sequence) == tokens[i].sequences.end()) continue;
      TESSERA_ASSIGN(const float* row, context.outputs.row(static_cast<int32_t>(i)));
      rows.insert(rows.end(), row, row + width);
    }
    if (rows.empty()) continue;
    TextPooler pooler(context.info(), context.pooling, static_cast<int64_t>(rows.size() / width));
    const Range wanted = pooler.wanted();
    pooler.add(std::span<const float>(rows).subspan(static_cast<size_t>(wanted.begin) * width,
                                                    static_cast<size_t>(wanted.size()) * width));
    TESSERA_ASSIGN(std::vector<float> values, pooler.finish(*context.session, &context.cancel));
    context.outputs.set_pooled(sequence, std::move(values));
  }
  return {};
}

// The program's callback is asked before a batch and after each of its micro-batches.
class AbortWatch {
 public:
  explicit AbortWatch(llama_context& context) : context_(context) {
    context_.cancel.reset();
    if (context_.params.abort == nullptr) return;
    context_.session->observe_steps([this](const StepView&) { ask(); });
    ask();
  }
  ~AbortWatch() {
    if (context_.params.abort != nullptr) context_.session->observe_steps({});
  }
  AbortWatch(const AbortWatch&) = delete;
  AbortWatch& operator=(const AbortWatch&) = delete;

 private:
  void ask() {
    if (context_.params.abort(context_.params.abort_user)) context_.cancel.cancel();
  }
  llama_context& context_;
};

void count_time(llama_context& context, int64_t begin_us, int32_t n_tokens) {
  Timing& timing = context.timing;
  const int64_t us = context.params.no_perf ? 0 : tessera_llama_time_us() - begin_us;
  (n_tokens > 1 ? timing.prompt_us : timing.token_us) += us;
  (n_tokens > 1 ? timing.n_prompt : timing.n_tokens) += n_tokens;
}

Result<> forget_sequences(llama_context& context, std::span<const GivenToken> tokens) {
  for (const GivenToken& token : tokens)
    for (const llama_seq_id id : token.sequences) TESSERA_TRY(context.session->remove(id, 0, INT32_MAX));
  return {};
}

void begin_outputs(llama_context& context, std::span<const GivenToken> tokens) {
  const int64_t width = context.options.embeddings ? context.info().n_embd : context.info().n_vocab;
  const auto n_rows = std::ranges::count_if(tokens, [](const GivenToken& one) { return one.token.wants_logits; });
  context.outputs.begin(tokens.size(), static_cast<size_t>(n_rows), static_cast<size_t>(width));
}

Result<> decode_batch(llama_context& context, const llama_batch& batch) {
  const int64_t begin = tessera_llama_time_us();
  TESSERA_ASSIGN(const std::vector<GivenToken> tokens, BatchReader(context, batch).read());
  const AbortWatch watch(context);
  if (context.cancel.cancelled()) return fail(ErrorCode::cancelled, "stopped by the abort callback");
  if (context.is_without_memory()) TESSERA_TRY(forget_sequences(context, tokens));
  const bool pools = context.options.embeddings && context.pooling != nn::Pooling::none;
  BatchRun run(context, tokens);
  Rollback rollback(context);
  TESSERA_TRY(rollback.begin(tokens, pools || !run.is_one_call()));
  begin_outputs(context, tokens);
  TESSERA_TRY(run.run());
  if (pools) TESSERA_TRY(pool(context, tokens));
  rollback.succeed();
  count_time(context, begin, batch.n_tokens);
  return {};
}

// The prompts of an encoder beside a decoder: each sequence of the batch is one.
Result<> encode_batch(llama_context& context, const llama_batch& batch) {
  if (!context.session->has_encoder()) return decode_batch(context, batch);
  const int64_t begin = tessera_llama_time_us();
  TESSERA_ASSIGN(const std::vector<GivenToken> tokens, BatchReader(context, batch).read());
  const AbortWatch watch(context);
  for (int32_t sequence = 0; sequence < context.options.n_sequences; ++sequence) {
    std::vector<int32_t> prompt;
    for (const GivenToken& token : tokens)
      if (std::ranges::find(token.sequences, sequence) != token.sequences.end()) prompt.push_back(token.token.token);
    if (!prompt.empty()) TESSERA_TRY(context.session->encode(sequence, prompt, &context.cancel));
  }
  count_time(context, begin, batch.n_tokens);
  return {};
}

}  // namespace

int32_t tessera_llama_decode(llama_context* ctx, llama_batch batch) {
  return computed("llama_decode", ctx, [&](llama_context& of) { return decode_batch(of, batch); });
}

int32_t tessera_llama_encode(llama_context* ctx, llama_batch batch) {
  return computed("llama_encode", ctx, [&](llama_context& of) { return encode_batch(of, batch); });
}
