// tessera.h: models.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/capi/plans.h"
#include "tessera/gguf/weight_facts.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_model_options kModelDefaults = {};
constexpr uint32_t kKnownFlags = TESSERA_MODEL_LOCK_MEMORY | TESSERA_MODEL_CHECK_TENSORS | TESSERA_MODEL_NO_PACKING;

Result<EngineOptions> engine_options(const tessera_model_options& wanted, const tessera_runtime& runtime) {
  if (wanted.load_mode != TESSERA_LOAD_MAP && wanted.load_mode != TESSERA_LOAD_READ)
    return fail(ErrorCode::invalid_argument, "load_mode: {}, want TESSERA_LOAD_MAP or _READ", wanted.load_mode);
  if (wanted.n_gpu_layers < 0)
    return fail(ErrorCode::invalid_argument, "n_gpu_layers: {}, want 0 or more", wanted.n_gpu_layers);
  if ((wanted.flags & ~kKnownFlags) != 0)
    return fail(ErrorCode::invalid_argument, "flags: {:#x}, known are {:#x}", wanted.flags, kKnownFlags);
  EngineOptions options;
  if (wanted.devices != nullptr) options.placement.devices = capi::split_names(wanted.devices, ',');
  if (wanted.n_gpu_layers > 0) options.placement.n_gpu_layers = wanted.n_gpu_layers;
  options.load = wanted.load_mode == TESSERA_LOAD_MAP ? LoadMode::mmap : LoadMode::read;
  options.lock_memory = (wanted.flags & TESSERA_MODEL_LOCK_MEMORY) != 0;
  options.check_tensors = (wanted.flags & TESSERA_MODEL_CHECK_TENSORS) != 0;
  options.pack_weights = (wanted.flags & TESSERA_MODEL_NO_PACKING) == 0;
  options.threads = runtime.thread_options;
  return options;
}

// Opens a model with files that `open` gives, once the options are known to be right.
Result<> open_files(tessera_runtime& runtime, const tessera_model_options* options, tessera_model** model,
                    FunctionRef<Result<std::unique_ptr<ModelFiles>>(tessera_model&)> open) {
  TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kModelDefaults, "options"));
  TESSERA_ASSIGN(const EngineOptions engine, engine_options(wanted, runtime));
  auto created = std::make_unique<tessera_model>(&runtime);
  TESSERA_ASSIGN(auto files, open(*created));
  TESSERA_ASSIGN(created->engine, Engine::open(*runtime.registry, std::move(files), engine));
  for (const std::string& warning : created->engine->warnings()) runtime.log(TESSERA_LOG_WARNING, warning);
  *model = created.release();
  return {};
}

Result<std::unique_ptr<ModelFiles>> read_files(const tessera_reader& source, const char* name, tessera_model& model) {
  TESSERA_TRY(capi::require_pointer(source.file_size, "reader->file_size"));
  TESSERA_TRY(capi::require_pointer(source.read, "reader->read"));
  const int64_t n_bytes = source.file_size(source.user);
  if (n_bytes < 0) return fail(ErrorCode::io, "{}: its reader cannot tell the size: {}", name, n_bytes);
  TESSERA_ASSIGN(model.file, capi::BudgetShare::take(model.runtime->budget, static_cast<uint64_t>(n_bytes), name));
  const auto read = [&](uint64_t offset, std::span<std::byte> into) -> Result<> {
    const int32_t failure = source.read(source.user, offset, into.data(), into.size());
    if (failure == 0) return {};
    return fail(ErrorCode::io, "its reader failed at byte {}: {}", offset, failure);
  };
  return ModelFiles::read(static_cast<uint64_t>(n_bytes), read, name);
}

uint32_t flags_of(const Engine& engine) {
  const ModelInfo& info = engine.model().info();
  uint32_t flags = 0;
  if (info.has_encoder()) flags |= TESSERA_MODEL_HAS_ENCODER;
  if (info.is_causal && info.has_logits) flags |= TESSERA_MODEL_IS_CAUSAL;
  if (!info.recurrent_layers.empty()) flags |= TESSERA_MODEL_IS_RECURRENT;
  if (engine.vocab().has_text()) flags |= TESSERA_MODEL_HAS_TOKENIZER;
  if (info.n_scores > 0) flags |= TESSERA_MODEL_HAS_RANK_HEAD;
  return flags;
}

}  // namespace

void tessera_model_options_init(tessera_model_options* options, size_t size) {
  capi::write_sized(options, size, kModelDefaults);
}

tessera_status tessera_model_open(tessera_runtime* runtime, const char* path, const tessera_model_options* options,
                                  tessera_model** model, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_TRY(capi::require_pointer(path, "path"));
    TESSERA_TRY(capi::require_pointer(model, "model"));
    return open_files(*runtime, options, model, [&](auto&) { return ModelFiles::open(path); });
  });
}

void tessera_reader_init(tessera_reader* reader, size_t size) { capi::write_sized(reader, size, tessera_reader{}); }

tessera_status tessera_model_open_reader(tessera_runtime* runtime, const tessera_reader* reader, const char* name,
                                         const tessera_model_options* options, tessera_model** model,
                                         tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_TRY(capi::require_pointer(reader, "reader"));
    TESSERA_TRY(capi::require_pointer(name, "name"));
    TESSERA_TRY(capi::require_pointer(model, "model"));
    TESSERA_ASSIGN(const auto source, capi::read_sized(reader, tessera_reader{}, "reader"));
    return open_files(*runtime, options, model,
                      [&](tessera_model& created) { return read_files(source, name, created); });
  });
}

tessera_status tessera_model_load(tessera_model* model, tessera_progress_function progress, void* user,
                                  tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    if (model->is_loaded) return {};
    TESSERA_ASSIGN(auto memory, capi::BudgetShare::take(model->runtime->budget,
                                                        capi::counted_bytes(model->engine->planned_memory()), "model"));
    const size_t n_told = model->engine->warnings().size();
    TESSERA_TRY(model->engine->load([&](float share) {
      const bool goes_on = progress == nullptr || progress(user, share) == 0;
      return goes_on && (token == nullptr || !token->cancelled());
    }));
    for (const std::string& warning : model->engine->warnings() | std::views::drop(n_told))
      model->runtime->log(TESSERA_LOG_WARNING, warning);
    model->memory = std::move(memory);
    model->is_loaded = true;
    return {};
  });
}

int32_t tessera_model_is_loaded(const tessera_model* model) {
  return capi::is_handle(model) && model->is_loaded ? 1 : 0;
}

tessera_model* tessera_model_retain(tessera_model* model) { return capi::retain(model); }
void tessera_model_release(tessera_model* model) { capi::release(model); }

tessera_status tessera_model_info_get(const tessera_model* model, tessera_model_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(info, "info"));
    TESSERA_TRY(capi::require_size(info->size, "info"));
    const ModelInfo& found = model->engine->model().info();
    tessera_model_info out{};
    out.flags = flags_of(*model->engine);
    out.architecture = found.architecture.c_str();
    out.name = found.name.c_str();
    out.n_vocab = found.n_vocab;
    out.n_ctx_train = found.n_ctx_train;
    out.n_embd = found.n_embd;
    out.n_layers = found.n_layers;
    out.n_parameters = count_parameters(model->engine->files());
    out.n_bytes = model->engine->files().n_tensor_bytes();
    capi::write_sized(info, info->size, out);
    return {};
  });
}

// --- tokenizer

tessera_status tessera_tokenize(const tessera_model* model, const char* text, int64_t length, uint32_t flags,
                                int32_t* tokens, uint64_t room, uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_ASSIGN(const std::string_view given, capi::read_text(text, length, "text"));
    const text::TokenizeOptions options{.add_special = (flags & TESSERA_TOKENIZE_SPECIAL) != 0,
                                        .parse_special = (flags & TESSERA_TOKENIZE_PARSE_SPECIAL) != 0};
    TESSERA_ASSIGN(const std::vector<int32_t> ids, model->engine->tokenizer().tokenize(given, options));
    return capi::write_items(std::span(ids), tokens, room, needed, "tokens");
  });
}

tessera_status tessera_detokenize(const tessera_model* model, const int32_t* tokens, uint64_t count, uint32_t flags,
                                  char* buffer, uint64_t room, uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_ASSIGN(const auto ids, capi::read_items(tokens, count, "tokens"));
    const text::DetokenizeOptions options{.render_special = (flags & TESSERA_DETOKENIZE_SPECIAL) != 0,
                                          .at_start = (flags & TESSERA_DETOKENIZE_CONTINUE) == 0};
    TESSERA_ASSIGN(const std::string text, text::detokenize(model->engine->tokenizer(), ids, options));
    return capi::write_text(text, buffer, room, needed);
  });
}

int32_t tessera_token_special(const tessera_model* model, int32_t role) {
  if (!capi::is_handle(model) || role < 0 || role >= static_cast<int32_t>(text::kNSpecialTokens)) return -1;
  return model->engine->vocab().special(static_cast<text::SpecialToken>(role)).value_or(-1);
}

int32_t tessera_token_is_end(const tessera_model* model, int32_t token) {
  return capi::is_handle(model) && model->engine->vocab().is_eog(token) ? 1 : 0;
}

tessera_status tessera_token_info_get(const tessera_model* model, int32_t token, tessera_token_info* info,
                                      tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(info, "info"));
    const text::Vocab& vocab = model->engine->vocab();
    if (!vocab.has_text()) return fail(ErrorCode::unsupported, "the model has no vocabulary");
    if (!vocab.contains(token))
      return fail(ErrorCode::invalid_argument, "token: {}, there are {}", token, vocab.n_tokens());
    const std::string_view text = vocab.text(token);
    *info = {.text = text.data(),
             .n_bytes = text.size(),
             .score = vocab.score(token),
             .kind = static_cast<int32_t>(vocab.type(token))};
    return {};
  });
}
