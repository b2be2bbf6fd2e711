// The slots of a session without a scheduler: the test computes the tokens itself.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/server/run/slots.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera::testing {

class SlotsTest : public ::testing::Test {
 protected:
  using Change = std::function<void(server::SequenceSpec&)>;

  /// model: of tests/data/arch_specs; empty: the trained model.
  void open(const std::string& model = "", SessionOptions options = {.n_ctx = 512, .n_sequences = 3}) {
    slots_.reset();
    session_.reset();
    options.n_ubatch = 64;
    options.n_outputs = options.n_sequences;
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(model.empty() ? story_model() : arch_model(model)));
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, options));
    ASSERT_OK_AND_ASSIGN(slots_, server::Slots::create(*session_, options.n_sequences));
  }

  static std::vector<int32_t> tokens(int64_t n, int64_t first = 0) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((first + i * i * 7) % 200 + 3));
    return ids;
  }

  /// The sequences of a task. A change, if any, is that of the sequence with its index.
  std::vector<std::shared_ptr<server::Sequence>> task_of(const std::vector<std::vector<int32_t>>& prompts,
                                                         const std::vector<Change>& changes = {}) {
    server::TaskSpec spec{.client = "c", .sequences = {}, .sink = nullptr};
    for (const std::vector<int32_t>& prompt : prompts) spec.sequences.push_back({.prompt = prompt, .chain = nullptr});
    for (size_t i = 0; i < changes.size(); ++i)
      if (changes[i]) changes[i](spec.sequences[i]);
    const auto task = std::make_shared<server::Task>(++n_tasks_, std::move(spec));
    std::vector<std::shared_ptr<server::Sequence>> sequences;
    for (size_t i = 0; i < prompts.size(); ++i)
      sequences.push_back(
          std::make_shared<server::Sequence>(task, i, engine_->tokenizer(), server::Clock::time_point{}));
    return sequences;
  }
  std::shared_ptr<server::Sequence> sequence_of(const std::vector<int32_t>& prompt, const Change& change = nullptr) {
    return task_of({prompt}, {change})[0];
  }

  /// Computes the next n tokens of a slot.
  void compute(server::Slot& slot, int64_t n) {
    while (n > 0) {
      const int64_t n_part = std::min({n, int64_t{64}, slots_->tokens_to_mark(slot)});
      const auto all = slot.sequence->tokens();
      const auto part = all.subspan(static_cast<size_t>(slot.n_computed), static_cast<size_t>(n_part));
      const Batch batch = Batch::prompt(part, static_cast<int32_t>(slot.n_computed), slot.id);
      ASSERT_OK(slots_->make_room(batch));
      ASSERT_OK(session_->decode(batch));
      slots_->note_computed(slot, n_part);
      n -= n_part;
    }
  }
  /// Computes the rest of a slot's sequence, and frees the slot.
  void complete(server::Slot& slot) {
    compute(slot, slot.n_pending());
    slots_->release(slot);
  }
  /// Runs a prompt in a slot, and returns the tokens that it found in the cache.
  int64_t run(const std::vector<int32_t>& prompt, const Change& change = nullptr) {
    server::Slot& slot = slots_->assign(sequence_of(prompt, change));
    const int64_t n_found = slot.n_computed;
    complete(slot);
    return n_found;
  }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<server::Slots> slots_;

 private:
  uint64_t n_tasks_ = 0;
};

}  // namespace tessera::testing
