// The reply that a parser builds, and the pieces of it that are new. Decides about blanks, ids of calls and warnings.
// Used by ReplyParser, and as the sink of its call readers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/text/chat/call_reader.h"
#include "tessera/text/chat/reply.h"

namespace tessera::text {

class ReplyOutput final : public CallSink {
 public:
  /// The references must outlive the output.
  ReplyOutput(const ReplyFamily& family, const ToolSet& tools, const ReplyOptions& options)
      : family_(family), tools_(tools), options_(options), ids_(options.seed) {}

  /// Adds text of the content. Blanks at its end are kept back until it is clear that they belong to the content.
  void add_content(std::string_view text);
  /// Adds a mark that is dropped at the start and the end of the content.
  void add_stray_mark(std::string_view mark);
  /// Begins another message of content, on a line of its own.
  void begin_message();
  /// Ends a message: the blanks at its end belong to it.
  void end_message();

  /// Begins and ends a block of reasoning. `mark` is the text that did.
  void open_reasoning(std::string_view mark);
  void add_reasoning(std::string_view text);
  void close_reasoning(std::string_view mark);
  /// Makes all content so far reasoning, since an end mark without a start mark follows.
  void make_content_reasoning(std::string_view mark);

  bool begin_call(std::string_view name, std::string_view id, Tool tool) override;
  void add_arguments(std::string_view json) override;
  void end_call() override;
  void warn(std::string message) override;
  void hold_calls() override { holds_calls_ = true; }

  /// Announces calls that were kept back.
  void settle_calls();
  /// Ends the work of a call reader. The text was read after the last complete call, and is no call.
  void close_calls(std::string_view text);
  /// Puts a malformed call back into the content.
  void fail_call(std::string_view text, std::string_view reason);

  bool has_content() const { return !reply_.content.empty(); }
  bool has_calls() const { return n_announced_ > 0; }

  /// Ends the reply. More pieces may be new.
  void finish();

  void clear_deltas() { deltas_.clear(); }
  std::span<const ReplyDelta> deltas() const { return deltas_; }
  Reply take_reply() { return std::move(reply_); }

 private:
  /// The neighbour before the blanks that are kept back. It decides whether they belong to the content.
  enum class Gap : uint8_t { none, reasoning, call };

  bool gap_is_content() const { return gap_ == Gap::none || (gap_ == Gap::call && has_content()); }
  void clear_gap(Gap gap);
  void emit_gap();
  void emit(ReplyDelta::Kind kind, std::string_view text);
  void announce(std::string_view name, std::string_view id, Tool tool);
  std::string random_id();

  const ReplyFamily& family_;
  const ToolSet& tools_;
  const ReplyOptions options_;
  Rng ids_;
  Reply reply_;
  std::vector<ReplyDelta> deltas_;

  std::string gap_text_;                 // blanks and stray marks that are kept back
  size_t stray_at_ = std::string::npos;  // where the first stray mark begins in gap_text_
  Gap gap_ = Gap::none;
  bool joins_message_ = false;   // a line break goes before the next content
  std::string reasoning_gap_;    // blanks inside reasoning that are kept back
  bool has_block_text_ = false;  // this block of reasoning has text

  enum class Call : uint8_t { none, open, dropped, held };
  Call call_ = Call::none;
  bool holds_calls_ = false;
  std::vector<ToolCall> held_;
  size_t n_announced_ = 0;
};

}  // namespace tessera::text
