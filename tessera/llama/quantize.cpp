// llama.h: writing models.
#include <optional>

#include "tessera/base/cpu_info.h"
#include "tessera/convert/quantize.h"
#include "tessera/llama/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

Result<std::optional<DType>> tensor_type(int32_t type, std::string_view name) {
  if (type == kNoTensorType) return std::nullopt;
  if (type < 0) return fail(ErrorCode::invalid_argument, "{}: type {}", name, type);
  TESSERA_ASSIGN(const DType dtype, dtype_from_gguf_id(static_cast<uint32_t>(type)));
  return dtype;
}

Result<convert::FileType> quantized_file_type(int32_t ftype) {
  for (const convert::FileTypeInfo& one : convert::all_file_types())
    if (std::cmp_equal(one.id, ftype)) return one.type;
  return fail(ErrorCode::unsupported, "ftype: {}", ftype);
}

Result<> require_supported(const QuantizeParams& params) {
  const std::pair<bool, std::string_view> refused[] = {
      {params.has_imatrix, "imatrix"},
      {params.has_kv_overrides, "kv_overrides"},
      {params.has_tensor_types, "tensor types by pattern"},
      {params.has_prune_layers, "prune_layers"},
  };
  for (const auto& [is_given, name] : refused)
    if (is_given) return fail(ErrorCode::unsupported, "{}: not supported here; tessera quantize may have it", name);
  return {};
}

Result<convert::QuantizeOptions> quantize_options(const QuantizeParams& params) {
  TESSERA_TRY(require_supported(params));
  convert::QuantizeOptions options;
  options.keep_split = params.keep_split;
  options.mix.copy_all = params.only_copy;
  options.mix.pure = params.pure;
  options.mix.keep_output = !params.quantize_output_tensor;
  if (!params.only_copy) {
    TESSERA_ASSIGN(options.mix.file_type, quantized_file_type(params.ftype));
  }
  TESSERA_ASSIGN(options.mix.output_type, tensor_type(params.output_tensor_type, "output_tensor_type"));
  TESSERA_ASSIGN(options.mix.embedding_type, tensor_type(params.token_embedding_type, "token_embedding_type"));
  return options;
}

// A quantized value has lost what another type could keep.
Result<> require_plain(const ModelFiles& files, const convert::QuantizePlan& plan) {
  for (const convert::PlannedTensor& tensor : plan.tensors)
    if (!tensor.is_copied() && info(tensor.source.info.dtype).is_blocked())
      return fail(ErrorCode::invalid_argument, "{}: {} is {} already (see allow_requantize)", files.name(),
                  tensor.source.info.name, info(tensor.source.info.dtype).name);
  return {};
}

Result<> write_model(const ModelFiles& files, const convert::QuantizeOptions& options,
                     const convert::QuantizePlan& plan, const std::string& to, int n_threads) {
  TESSERA_TRY(convert::require_other_files(files, plan, to));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads}));
  const auto progress = [](float) { return true; };
  return convert::write_quantized(files, plan, options, to,
                                  {.threads = *threads, .cancel = nullptr, .progress = progress});
}

Result<> quantize_file(const std::string& from, const std::string& to, const QuantizeParams& params) {
  TESSERA_ASSIGN(const convert::QuantizeOptions options, quantize_options(params));
  TESSERA_ASSIGN(const auto files, ModelFiles::open(from));
  TESSERA_ASSIGN(const auto plan, convert::plan_quantize(*files, options));
  if (!params.allow_requantize) TESSERA_TRY(require_plain(*files, plan));
  if (params.dry_run) return {};
  return write_model(*files, options, plan, to, params.n_threads > 0 ? params.n_threads : default_thread_count());
}

// A copy of all tensors, in one file.
Result<> save_model(const ModelFiles& files, const std::string& to) {
  convert::QuantizeOptions options;
  options.mix.copy_all = true;
  TESSERA_ASSIGN(const auto plan, convert::plan_quantize(files, options));
  return write_model(files, options, plan, to, 1);
}

}  // namespace

uint32_t tessera_llama_layout_quantize(const char* from, const char* to, const QuantizeParams* params) {
  return guarded<uint32_t>("llama_model_quantize", 1, [&]() -> Result<uint32_t> {
    TESSERA_ASSIGN(const std::string_view input, read_text(from, "fname_inp"));
    TESSERA_ASSIGN(const std::string_view output, read_text(to, "fname_out"));
    TESSERA_TRY(quantize_file(std::string(input), std::string(output), *params));
    return 0;
  });
}

void tessera_llama_model_save_to_file(const llama_model* model, const char* path_model) {
  guarded("llama_model_save_to_file", [&]() -> Result<> {
    TESSERA_TRY(require(model, "model"));
    TESSERA_ASSIGN(const std::string_view path, read_text(path_model, "path_model"));
    return save_model(model->files(), std::string(path));
  });
}
