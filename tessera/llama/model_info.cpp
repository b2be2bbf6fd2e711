// llama.h: facts about a model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "tessera/convert/file_types.h"
#include "tessera/gguf/keys.h"
#include "tessera/llama/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr int32_t kRopeNone = -1, kRopeNorm = 0, kRopeNeox = 2, kRopeOfImages = 8, kRopeOfImagesInTurns = 40;

// Models whose pairs belong to time, height and width: in sections, if their files have them, or in turns.
constexpr std::array<std::string_view, 4> kModelsWithSections = {"glm4", "glm4moe", "hunyuan_vl", "qwen2vl"};
constexpr std::array<std::string_view, 4> kModelsInTurns = {"qwen35", "qwen35moe", "qwen3vl", "qwen3vlmoe"};

// Models that denoise a text instead of continuing it.
constexpr std::array<std::string_view, 4> kDiffusionModels = {"dream", "llada", "llada-moe", "rnd1"};

// Calls a function for a model of llama.h.
template <class T, class Function>
T of_model(const char* function, const llama_model* model, T failed, Function&& body) {
  return guarded<T>(function, failed, [&]() -> Result<T> {
    TESSERA_TRY(require(model, "model"));
    return body(*model);
  });
}

// A number of the hyperparameters; `absent` if only the vocabulary is loaded.
template <class Function>
int32_t number_of(const char* function, const llama_model* model, Function&& body) {
  return of_model<int32_t>(function, model, 0, [&](const llama_model& of) {
    return of.info() == nullptr ? 0 : static_cast<int32_t>(body(*of.info()));
  });
}

std::string_view architecture_of(const llama_model& model) {
  return model.metadata().get<std::string_view>(keys::kArchitecture).value_or("");
}

// A number of the architecture's keys; the first one if there is one per layer.
int64_t key_number(const llama_model& model, std::string_view suffix, int64_t absent) {
  const GgufValue* value = model.metadata().find(keys::arch_key(architecture_of(model), suffix));
  if (value == nullptr || (value->is_array() && value->size() == 0)) return absent;
  return (value->is_array() ? (*value)[0] : *value).as<int64_t>().value_or(absent);
}

bool has_rope_sections(const llama_model& model) {
  const GgufValue* value = model.metadata().find(keys::arch_key(architecture_of(model), "rope.dimension_sections"));
  if (value == nullptr || !value->is_array() || value->size() < 2) return false;
  return (*value)[0].as<int64_t>().value_or(0) > 0 && (*value)[1].as<int64_t>().value_or(0) > 0;
}

int32_t rope_type_of(const llama_model& model) {
  const ModelInfo* info = model.info();
  if (info == nullptr || info->ropes.empty()) return kRopeNone;
  const std::string_view architecture = architecture_of(model);
  if (std::ranges::find(kModelsInTurns, architecture) != kModelsInTurns.end()) return kRopeOfImagesInTurns;
  const bool may_have = std::ranges::find(kModelsWithSections, architecture) != kModelsWithSections.end();
  if (may_have && has_rope_sections(model)) return kRopeOfImages;
  return info->ropes[0].config.pairs == RopePairs::adjacent ? kRopeNorm : kRopeNeox;
}

bool is_recurrent_only(const ModelInfo& info) { return !info.recurrent_layers.empty() && info.kv_layers.empty(); }

// The type of most weights, as a file type.
int32_t guessed_file_type(const ModelFiles& files) {
  std::map<DType, uint64_t> n_elements;
  for (const ModelFiles::Tensor& tensor : files.tensors())
    if (tensor.info.rank > 1) n_elements[tensor.info.dtype] += static_cast<uint64_t>(tensor.info.shape.n_elements());
  const auto most = std::ranges::max_element(n_elements, {}, [](const auto& one) { return one.second; });
  const auto type = most == n_elements.end() ? std::nullopt : convert::file_type_of(most->first);
  return type ? static_cast<int32_t>(convert::info(*type).id) : 0;
}

int32_t file_type_of(const llama_model& model) {
  if (model.info() == nullptr) return 0;
  if (const auto stated = model.metadata().get<int32_t>(keys::kFileType)) return *stated;
  return guessed_file_type(model.files()) | 1024;
}

uint64_t count_parameters(const ModelFiles& files) {
  uint64_t n = 0;
  for (const ModelFiles::Tensor& tensor : files.tensors()) n += static_cast<uint64_t>(tensor.info.shape.n_elements());
  return n;
}

// "7B" or "135M"; "?B" for fewer than half a million parameters.
std::string size_label(uint64_t n_parameters) {
  if (n_parameters >= 995'000'000) return fmt::format("{:.3g}B", static_cast<double>(n_parameters) / 1e9);
  if (n_parameters >= 500'000) return fmt::format("{:.0f}M", static_cast<double>(n_parameters) / 1e6);
  return "?B";
}

}  // namespace

const llama_vocab* tessera_llama_model_get_vocab(const llama_model* model) {
  return of_model<const llama_vocab*>("llama_model_get_vocab", model, nullptr,
                                      [](const llama_model& of) { return &of.vocab; });
}

int32_t tessera_llama_model_rope_type(const llama_model* model) {
  return of_model("llama_model_rope_type", model, kRopeNone, rope_type_of);
}

int32_t tessera_llama_model_n_ctx_train(const llama_model* model) {
  return number_of("llama_model_n_ctx_train", model, [](const ModelInfo& info) { return info.n_ctx_train; });
}
int32_t tessera_llama_model_n_embd(const llama_model* model) {
  return number_of("llama_model_n_embd", model, [](const ModelInfo& info) { return info.n_embd; });
}
int32_t tessera_llama_model_n_embd_inp(const llama_model* model) {
  return number_of("llama_model_n_embd_inp", model, [](const ModelInfo& info) { return info.n_embd; });
}
int32_t tessera_llama_model_n_embd_out(const llama_model* model) {
  return number_of("llama_model_n_embd_out", model, [](const ModelInfo& info) { return info.n_embd; });
}
int32_t tessera_llama_model_n_layer(const llama_model* model) {
  return number_of("llama_model_n_layer", model, [](const ModelInfo& info) { return info.n_layers; });
}
int32_t tessera_llama_model_n_layer_nextn(const llama_model* model) {
  return of_model<int32_t>("llama_model_n_layer_nextn", model, 0, [](const llama_model& of) {
    return static_cast<int32_t>(key_number(of, "nextn_predict_layers", 0));
  });
}
int32_t tessera_llama_model_n_head(const llama_model* model) {
  return of_model<int32_t>("llama_model_n_head", model, 0, [](const llama_model& of) {
    return static_cast<int32_t>(key_number(of, "attention.head_count", 0));
  });
}
int32_t tessera_llama_model_n_head_kv(const llama_model* model) {
  return of_model<int32_t>("llama_model_n_head_kv", model, 0, [](const llama_model& of) {
    return static_cast<int32_t>(key_number(of, "attention.head_count_kv", key_number(of, "attention.head_count", 0)));
  });
}
int32_t tessera_llama_model_n_swa(const llama_model* model) {
  return of_model<int32_t>("llama_model_n_swa", model, 0, [](const llama_model& of) {
    return static_cast<int32_t>(key_number(of, "attention.sliding_window", 0));
  });
}

float tessera_llama_model_rope_freq_scale_train(const llama_model* model) {
  return of_model("llama_model_rope_freq_scale_train", model, 0.0f, [](const llama_model& of) {
    const ModelInfo* info = of.info();
    if (info == nullptr) return 0.0f;
    const float factor = info->ropes.empty() ? 1.0f : info->ropes[0].config.factor;
    return factor == 0 ? 1.0f : 1.0f / factor;
  });
}

uint32_t tessera_llama_model_n_cls_out(const llama_model* model) {
  return of_model<uint32_t>("llama_model_n_cls_out", model, 0, [](const llama_model& of) -> uint32_t {
    const ModelInfo* info = of.info();
    return info == nullptr || info->n_scores == 0 ? 1 : static_cast<uint32_t>(info->n_scores);
  });
}

const char* tessera_llama_model_cls_label(const llama_model* model, uint32_t i) {
  return of_model<const char*>("llama_model_cls_label", model, nullptr, [&](const llama_model& of) {
    return i < of.class_labels.size() ? of.class_labels[i].c_str() : nullptr;
  });
}

int32_t tessera_llama_model_desc(const llama_model* model, char* buf, size_t buf_size) {
  return of_model<int32_t>("llama_model_desc", model, -1, [&](const llama_model& of) {
    const std::string text = of.info() == nullptr ? ""
                                                  : fmt::format("{} {} {}", of.info()->architecture,
                                                                size_label(count_parameters(of.files())),
                                                                tessera_llama_ftype_name(file_type_of(of)));
    return write_text(text, buf, buf_size);
  });
}

int32_t tessera_llama_model_ftype(const llama_model* model) {
  return of_model<int32_t>("llama_model_ftype", model, 0, [](const llama_model& of) { return file_type_of(of); });
}

uint64_t tessera_llama_model_size(const llama_model* model) {
  return of_model<uint64_t>("llama_model_size", model, 0,
                            [](const llama_model& of) { return of.files().n_tensor_bytes(); });
}

uint64_t tessera_llama_model_n_params(const llama_model* model) {
  return of_model<uint64_t>("llama_model_n_params", model, 0,
                            [](const llama_model& of) { return count_parameters(of.files()); });
}

bool tessera_llama_model_has_encoder(const llama_model* model) {
  return of_model("llama_model_has_encoder", model, false,
                  [](const llama_model& of) { return of.info() != nullptr && of.info()->has_encoder(); });
}

bool tessera_llama_model_has_decoder(const llama_model* model) {
  return of_model("llama_model_has_decoder", model, false,
                  [](const llama_model& of) { return architecture_of(of) != "t5encoder"; });
}

int32_t tessera_llama_model_decoder_start_token(const llama_model* model) {
  return of_model<int32_t>("llama_model_decoder_start_token", model, -1, [](const llama_model& of) {
    return static_cast<int32_t>(key_number(of, "decoder_start_token_id", -1));
  });
}

bool tessera_llama_model_is_recurrent(const llama_model* model) {
  return of_model("llama_model_is_recurrent", model, false,
                  [](const llama_model& of) { return of.info() != nullptr && is_recurrent_only(*of.info()); });
}

bool tessera_llama_model_is_hybrid(const llama_model* model) {
  return of_model("llama_model_is_hybrid", model, false, [](const llama_model& of) {
    const ModelInfo* info = of.info();
    return info != nullptr && !info->recurrent_layers.empty() && !is_recurrent_only(*info);
  });
}

bool tessera_llama_model_is_diffusion(const llama_model* model) {
  return of_model("llama_model_is_diffusion", model, false, [](const llama_model& of) {
    return std::ranges::find(kDiffusionModels, architecture_of(of)) != kDiffusionModels.end();
  });
}
