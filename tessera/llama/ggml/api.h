// The functions of ggml.h, gguf.h and ggml-backend.h that consumers of libllama call, as libtessera.so exports them for
// our libggml: tessera_NAME for each NAME. Their contracts are those of the headers; docs/libllama.md lists the
// differences. cmake/libggml.cmake reads the names here and in refused.def.
#pragma once

#include "tessera/llama/api.h"
#include "tessera/llama/ggml/abi.h"

// ---- The library

TESSERA_LLAMA_API const char* tessera_ggml_version();
TESSERA_LLAMA_API const char* tessera_ggml_commit();
TESSERA_LLAMA_API const char* tessera_ggml_status_to_string(int32_t status);
TESSERA_LLAMA_API void tessera_ggml_time_init();
TESSERA_LLAMA_API int64_t tessera_ggml_time_ms();
TESSERA_LLAMA_API int64_t tessera_ggml_time_us();
TESSERA_LLAMA_API void tessera_ggml_log_get(ggml_log_callback* log_callback, void** user_data);
TESSERA_LLAMA_API void tessera_ggml_log_set(ggml_log_callback log_callback, void* user_data);
TESSERA_LLAMA_API void tessera_ggml_numa_init(int32_t numa);
TESSERA_LLAMA_API bool tessera_ggml_is_numa();
/// Ends the process, after a line of the log.
TESSERA_LLAMA_API void tessera_ggml_abort(const char* file, int line, const char* format, ...);

// ---- Types

TESSERA_LLAMA_API const char* tessera_ggml_type_name(int32_t type);
TESSERA_LLAMA_API size_t tessera_ggml_type_size(int32_t type);
TESSERA_LLAMA_API int64_t tessera_ggml_blck_size(int32_t type);
TESSERA_LLAMA_API size_t tessera_ggml_row_size(int32_t type, int64_t ne);
TESSERA_LLAMA_API bool tessera_ggml_is_quantized(int32_t type);
TESSERA_LLAMA_API float tessera_ggml_fp16_to_fp32(uint16_t x);
TESSERA_LLAMA_API uint16_t tessera_ggml_fp32_to_fp16(float x);
TESSERA_LLAMA_API float tessera_ggml_bf16_to_fp32(ggml_bf16_t x);
TESSERA_LLAMA_API ggml_bf16_t tessera_ggml_fp32_to_bf16(float x);
TESSERA_LLAMA_API void tessera_ggml_fp16_to_fp32_row(const uint16_t* x, float* y, int64_t n);
TESSERA_LLAMA_API void tessera_ggml_fp32_to_fp16_row(const float* x, uint16_t* y, int64_t n);
TESSERA_LLAMA_API void tessera_ggml_bf16_to_fp32_row(const ggml_bf16_t* x, float* y, int64_t n);
TESSERA_LLAMA_API void tessera_ggml_fp32_to_bf16_row(const float* x, ggml_bf16_t* y, int64_t n);

// ---- Tensors

TESSERA_LLAMA_API int32_t tessera_ggml_n_dims(const ggml_tensor* tensor);
TESSERA_LLAMA_API int64_t tessera_ggml_nelements(const ggml_tensor* tensor);
TESSERA_LLAMA_API int64_t tessera_ggml_nrows(const ggml_tensor* tensor);
TESSERA_LLAMA_API size_t tessera_ggml_nbytes(const ggml_tensor* tensor);
TESSERA_LLAMA_API size_t tessera_ggml_element_size(const ggml_tensor* tensor);
TESSERA_LLAMA_API const char* tessera_ggml_get_name(const ggml_tensor* tensor);
TESSERA_LLAMA_API void* tessera_ggml_get_data(const ggml_tensor* tensor);
TESSERA_LLAMA_API size_t tessera_ggml_tensor_overhead();
TESSERA_LLAMA_API void tessera_ggml_free(ggml_context* ctx);
TESSERA_LLAMA_API ggml_tensor* tessera_ggml_get_first_tensor(const ggml_context* ctx);
TESSERA_LLAMA_API ggml_tensor* tessera_ggml_get_next_tensor(const ggml_context* ctx, ggml_tensor* tensor);
TESSERA_LLAMA_API ggml_tensor* tessera_ggml_get_tensor(ggml_context* ctx, const char* name);

// ---- Devices

TESSERA_LLAMA_API void tessera_ggml_backend_load_all();
TESSERA_LLAMA_API void tessera_ggml_backend_load_all_from_path(const char* dir_path);
TESSERA_LLAMA_API void tessera_ggml_backend_unload(ggml_backend_reg* reg);
TESSERA_LLAMA_API size_t tessera_ggml_backend_reg_count();
TESSERA_LLAMA_API ggml_backend_reg* tessera_ggml_backend_reg_get(size_t index);
TESSERA_LLAMA_API ggml_backend_reg* tessera_ggml_backend_reg_by_name(const char* name);
TESSERA_LLAMA_API const char* tessera_ggml_backend_reg_name(ggml_backend_reg* reg);
TESSERA_LLAMA_API size_t tessera_ggml_backend_reg_dev_count(ggml_backend_reg* reg);
TESSERA_LLAMA_API ggml_backend_device* tessera_ggml_backend_reg_dev_get(ggml_backend_reg* reg, size_t index);
TESSERA_LLAMA_API void* tessera_ggml_backend_reg_get_proc_address(ggml_backend_reg* reg, const char* name);
TESSERA_LLAMA_API size_t tessera_ggml_backend_dev_count();
TESSERA_LLAMA_API ggml_backend_device* tessera_ggml_backend_dev_get(size_t index);
TESSERA_LLAMA_API ggml_backend_device* tessera_ggml_backend_dev_by_name(const char* name);
TESSERA_LLAMA_API ggml_backend_device* tessera_ggml_backend_dev_by_type(int32_t type);
TESSERA_LLAMA_API const char* tessera_ggml_backend_dev_name(ggml_backend_device* device);
TESSERA_LLAMA_API const char* tessera_ggml_backend_dev_description(ggml_backend_device* device);
TESSERA_LLAMA_API int32_t tessera_ggml_backend_dev_type(ggml_backend_device* device);
TESSERA_LLAMA_API void tessera_ggml_backend_dev_memory(ggml_backend_device* device, size_t* free, size_t* total);
TESSERA_LLAMA_API void tessera_ggml_backend_dev_get_props(ggml_backend_device* device, ggml_backend_dev_props* props);
TESSERA_LLAMA_API ggml_backend_reg* tessera_ggml_backend_dev_backend_reg(ggml_backend_device* device);
TESSERA_LLAMA_API ggml_backend_buffer_type* tessera_ggml_backend_dev_buffer_type(ggml_backend_device* device);
TESSERA_LLAMA_API ggml_backend_buffer_type* tessera_ggml_backend_cpu_buffer_type();
TESSERA_LLAMA_API const char* tessera_ggml_backend_buft_name(ggml_backend_buffer_type* buft);
TESSERA_LLAMA_API bool tessera_ggml_backend_buft_is_host(ggml_backend_buffer_type* buft);
TESSERA_LLAMA_API ggml_backend_device* tessera_ggml_backend_buft_get_device(ggml_backend_buffer_type* buft);

// ---- GGUF: opening and writing

TESSERA_LLAMA_API gguf_context* tessera_gguf_init_empty();
TESSERA_LLAMA_API gguf_context* tessera_gguf_init_from_file(const char* fname, gguf_init_params params);
TESSERA_LLAMA_API gguf_context* tessera_gguf_init_from_buffer(const void* data, size_t size, gguf_init_params params);
TESSERA_LLAMA_API void tessera_gguf_free(gguf_context* ctx);
TESSERA_LLAMA_API bool tessera_gguf_write_to_file(const gguf_context* ctx, const char* fname, bool only_meta);
TESSERA_LLAMA_API size_t tessera_gguf_get_meta_size(const gguf_context* ctx);
TESSERA_LLAMA_API void tessera_gguf_get_meta_data(const gguf_context* ctx, void* data);

// ---- GGUF: keys and values

TESSERA_LLAMA_API const char* tessera_gguf_type_name(int32_t type);
TESSERA_LLAMA_API uint32_t tessera_gguf_get_version(const gguf_context* ctx);
TESSERA_LLAMA_API size_t tessera_gguf_get_alignment(const gguf_context* ctx);
TESSERA_LLAMA_API size_t tessera_gguf_get_data_offset(const gguf_context* ctx);
TESSERA_LLAMA_API int64_t tessera_gguf_get_n_kv(const gguf_context* ctx);
TESSERA_LLAMA_API int64_t tessera_gguf_find_key(const gguf_context* ctx, const char* key);
TESSERA_LLAMA_API const char* tessera_gguf_get_key(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API int32_t tessera_gguf_get_kv_type(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API int32_t tessera_gguf_get_arr_type(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API uint8_t tessera_gguf_get_val_u8(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API int8_t tessera_gguf_get_val_i8(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API uint16_t tessera_gguf_get_val_u16(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API int16_t tessera_gguf_get_val_i16(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API uint32_t tessera_gguf_get_val_u32(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API int32_t tessera_gguf_get_val_i32(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API float tessera_gguf_get_val_f32(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API uint64_t tessera_gguf_get_val_u64(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API int64_t tessera_gguf_get_val_i64(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API double tessera_gguf_get_val_f64(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API bool tessera_gguf_get_val_bool(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API const char* tessera_gguf_get_val_str(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API const void* tessera_gguf_get_val_data(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API size_t tessera_gguf_get_arr_n(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API const void* tessera_gguf_get_arr_data(const gguf_context* ctx, int64_t key_id);
TESSERA_LLAMA_API const char* tessera_gguf_get_arr_str(const gguf_context* ctx, int64_t key_id, size_t i);
TESSERA_LLAMA_API int64_t tessera_gguf_remove_key(gguf_context* ctx, const char* key);
TESSERA_LLAMA_API void tessera_gguf_set_val_u8(gguf_context* ctx, const char* key, uint8_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_i8(gguf_context* ctx, const char* key, int8_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_u16(gguf_context* ctx, const char* key, uint16_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_i16(gguf_context* ctx, const char* key, int16_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_u32(gguf_context* ctx, const char* key, uint32_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_i32(gguf_context* ctx, const char* key, int32_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_f32(gguf_context* ctx, const char* key, float val);
TESSERA_LLAMA_API void tessera_gguf_set_val_u64(gguf_context* ctx, const char* key, uint64_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_i64(gguf_context* ctx, const char* key, int64_t val);
TESSERA_LLAMA_API void tessera_gguf_set_val_f64(gguf_context* ctx, const char* key, double val);
TESSERA_LLAMA_API void tessera_gguf_set_val_bool(gguf_context* ctx, const char* key, bool val);
TESSERA_LLAMA_API void tessera_gguf_set_val_str(gguf_context* ctx, const char* key, const char* val);
TESSERA_LLAMA_API void tessera_gguf_set_arr_data(gguf_context* ctx, const char* key, int32_t type, const void* data,
                                                 size_t n);
TESSERA_LLAMA_API void tessera_gguf_set_arr_str(gguf_context* ctx, const char* key, const char** data, size_t n);
TESSERA_LLAMA_API void tessera_gguf_set_kv(gguf_context* ctx, const gguf_context* src);

// ---- GGUF: tensors

TESSERA_LLAMA_API int64_t tessera_gguf_get_n_tensors(const gguf_context* ctx);
TESSERA_LLAMA_API int64_t tessera_gguf_find_tensor(const gguf_context* ctx, const char* name);
TESSERA_LLAMA_API size_t tessera_gguf_get_tensor_offset(const gguf_context* ctx, int64_t tensor_id);
TESSERA_LLAMA_API const char* tessera_gguf_get_tensor_name(const gguf_context* ctx, int64_t tensor_id);
TESSERA_LLAMA_API int32_t tessera_gguf_get_tensor_type(const gguf_context* ctx, int64_t tensor_id);
TESSERA_LLAMA_API size_t tessera_gguf_get_tensor_size(const gguf_context* ctx, int64_t tensor_id);
TESSERA_LLAMA_API const int64_t* tessera_gguf_get_tensor_ne(const gguf_context* ctx, int64_t tensor_id);
TESSERA_LLAMA_API void tessera_gguf_add_tensor(gguf_context* ctx, const ggml_tensor* tensor);
TESSERA_LLAMA_API void tessera_gguf_set_tensor_type(gguf_context* ctx, const char* name, int32_t type);
TESSERA_LLAMA_API void tessera_gguf_set_tensor_data(gguf_context* ctx, const char* name, const void* data);
