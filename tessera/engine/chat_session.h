// A conversation in one sequence of a session: from messages to a prompt, from tokens to a parsed reply. Tokens that
// the session already holds are not computed again. When the context is full, the oldest turns leave the prompt.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/generate.h"
#include "tessera/engine/grammar_mask.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/chat/message.h"
#include "tessera/text/chat/reply_parser.h"

namespace tessera {

/// The settings of a reply.
struct ChatOptions {
  std::string tools{};      // JSON: a list of definitions as of the OpenAI API; empty: none
  std::string variables{};  // JSON: an object with more variables for the template; empty: none
  std::optional<bool> enable_thinking{};
  std::optional<std::string> reasoning_effort{};
  std::shared_ptr<const text::grammar::Grammar> grammar{};  // of the answer after the reasoning; null: any text
  bool constrains_calls = true;                             // calls of tools follow their schemas
  sample::SamplerParams sampling{};                         // with a seed
  GenerateOptions generate{};                               // context_shift and n_keep are not used
  bool drops_turns = true;  // leave out the oldest turns when the context is full; false: an error, or the end
  text::ReplyOptions reply{};
  std::tm now{};  // local time, for templates
};

/// The counts of a reply.
struct ChatCounts {
  int64_t n_prompt = 0;     // tokens of the last prompt
  int64_t n_stored = 0;     // those of them that the session already held
  int64_t n_generated = 0;  // tokens of the reply
  int64_t n_reasoning = 0;  // those of them before the answer
  size_t n_dropped = 0;     // messages that the prompt left out
};

/// A prompt as text and as tokens.
struct TokenizedPrompt {
  text::ChatPrompt prompt{};
  std::vector<int32_t> tokens{};
  size_t n_dropped = 0;  // oldest messages, without those of the system, that the prompt leaves out
};

class ChatSession {
 public:
  /// Uses sequence 0 of a session, which must outlive this and whose sequence must be empty. The engine is that of the
  /// session.
  ChatSession(std::shared_ptr<const Engine> engine, Session& session, text::ChatTemplate chat_template);

  const text::ChatTemplate& chat_template() const { return chat_template_; }

  /// Renders and tokenizes messages; leaves out the oldest turns if the context is too small. Errors: invalid_argument
  /// (the messages or the options); format (the template fails); limit (the last turn does not fit).
  Result<TokenizedPrompt> prompt(std::span<const text::ChatMessage> messages, const ChatOptions& options) const;

  /// Begins the reply to the last message: computes the prompt. Errors: those of prompt(), sample::Chain::create() and
  /// Generator::start().
  Result<> start(std::vector<text::ChatMessage> messages, const ChatOptions& options, const CancelToken* cancel,
                 const PromptProgress& progress = {});

  /// Generates a token, whose text is in deltas(). Returns false at the end of the reply. Errors: those of
  /// Generator::next(). After an error, finish() still returns the text so far.
  Result<bool> step(const CancelToken* cancel);

  /// Ends a reply that start() began, and returns all of it.
  text::Reply finish();

  /// The pieces of the reply that the last step() or finish() added.
  std::span<const text::ReplyDelta> deltas() const;

  const ChatCounts& counts() const { return counts_; }
  StopReason stop_reason() const { return stop_; }

 private:
  // All that the grammar of a reply depends on.
  struct Constraint {
    std::shared_ptr<const text::grammar::Grammar> answer{};
    std::vector<text::ReplyTool> tools{};
    std::string prompt_tail{};
    bool may_reason = true;

    bool operator==(const Constraint&) const = default;
  };

  Result<text::ChatPrompt> render(std::span<const text::ChatMessage> messages, const ChatOptions& options) const;
  Result<TokenizedPrompt> tokenize(std::span<const text::ChatMessage> messages, const ChatOptions& options,
                                   size_t n_dropped) const;
  Result<TokenizedPrompt> fit_prompt(std::span<const text::ChatMessage> messages, const ChatOptions& options,
                                     size_t n_dropped, int64_t n_room) const;
  size_t n_dropped_before(std::span<const text::ChatMessage> messages) const;
  Result<int64_t> keep_common(std::span<const int32_t> tokens);
  Result<std::unique_ptr<GrammarMask>> create_mask(const Constraint& constraint);
  Result<> constrain(sample::Chain& chain, const Constraint& constraint);
  Result<> compute(std::vector<int32_t> tokens, const CancelToken* cancel, const PromptProgress& progress);
  Result<> note_stored();
  Result<bool> drop_turns(const CancelToken* cancel);
  Result<> read_token(int32_t token);

  std::shared_ptr<const Engine> engine_;
  Session& session_;
  text::ChatTemplate chat_template_;
  std::vector<int32_t> stored_;                                 // tokens of the sequence
  std::shared_ptr<const text::grammar::MaskVocab> mask_vocab_;  // once a grammar needs it
  Constraint constraint_;                                       // of mask_
  std::unique_ptr<GrammarMask> mask_;                           // of the start of a reply, which the next one may use

  // Of the present reply.
  std::vector<text::ChatMessage> messages_;
  ChatOptions options_;
  std::vector<int32_t> prompt_;     // tokens of the prompt, and of the reply where turns were dropped within it
  std::vector<int32_t> generated_;  // tokens of the reply
  size_t n_before_ = 0;             // tokens of generated_ that are part of prompt_
  std::unique_ptr<sample::Chain> chain_;
  std::optional<Generator> generator_;
  std::optional<text::PieceWriter> writer_;
  std::optional<text::ReplyParser> parser_;
  bool answers_ = false;  // the reasoning is over
  ChatCounts counts_;
  StopReason stop_ = StopReason::none;
};

}  // namespace tessera
