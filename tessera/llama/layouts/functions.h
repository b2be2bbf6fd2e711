// The functions of llama.h whose structs differ between its versions, for the layout whose header was included before.
// A layout has these to convert its structs:
//   void set_defaults(llama_model_params&), and likewise for llama_context_params and llama_model_quantize_params
//   ModelParams to_params(const llama_model_params&), and likewise for the others
// The library of a layout is one source that includes this. Its other names are stubs (stubs.inc).
#pragma once

#include <cstring>

#include "tessera/llama/api.h"

#define TESSERA_LAYOUT_API extern "C" __attribute__((visibility("default")))

// A ggml library of the process, if there is one, knows the names of its devices.
extern "C" __attribute__((weak)) const char* ggml_backend_dev_name(void* device);

namespace {

// All bytes are set, those between members as well.
template <class T>
T defaults_of() {
  T params;
  std::memset(static_cast<void*>(&params), 0, sizeof params);
  set_defaults(params);
  return params;
}

}  // namespace

TESSERA_LAYOUT_API llama_model_params llama_model_default_params() { return defaults_of<llama_model_params>(); }
TESSERA_LAYOUT_API llama_context_params llama_context_default_params() { return defaults_of<llama_context_params>(); }
TESSERA_LAYOUT_API llama_model_quantize_params llama_model_quantize_default_params() {
  return defaults_of<llama_model_quantize_params>();
}

TESSERA_LAYOUT_API llama_model* llama_model_load_from_file(const char* path_model, llama_model_params params) {
  tessera::llama::ModelParams converted = to_params(params);
  converted.device_name = ggml_backend_dev_name;
  return tessera_llama_layout_load(path_model, &converted);
}

TESSERA_LAYOUT_API llama_model* llama_load_model_from_file(const char* path_model, llama_model_params params) {
  return llama_model_load_from_file(path_model, params);
}

TESSERA_LAYOUT_API llama_model* llama_model_load_from_splits(const char** paths, size_t n_paths,
                                                             llama_model_params params) {
  tessera::llama::ModelParams converted = to_params(params);
  converted.device_name = ggml_backend_dev_name;
  return tessera_llama_layout_load_splits(paths, n_paths, &converted);
}

TESSERA_LAYOUT_API llama_model* llama_model_load_from_file_ptr(void* /*file*/, llama_model_params /*params*/) {
  tessera_llama_layout_refuse("llama_model_load_from_file_ptr", false);
  return nullptr;
}

TESSERA_LAYOUT_API llama_model* llama_model_init_from_user(void* /*metadata*/, void* /*set_tensor_data*/,
                                                           void* /*set_tensor_data_ud*/,
                                                           llama_model_params /*params*/) {
  // node-llama-cpp asks for a model without weights before each load, and estimates its memory if there is none.
  tessera_llama_layout_refuse("llama_model_init_from_user", true);
  return nullptr;
}

TESSERA_LAYOUT_API llama_context* llama_init_from_model(llama_model* model, llama_context_params params) {
  const tessera::llama::ContextParams converted = to_params(params);
  return tessera_llama_layout_create(model, &converted);
}

TESSERA_LAYOUT_API llama_context* llama_new_context_with_model(llama_model* model, llama_context_params params) {
  return llama_init_from_model(model, params);
}

TESSERA_LAYOUT_API uint32_t llama_model_quantize(const char* fname_inp, const char* fname_out,
                                                 const llama_model_quantize_params* params) {
  const tessera::llama::QuantizeParams converted =
      to_params(params == nullptr ? defaults_of<llama_model_quantize_params>() : *params);
  return tessera_llama_layout_quantize(fname_inp, fname_out, &converted);
}
