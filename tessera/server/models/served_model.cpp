#include "tessera/server/models/served_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "tessera/engine/chat_template_loader.h"
#include "tessera/engine/generate.h"
#include "tessera/engine/grammar_mask.h"
#include "tessera/gguf/weight_facts.h"
#include "tessera/text/chat/builtin_templates.h"

namespace tessera::server {

namespace {

std::string token_text(const text::Vocab& vocab, text::SpecialToken which) {
  const auto id = vocab.has_text() ? vocab.special(which) : std::nullopt;
  return id ? std::string(vocab.text(*id)) : std::string();
}

}  // namespace

bool generates_text(const ModelInfo& info) { return info.has_logits && info.is_causal && !info.has_encoder(); }

ServedModel::ServedModel(LoadedModel loaded, ServedModelOptions options)
    : loaded_(std::move(loaded)),
      options_(std::move(options)),
      adapters_(loaded_.adapters),
      sampling_vocab_(tessera::sampling_vocab(loaded_.engine)) {}

Result<std::unique_ptr<ServedModel>> ServedModel::create(LoadedModel loaded, ServedModelOptions options,
                                                         ComputeTurns& turns, PostToIo post_to_io) {
  Session& first = *loaded.session;
  Session* second = first.options().embeddings ? &first : loaded.embeddings.get();
  const int64_t n_ctx = first.n_ctx();
  int64_t& slot_context = options.scheduler.slot_context;
  slot_context = slot_context <= 0 ? n_ctx : std::min(slot_context, n_ctx);
  if (first.options().embeddings) {
    options.scheduler.n_slots = 0;
    slot_context = n_ctx;
  }
  std::unique_ptr<ServedModel> model(new ServedModel(std::move(loaded), std::move(options)));
  model->read_facts();
  model->read_template();
  if (second != nullptr) {
    TESSERA_ASSIGN(model->embedder_, Embedder::create(*second, model->options_.embeddings, model->options_.embedder,
                                                      model->metrics_, turns, post_to_io));
  }
  if (&first == second) return model;
  model->options_.scheduler.draft = model->loaded_.draft.get();
  model->options_.scheduler.head = model->loaded_.head.get();
  TESSERA_ASSIGN(model->scheduler_,
                 Scheduler::create(first, model->options_.scheduler, model->metrics_, turns, std::move(post_to_io)));
  return model;
}

void ServedModel::drain() {
  if (scheduler_) scheduler_->drain();
  if (embedder_) embedder_->drain();
}

bool ServedModel::has_lost_files() const { return !engine().require_files(); }

void ServedModel::stop_all() {
  if (scheduler_) scheduler_->stop_all();
  if (embedder_) embedder_->stop_all();
}

void ServedModel::stop() {
  if (scheduler_) scheduler_->stop();
  if (embedder_) embedder_->stop();
}

bool ServedModel::is_idle() const {
  return (!scheduler_ || scheduler_->is_idle()) && (!embedder_ || embedder_->is_idle());
}

double ServedModel::overdue_ms() const {
  return std::max(scheduler_ ? scheduler_->overdue_ms() : 0, embedder_ ? embedder_->overdue_ms() : 0);
}

void ServedModel::read_facts() {
  const ModelInfo& info = engine().model().info();
  facts_.path = options_.path;
  facts_.id = options_.name;
  if (facts_.id.empty() && !options_.aliases.empty()) facts_.id = options_.aliases.front();
  if (facts_.id.empty()) facts_.id = std::filesystem::path(options_.path).filename().string();
  facts_.format = main_format(engine().files());
  facts_.vocab_type = vocab().model();
  facts_.bos = token_text(vocab(), text::SpecialToken::bos);
  facts_.eos = token_text(vocab(), text::SpecialToken::eos);
  facts_.n_vocab = info.n_vocab;
  facts_.n_ctx_train = info.n_ctx_train;
  facts_.n_embd = info.n_embd;
  facts_.n_parameters = count_parameters(engine().files());
  for (const auto& [format, share] : shares_of_formats(engine().files())) facts_.n_bytes += share.n_bytes;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  facts_.created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

void ServedModel::read_template() {
  template_source_ = options_.chat_template;
  if (template_source_.empty()) {
    auto own = load_chat_template(engine().files().metadata(), false);
    if (!own) template_problem_ = own.error().message();
    if (own && *own) template_source_ = std::move(**own);
  }
  if (template_source_.empty()) template_source_ = text::find_builtin_template("chatml").value_or("");
  auto created = text::ChatTemplate::create(template_source_, chat_tokens(vocab()));
  if (created) {
    chat_template_.emplace(std::move(*created));
  } else {
    template_problem_ = created.error().text();
  }
}

Result<const text::ChatTemplate*> ServedModel::chat_template() const {
  if (!chat_template_) return fail(ErrorCode::unsupported, "the chat template cannot be used: {}", template_problem_);
  return &*chat_template_;
}

std::shared_ptr<const text::grammar::MaskVocab> ServedModel::mask_vocab() {
  const std::lock_guard lock(mask_vocab_mutex_);
  if (!mask_vocab_) mask_vocab_ = tessera::mask_vocab(engine());
  return mask_vocab_;
}

}  // namespace tessera::server
