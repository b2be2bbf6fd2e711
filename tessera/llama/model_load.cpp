// llama.h: opening and freeing models.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/base/cpu_info.h"
#include "tessera/engine/vocab_loader.h"
#include "tessera/gguf/keys.h"
#include "tessera/llama/device_names.h"
#include "tessera/llama/objects.h"
#include "tessera/llama/registry.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

struct ModeOfLoading {
  LoadMode mode;
  bool locks;
};

// By llama_load_mode + 1: automatic, neither, mmap, mlock, both, direct I/O. Direct reads are plain reads here.
constexpr std::array<ModeOfLoading, 6> kModesOfLoading = {{{LoadMode::mmap, false},
                                                           {LoadMode::read, false},
                                                           {LoadMode::mmap, false},
                                                           {LoadMode::read, true},
                                                           {LoadMode::mmap, true},
                                                           {LoadMode::read, false}}};
constexpr std::array kSplitModes = {SplitMode::none, SplitMode::layer, SplitMode::row};

Result<std::vector<std::string>> device_names(const ModelParams& params) {
  if (params.n_gpu_layers == 0) return std::vector<std::string>{"cpu"};
  if (params.devices == nullptr) return std::vector<std::string>();  // all GPUs
  std::vector<std::string> names{"cpu"};
  for (void* const* device = params.devices; *device != nullptr; ++device) {
    if (params.device_name == nullptr)
      return fail(ErrorCode::unsupported, "devices: the process has no ggml library that names them");
    const char* name = params.device_name(*device);
    if (name == nullptr) return fail(ErrorCode::invalid_argument, "devices: a device without a name");
    names.push_back(device_name_of_ggml(name));
  }
  return names;
}

Result<PlacementOptions> placement_of(const ModelParams& params, const Registry& registry) {
  PlacementOptions placement;
  if (params.split_mode < 0 || std::cmp_greater_equal(params.split_mode, kSplitModes.size()))
    return fail(ErrorCode::unsupported, "split_mode: {}, want 0 to {}", params.split_mode, kSplitModes.size() - 1);
  TESSERA_ASSIGN(placement.devices, device_names(params));
  placement.split = kSplitModes[static_cast<size_t>(params.split_mode)];
  placement.n_gpu_layers = params.n_gpu_layers < 0 ? kAllLayers : params.n_gpu_layers;
  if (params.main_gpu > 0) placement.main_device = params.main_gpu;
  if (params.tensor_split == nullptr || params.n_gpu_layers == 0) return placement;
  const size_t n_named = static_cast<size_t>(
      std::ranges::count_if(placement.devices, [](const std::string& name) { return name != "cpu"; }));
  const size_t n = std::min(placement.devices.empty() ? registry.gpus().size() : n_named, tessera_llama_max_devices());
  const std::span shares(params.tensor_split, n);
  if (std::ranges::any_of(shares, [](float share) { return share != 0; }))
    placement.shares.assign(shares.begin(), shares.end());
  return placement;
}

Result<EngineOptions> engine_options(const ModelParams& params, const Registry& registry) {
  if (params.load_mode < -1 || std::cmp_greater_equal(params.load_mode, kModesOfLoading.size() - 1))
    return fail(ErrorCode::invalid_argument, "load_mode: {}, want -1 to {}", params.load_mode,
                kModesOfLoading.size() - 2);
  const auto mode = static_cast<size_t>(params.load_mode + 1);
  if (params.has_tensor_overrides)
    return fail(ErrorCode::unsupported, "tensor_buft_overrides: placing single tensors is not supported");
  if (params.kv_overrides != nullptr && params.kv_overrides->key[0] != '\0')
    return fail(ErrorCode::unsupported, "kv_overrides: replacing keys of the file is not supported, such as '{:.128}'",
                params.kv_overrides->key);
  EngineOptions options;
  options.load = kModesOfLoading[mode].mode;
  options.lock_memory = kModesOfLoading[mode].locks;
  options.check_tensors = params.check_tensors;
  options.pack_weights = params.use_extra_bufts;
  options.threads.n_threads = default_thread_count();
  TESSERA_ASSIGN(options.placement, placement_of(params, registry));
  return options;
}

std::vector<std::string> class_labels(const ModelFiles& files) {
  const auto architecture = files.metadata().get<std::string_view>(keys::kArchitecture);
  const auto labels = files.metadata().get_vector<std::string_view>(
      keys::arch_key(architecture.value_or(""), "classifier.output_labels"));
  if (!labels) return {};
  return {labels->begin(), labels->end()};
}

// Texts that end with a NUL, for functions that return them as C strings.
std::map<std::string, std::string, std::less<>> chat_templates(const Metadata& metadata) {
  std::map<std::string, std::string, std::less<>> templates;
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (!entry.key.starts_with(keys::kChatTemplate)) continue;
    if (const auto source = entry.value.as<std::string_view>()) templates.emplace(entry.key, *source);
  }
  return templates;
}

Result<> open_vocabulary(llama_model& model, std::unique_ptr<ModelFiles> files) {
  TESSERA_ASSIGN(model.tokenizer_only, load_tokenizer(*files));
  model.files_only = std::move(files);
  model.vocab.tokenizer = model.tokenizer_only.get();
  model.vocab.n_tokens = static_cast<int64_t>(model.vocab.vocab().n_tokens());
  return {};
}

Result<> load_weights(llama_model& model, const ModelParams& params) {
  const auto progress = [&](float share) {
    return params.progress == nullptr || params.progress(share, params.progress_user);
  };
  TESSERA_TRY(model.engine->load(progress));
  for (const std::string& warning : model.engine->warnings())
    log_line(LogLevel::warning, "llama_model_load_from_file", warning);
  return {};
}

Result<> open_weights(llama_model& model, std::unique_ptr<ModelFiles> files, const ModelParams& params) {
  TESSERA_ASSIGN(model.options, engine_options(params, *model.registry));
  TESSERA_ASSIGN(model.engine, Engine::open(*model.registry, std::move(files), model.options));
  model.vocab.tokenizer = &model.engine->tokenizer();
  model.vocab.n_tokens = model.engine->model().info().n_vocab;
  return params.no_alloc ? Result<>() : load_weights(model, params);
}

Result<llama_model*> open_model(const std::string& path, const ModelParams& params) {
  const int64_t begin = tessera_llama_time_us();
  TESSERA_ASSIGN(auto files, ModelFiles::open(path));
  const auto model = std::make_shared<llama_model>();
  model->class_labels = class_labels(*files);
  model->chat_templates = chat_templates(files->metadata());
  TESSERA_ASSIGN(model->registry, shared_registry());
  TESSERA_TRY(params.vocab_only ? open_vocabulary(*model, std::move(files))
                                : open_weights(*model, std::move(files), params));
  for (const std::string& warning : model->vocab.tokenizer->warnings())
    log_line(LogLevel::warning, "llama_model_load_from_file", warning);
  model->vocab.model = model.get();
  model->load_us = tessera_llama_time_us() - begin;
  model->self = model;
  return model.get();
}

// The parts of a split model are found by their names, so the list must be those names.
Result<> require_names_of_parts(std::span<const char*> paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    TESSERA_ASSIGN(const std::string_view path, read_text(paths[i], "paths"));
    const auto name = parse_split_path(path);
    if (paths.size() == 1 && !name) return {};
    if (!name || name->no != i || name->count != paths.size() || name->prefix != parse_split_path(paths[0])->prefix)
      return fail(ErrorCode::unsupported, "paths: {} is not named as part {} of {}", path, i + 1, paths.size());
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Engine>> llama_model::engine_with(const RopeOverrides& rope) const {
  EngineOptions with = options;
  with.rope = rope;
  TESSERA_ASSIGN(auto opened, Engine::open(*registry, files().name(), with));
  TESSERA_TRY(opened->load([](float) { return true; }));
  return opened;
}

llama_model* tessera_llama_layout_load(const char* path, const ModelParams* params) {
  return guarded<llama_model*>("llama_model_load_from_file", nullptr, [&]() -> Result<llama_model*> {
    TESSERA_ASSIGN(const std::string_view given, read_text(path, "path"));
    return open_model(std::string(given), *params);
  });
}

llama_model* tessera_llama_layout_load_splits(const char** paths, size_t n_paths, const ModelParams* params) {
  return guarded<llama_model*>("llama_model_load_from_splits", nullptr, [&]() -> Result<llama_model*> {
    TESSERA_ASSIGN(const std::span<const char*> given, read_items(paths, n_paths, "paths"));
    if (given.empty()) return fail(ErrorCode::invalid_argument, "paths: is empty");
    TESSERA_TRY(require_names_of_parts(given));
    return open_model(given[0], *params);
  });
}

void tessera_llama_model_free(llama_model* model) {
  if (model == nullptr) return;
  guarded("llama_model_free", [&]() -> Result<> {
    TESSERA_TRY(require(model, "model"));
    const std::shared_ptr<llama_model> last = std::move(model->self);
    return {};
  });
}
