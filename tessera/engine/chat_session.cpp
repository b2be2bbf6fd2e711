#include "tessera/engine/chat_session.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/chat/reply_grammar.h"
#include "tessera/text/template/json_reader.h"

namespace tessera {
namespace {

namespace jinja = text::jinja;

// A prompt leaves this part of the context to the reply. Where turns must be left out, so many are that the prompt
// takes half of the context: otherwise each further turn would drop another one, and nothing stored could be reused.
constexpr int64_t kReplyShare = 8;
constexpr int64_t kShrunkShare = 2;

Result<jinja::Value> parse_option(jinja::Heap& heap, std::string_view name, const std::string& json) {
  if (json.empty()) return jinja::Value();
  auto parsed = jinja::parse_json(heap, json, text::Origin::given);
  if (!parsed) return forward_error(parsed, name);
  return parsed->value;
}

size_t n_system_messages(std::span<const text::ChatMessage> messages) {
  const auto other = std::ranges::find_if(messages, [](const auto& message) { return message.role != "system"; });
  return static_cast<size_t>(other - messages.begin());
}

// The place of the i-th token.
auto at(std::span<const int32_t> tokens, size_t i) { return tokens.begin() + static_cast<std::ptrdiff_t>(i); }

// The messages without the n_dropped oldest ones that are not of the system.
std::vector<text::ChatMessage> without_oldest(std::span<const text::ChatMessage> messages, size_t n_dropped) {
  const size_t n_system = n_system_messages(messages);
  std::vector<text::ChatMessage> rest(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(n_system));
  const auto later = messages.subspan(n_system + n_dropped);
  rest.insert(rest.end(), later.begin(), later.end());
  return rest;
}

// The numbers above n_dropped of oldest messages that are whole turns. The last turn must stay.
std::vector<size_t> droppable_counts(std::span<const text::ChatMessage> messages, size_t n_dropped) {
  const size_t n_system = n_system_messages(messages);
  std::vector<size_t> counts;
  for (const size_t start : text::turn_starts(messages))
    if (start > n_system + n_dropped) counts.push_back(start - n_system);
  return counts;
}

}  // namespace

ChatSession::ChatSession(std::shared_ptr<const Engine> engine, Session& session, text::ChatTemplate chat_template)
    : engine_(std::move(engine)), session_(session), chat_template_(std::move(chat_template)) {}

Result<text::ChatPrompt> ChatSession::render(std::span<const text::ChatMessage> messages,
                                             const ChatOptions& options) const {
  jinja::Heap heap;
  text::ChatRequest request;
  request.messages = text::messages_value(heap, messages);
  TESSERA_ASSIGN(request.tools, parse_option(heap, "tools", options.tools));
  TESSERA_ASSIGN(request.variables, parse_option(heap, "variables", options.variables));
  request.enable_thinking = options.enable_thinking;
  request.reasoning_effort = options.reasoning_effort;
  request.now = options.now;
  auto prompt = chat_template_.render(heap, request);
  if (prompt) return std::move(*prompt);
  const bool is_of_template = prompt.error().in_template.has_value();
  return fail(is_of_template ? ErrorCode::format : ErrorCode::invalid_argument, "{}", prompt.error().message);
}

// The prompt without the n_dropped oldest messages that are not of the system.
Result<TokenizedPrompt> ChatSession::tokenize(std::span<const text::ChatMessage> messages, const ChatOptions& options,
                                              size_t n_dropped) const {
  TokenizedPrompt prompt = {.n_dropped = n_dropped};
  TESSERA_ASSIGN(prompt.prompt, render(without_oldest(messages, n_dropped), options));
  const text::MarkedText& rendered = prompt.prompt.prompt;
  TESSERA_ASSIGN(prompt.tokens,
                 engine_->tokenizer().tokenize(rendered.text,
                                               {.add_special = true, .parse_special = true, .given = rendered.given}));
  if (prompt.tokens.empty()) return fail(ErrorCode::invalid_argument, "the prompt has no tokens");
  return prompt;
}

// Leaves out the fewest turns beyond the n_dropped oldest messages so that the tokens fit, with n_room for more of
// them.
Result<TokenizedPrompt> ChatSession::fit_prompt(std::span<const text::ChatMessage> messages, const ChatOptions& options,
                                                size_t n_dropped, int64_t n_room) const {
  const int64_t n_ctx = session_.n_ctx();
  const auto fits = [&](const TokenizedPrompt& prompt) {
    return static_cast<int64_t>(prompt.tokens.size()) + n_room <= n_ctx;
  };
  TESSERA_ASSIGN(TokenizedPrompt prompt, tokenize(messages, options, n_dropped));
  if (fits(prompt)) return prompt;
  n_room = std::max(n_room, n_ctx - n_ctx / kShrunkShare);
  // Each prompt is rendered and tokenized anew. A search by halves does so a few times, also for thousands of turns.
  std::vector<size_t> droppable = options.drops_turns ? droppable_counts(messages, n_dropped) : std::vector<size_t>();
  while (!droppable.empty()) {
    const auto middle = droppable.begin() + static_cast<std::ptrdiff_t>(droppable.size() / 2);
    TESSERA_ASSIGN(TokenizedPrompt tried, tokenize(messages, options, *middle));
    if (fits(tried)) {
      droppable.erase(middle, droppable.end());
      prompt = std::move(tried);
    } else {
      droppable.erase(droppable.begin(), middle + 1);
      if (!fits(prompt)) prompt = std::move(tried);
    }
  }
  const auto n_tokens = static_cast<int64_t>(prompt.tokens.size());
  if (n_tokens < n_ctx) return prompt;
  return fail(ErrorCode::limit, "the conversation has {} tokens, the context holds {} (option n_ctx sets it)", n_tokens,
              n_ctx);
}

Result<TokenizedPrompt> ChatSession::prompt(std::span<const text::ChatMessage> messages,
                                            const ChatOptions& options) const {
  const size_t n_dropped = options.drops_turns ? n_dropped_before(messages) : 0;
  return fit_prompt(messages, options, n_dropped, session_.n_ctx() / kReplyShare);
}

// Messages that the last prompt left out stay out while the conversation before them is the same.
size_t ChatSession::n_dropped_before(std::span<const text::ChatMessage> messages) const {
  const size_t n_before = n_system_messages(messages_) + counts_.n_dropped;
  if (n_before >= messages.size()) return 0;
  return std::ranges::equal(std::span(messages_).first(n_before), messages.first(n_before)) ? counts_.n_dropped : 0;
}

// Forgets the tokens of the sequence after those that it shares with the prompt. At least the last token of the prompt
// is computed again, since its logits choose the next one.
Result<int64_t> ChatSession::keep_common(std::span<const int32_t> tokens) {
  const auto n_most = std::min(stored_.size(), tokens.size() - 1);
  const auto end = std::mismatch(at(stored_, 0), at(stored_, n_most), at(tokens, 0)).first;
  auto n_common = static_cast<int32_t>(end - at(stored_, 0));
  if (n_common == static_cast<int32_t>(stored_.size())) return n_common;
  // Layers with a window or with a recurrent state have forgotten the way to an early position.
  if (session_.has_encoder() || session_.lowest_rollback(0).value_or(0) > n_common) n_common = 0;
  TESSERA_TRY(session_.remove(0, n_common, static_cast<int32_t>(stored_.size())));
  stored_.resize(to_size(n_common));
  return n_common;
}

// Writes down the tokens that the sequence holds, before another prompt replaces this one.
Result<> ChatSession::note_stored() {
  if (!generator_) return {};
  TESSERA_TRY(generator_->remove_guesses());
  const auto n_stored = to_size(generator_->n_stored());
  const auto n_later = n_before_ + (n_stored - std::min(n_stored, prompt_.size()));
  stored_ = std::exchange(prompt_, {});
  stored_.insert(stored_.end(), at(generated_, n_before_), at(generated_, n_later));
  stored_.resize(n_stored);
  generator_.reset();
  return {};
}

// Computes a prompt, which ends with the tokens of the reply so far.
Result<> ChatSession::compute(std::vector<int32_t> tokens, const CancelToken* cancel, const PromptProgress& progress) {
  TESSERA_ASSIGN(const int64_t n_common, keep_common(tokens));
  counts_.n_prompt = static_cast<int64_t>(tokens.size());
  counts_.n_stored = n_common;
  prompt_ = std::move(tokens);
  n_before_ = generated_.size();
  GenerateOptions generate = options_.generate;
  generate.context_shift = false;
  if (generate.n_predict >= 0) generate.n_predict -= static_cast<int64_t>(n_before_);
  generator_.emplace(session_, *chain_, 0, generate);
  return generator_->start(prompt_, cancel, n_common, progress);
}

Result<std::unique_ptr<GrammarMask>> ChatSession::create_mask(const Constraint& constraint) {
  const text::Vocab& vocab = engine_->vocab();
  const text::grammar::FindToken find_control = [&](std::string_view text) -> std::optional<int32_t> {
    const auto id = vocab.find(text);
    return id && vocab.type(*id) == text::TokenType::control ? id : std::nullopt;
  };
  auto grammar =
      text::reply_grammar(chat_template_.reply_family(), {.answer = constraint.answer.get(), .tools = constraint.tools},
                          constraint.prompt_tail, constraint.may_reason, find_control);
  if (!grammar) return fail(ErrorCode::invalid_argument, "{}", grammar.error().text());
  if (!mask_vocab_) mask_vocab_ = mask_vocab(*engine_);
  return GrammarMask::create(engine_, mask_vocab_, std::move(*grammar));
}

// Lets the chain choose only what makes a reply with an answer of the grammar, or with right calls. Replies of one
// conversation mostly have the same grammar, and its states are kept.
Result<> ChatSession::constrain(sample::Chain& chain, const Constraint& constraint) {
  if (!constraint.answer && constraint.tools.empty()) return {};
  if (!mask_ || constraint != constraint_ || !mask_->allowed()) {
    TESSERA_ASSIGN(mask_, create_mask(constraint));
    constraint_ = constraint;
  }
  chain.constrain(mask_->clone());
  return {};
}

Result<> ChatSession::start(std::vector<text::ChatMessage> messages, const ChatOptions& options,
                            const CancelToken* cancel, const PromptProgress& progress) {
  TESSERA_ASSIGN(TokenizedPrompt fitted, prompt(messages, options));
  std::vector<text::ReplyTool> tools;
  if (!options.tools.empty()) {
    TESSERA_ASSIGN(tools, text::parse_reply_tools(options.tools));
  }
  TESSERA_ASSIGN(auto chain, sample::Chain::create(options.sampling, sampling_vocab(engine_),
                                                   static_cast<int32_t>(session_.n_ctx())));
  const bool has_calls = chat_template_.reply_family().shape != text::ReplyShape::text;
  TESSERA_TRY(
      constrain(*chain, {.answer = options.grammar,
                         .tools = options.constrains_calls && has_calls ? tools : std::vector<text::ReplyTool>(),
                         .prompt_tail = fitted.prompt.generation_prompt,
                         .may_reason = options.enable_thinking.value_or(true)}));
  TESSERA_TRY(note_stored());
  chain_ = std::move(chain);
  messages_ = std::move(messages);
  options_ = options;
  generated_.clear();
  writer_.emplace(engine_->tokenizer(), text::DetokenizeOptions{.render_special = true, .at_start = false});
  parser_.emplace(
      text::ReplyParser::create(chat_template_.reply_family(), tools, fitted.prompt.generation_prompt, options.reply));
  answers_ = false;
  stop_ = StopReason::none;
  counts_ = {.n_dropped = fitted.n_dropped};
  return compute(std::move(fitted.tokens), cancel, progress);
}

Result<bool> ChatSession::step(const CancelToken* cancel) {
  parser_->feed({});  // forgets the pieces of the last token
  while (stop_ == StopReason::none) {
    TESSERA_ASSIGN(const int32_t token, generator_->next(cancel));
    if (token >= 0) {
      TESSERA_TRY(read_token(token));
      return true;
    }
    stop_ = generator_->stop_reason();
    if (stop_ != StopReason::context_full || !options_.drops_turns) break;
    TESSERA_ASSIGN(const bool has_room, drop_turns(cancel));
    if (has_room) stop_ = StopReason::none;
  }
  return false;
}

// Makes room within a reply: computes the prompt without the oldest turns, and the reply so far after it. Returns false
// if there is no older turn, or not enough room without it.
Result<bool> ChatSession::drop_turns(const CancelToken* cancel) {
  const std::vector<size_t> droppable = droppable_counts(messages_, counts_.n_dropped);
  if (droppable.empty()) return false;
  const int64_t n_ctx = session_.n_ctx();
  const auto n_generated = static_cast<int64_t>(generated_.size());
  TESSERA_ASSIGN(TokenizedPrompt fitted,
                 fit_prompt(messages_, options_, droppable.front(), n_ctx - n_ctx / kShrunkShare + n_generated));
  if (static_cast<int64_t>(fitted.tokens.size()) + n_generated >= n_ctx) return false;
  TESSERA_TRY(note_stored());
  counts_.n_dropped = fitted.n_dropped;
  fitted.tokens.insert(fitted.tokens.end(), generated_.begin(), generated_.end());
  TESSERA_TRY(compute(std::move(fitted.tokens), cancel, {}));
  return true;
}

Result<> ChatSession::read_token(int32_t token) {
  generated_.push_back(token);
  counts_.n_generated = static_cast<int64_t>(generated_.size());
  std::string piece;
  TESSERA_TRY(writer_->append(token, piece));
  bool reasons = false;
  for (const text::ReplyDelta& delta : parser_->feed(piece)) {
    reasons |= delta.kind == text::ReplyDelta::Kind::reasoning;
    answers_ |= delta.kind == text::ReplyDelta::Kind::content || delta.kind == text::ReplyDelta::Kind::call;
  }
  if (reasons && !answers_) counts_.n_reasoning = counts_.n_generated;
  return {};
}

text::Reply ChatSession::finish() {
  const bool is_whole = stop_ == StopReason::end_of_text;
  return parser_->finish(is_whole ? text::ReplyEnd::stop : text::ReplyEnd::length);
}

std::span<const text::ReplyDelta> ChatSession::deltas() const { return parser_->deltas(); }

}  // namespace tessera
