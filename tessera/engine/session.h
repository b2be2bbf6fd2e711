// A session: the memory of some sequences, and the prepared graphs that compute them. Batches go in, logits come out.
// Results do not depend on the split into batches, on the number of threads, or on earlier contents of the memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/cache/sequence_memory.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/session_options.h"
#include "tessera/engine/step_cost.h"
#include "tessera/engine/step_graphs.h"

namespace tessera {

/// Receives the tokens of a micro-batch and their hidden states [n_embd, n_tokens].
using HiddenFollower = std::function<void(std::span<const BatchToken> tokens, std::span<const float> hidden)>;

class Session {
 public:
  /// The bytes of a session, including those of the engine. Allocates no device memory; the engine need not be loaded.
  /// Errors: invalid_argument (an option out of range); unsupported; limit.
  /// beside: as for create(); it may be without memory.
  static Result<MemoryReport> plan(const Engine& engine, const SessionOptions& options,
                                   const Session* beside = nullptr);
  /// A session without memory, to inspect its steps. The engine must outlive it. Errors: those of plan().
  static Result<std::unique_ptr<const Session>> plan_session(const Engine& engine, const SessionOptions& options);
  /// The engine must be loaded. With `beside` the session computes with the threads of that one, so that theirs do not
  /// compete for the cores; the two then run in turns. A draft model that borrows a cache (FollowerInfo) attends to
  /// that of `beside`, the session of the model for which it guesses. Errors: those of plan(); out_of_memory.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Engine> engine, const SessionOptions& options,
                                                 const Session* beside = nullptr);

  const Engine& engine() const { return *engine_; }
  const SessionOptions& options() const { return options_; }
  int64_t n_ctx() const { return options_.n_ctx; }
  /// The allocated bytes, including those of the engine.
  MemoryReport allocated_memory() const;
  /// See Backend::warning().
  std::string_view warning() const { return graphs_->warning(); }

  // --- decoding (decode.cpp)

  /// Computes a batch and stores its tokens. A model that is not causal computes each sequence at once: its tokens must
  /// be adjacent in the batch and fit in a micro-batch, and none may be stored already. Errors: invalid_argument (a
  /// token, position or sequence out of range, more outputs than n_outputs, a divided sequence); limit (the cache is
  /// full); cancelled. After an error the session is as it was before the batch.
  Result<> decode(const Batch& batch, const CancelToken* cancel = nullptr);
  /// Rows of the last batch, valid until the next decode(): the logits [n_vocab] after the i-th token with
  /// wants_logits, or its embedding [n_embd] with options().embeddings.
  std::span<const float> logits(int64_t i) const { return row(i); }
  std::span<const float> embedding(int64_t i) const { return row(i); }
  int64_t n_outputs() const { return n_outputs_; }

  // --- prediction heads: see Model::head()

  /// Elements of a hidden state that the session takes or gives.
  int64_t hidden_width() const;
  /// Computes a batch of a head. hidden: [hidden_width(), batch.size()], of the token before each token. The batch fits
  /// in a micro-batch. Errors: those of decode(); invalid_argument (no head; hidden states or tokens of another
  /// number).
  Result<> decode_after(const Batch& batch, std::span<const float> hidden, const CancelToken* cancel = nullptr);
  /// Hidden states of the last micro-batch, valid until the next one: [hidden_width(), n] of all its tokens, or in a
  /// head of those with wants_logits. Empty for SessionPart::model.
  std::span<const float> hidden() const { return hidden_; }
  /// Sets a function that is called with the tokens and the hidden states of each micro-batch that decode() has
  /// computed, on its thread; empty: none. decode() may still fail, and its tokens are then removed. Only of
  /// SessionPart::model_with_hidden.
  void follow_hidden(HiddenFollower follower) { hidden_follower_ = std::move(follower); }

  /// Scores [n_scores] of the model's rank head for a pooled embedding [n_embd], or the embedding projected by the
  /// model's layers for pooled ones. Errors: unsupported (there is neither, or the session computes logits); cancelled.
  Result<std::vector<float>> rank(std::span<const float> embedding, const CancelToken* cancel = nullptr);

  /// Whether the model has an encoder beside its decoder. Each sequence then needs a prompt, to which its tokens
  /// attend. A session for embeddings runs the encoder alone, by decode().
  bool has_encoder() const { return memory_->has_encoder(); }
  /// Computes the prompt of a sequence, in place of an older one. Stored tokens keep the K and V of the old prompt;
  /// remove() them if that is not wanted. Errors: invalid_argument (a token or the sequence out of range, no tokens,
  /// more than a micro-batch); limit (no room); unsupported (no encoder); cancelled. After an error the sequence has no
  /// prompt.
  Result<> encode(int32_t sequence, std::span<const int32_t> tokens, const CancelToken* cancel = nullptr);

  /// Sets the scales of a sequence from the next decode() on; adapters not in the list get 0. The default is
  /// SessionOptions::adapters. Stored K and V keep the old adapters; remove() the sequence if that is not wanted.
  /// Errors: invalid_argument (sequence, adapter, scale).
  Result<> set_adapters(int32_t sequence, std::span<const AdapterScale> scales) {
    return adapters_.set(sequence, scales);
  }
  /// The adapters of a sequence whose scale is not 0, by index. The sequence must exist.
  std::vector<AdapterScale> adapters_of(int32_t sequence) const { return adapters_.scales_of(sequence); }

  // --- sequences, between batches: see SequenceMemory

  Result<> remove(int32_t sequence, int32_t begin, int32_t end) { return memory_->remove(sequence, begin, end); }
  Result<> keep(int32_t sequence) { return memory_->keep(sequence); }
  Result<> clear() { return memory_->clear(); }
  Result<> copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  /// Errors: also those of require_shiftable().
  Result<> shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta);
  /// Refuses models whose tokens cannot be moved to other positions. Errors: unsupported, with the reason.
  Result<> require_shiftable() const;
  std::optional<int32_t> min_position(int32_t sequence) const { return memory_->min_position(sequence); }
  std::optional<int32_t> max_position(int32_t sequence) const { return memory_->max_position(sequence); }
  std::optional<int32_t> lowest_rollback(int32_t sequence) const { return memory_->lowest_rollback(sequence); }
  const KvCache& cache() const { return memory_->kv(); }
  /// Whether the model has recurrent layers. Their state can be rolled back only to a checkpoint.
  bool is_recurrent() const { return memory_->is_recurrent(); }
  Result<> checkpoint(int32_t sequence) { return memory_->checkpoint(sequence); }
  Result<> drop_checkpoints(int32_t sequence) { return memory_->drop_checkpoints(sequence); }
  // --- retained memory, between batches: see SequenceMemory. PrefixCache (engine/prefix_cache.h) keeps it.

  /// Refuses models whose tokens depend on later tokens or on an encoder. Errors: unsupported, with the reason.
  Result<> require_retainable() const;
  bool needs_marks() const { return memory_->needs_marks(); }
  int64_t n_free_marks() const { return memory_->n_free_marks(); }
  Result<int32_t> retain_block(int32_t sequence, int64_t logical) { return memory_->retain_block(sequence, logical); }
  void release_block(int32_t block) { memory_->release_block(block); }
  Result<> merge_block(int32_t sequence, int64_t logical, int32_t block) {
    return memory_->merge_block(sequence, logical, block);
  }
  Result<Mark> retain_mark(int32_t sequence) { return memory_->retain_mark(sequence); }
  void release_mark(const Mark& mark) { memory_->release_mark(mark); }
  Result<> attach(int32_t sequence, std::span<const int32_t> blocks, int32_t n_positions, const Mark& mark) {
    return memory_->attach(sequence, blocks, n_positions, mark);
  }

  /// See SequenceMemory.
  std::vector<SavedPart> parts_of_mark(int32_t n_positions) const { return memory_->parts_of_mark(n_positions); }
  int32_t place_of(const SavedPart& part, const Mark& mark) const { return memory_->place_of(part, mark); }
  Result<size_t> part_bytes(const SavedPart& part) const { return memory_->part_bytes(part); }
  Result<std::vector<std::byte>> save_part(const SavedPart& part, int32_t place) {
    return memory_->save_part(part, place, graphs_->cells());
  }
  Result<> cut_for_parts(int32_t sequence, int32_t n_positions) {
    return memory_->cut_for_parts(sequence, n_positions);
  }
  Result<> restore_part(int32_t sequence, const SavedPart& part, std::span<const std::byte> saved) {
    return memory_->restore_part(sequence, part, saved, graphs_->cells());
  }

  /// See SequenceMemory::save(), restore(), saved_bytes() and most_saved_bytes(); engine/state_file.h has them in
  /// files.
  Result<std::vector<std::byte>> save_state(int32_t sequence);
  Result<> restore_state(int32_t sequence, std::span<const std::byte> state);
  Result<uint64_t> state_bytes(int32_t sequence) const { return memory_->saved_bytes(sequence); }
  Result<uint64_t> most_state_bytes() const { return memory_->most_saved_bytes(); }

  // --- inspection

  /// The least work of a micro-batch, with the adapters of SessionOptions.
  Result<StepCost> step_cost(int64_t n_tokens, int64_t n_outputs) const;
  /// The graph of a micro-batch, the device of each node with the reason, slices and copies. Errors: those of assign().
  Result<Schedule> step_schedule(int64_t n_tokens, int64_t n_outputs) const;
  const Executor& executor() const { return graphs_->executor(); }
  /// Sets a function that is called after each micro-batch of decode() and encode(), on their thread; empty: none.
  /// Observed steps are timed, and options().watch is not called for them.
  void observe_steps(StepObserver observer) { step_observer_ = std::move(observer); }

 private:
  struct MicroBatch;

  Session() = default;
  static Result<std::unique_ptr<Session>> prepare(const Engine& engine, const SessionOptions& options,
                                                  const Session* beside = nullptr);
  Result<> plan_memory(const Engine& engine);
  int64_t row_width() const;
  int64_t most_hidden() const;
  std::span<const float> row(int64_t i) const;
  Result<> require_tokens(std::span<const BatchToken> tokens) const;
  Result<std::vector<Range>> micro_batches(const Batch& batch) const;
  Result<> run_pipeline(std::span<const BatchToken> tokens, std::span<const Range> parts, const CancelToken* cancel);
  Result<> start(MicroBatch& part, size_t pipeline_slot, size_t n_pipeline_slots, const CancelToken* cancel);
  Result<> finish(const MicroBatch& part, size_t pipeline_slot);
  Result<> take_hidden(const MicroBatch& part, size_t pipeline_slot);
  Result<> run_encoder(std::span<const BatchToken> tokens, const CancelToken* cancel);
  Result<> run_step(const PreparedStep& step, int64_t n_outputs, const CancelToken* cancel);

  std::shared_ptr<const Engine> engine_;  // null in plan_session()
  const Model* model_ = nullptr;
  SessionOptions options_;
  AdapterSet adapters_;
  std::unique_ptr<SequenceMemory> memory_;
  std::unique_ptr<StepGraphs> graphs_;
  StepObserver step_observer_;
  Reservation reservation_;  // reused
  std::vector<float> rows_;  // of output
  int64_t n_outputs_ = 0;
  HiddenFollower hidden_follower_;
  std::vector<float> hidden_rows_;
  std::span<const float> hidden_;        // of hidden_rows_
  std::span<const float> given_hidden_;  // of the batch of a head
};

}  // namespace tessera
