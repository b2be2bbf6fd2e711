// tessera.h: files that are quantized or converted.
#include "tessera/base/counted.h"
#include "tessera/capi/mix.h"
#include "tessera/convert/adapter/lora_settings.h"
#include "tessera/convert/conversion.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_convert_options kConvertDefaults = {};
constexpr uint32_t kConvertFlags =
    TESSERA_CONVERT_CHECK_TENSORS | TESSERA_CONVERT_DROP_LATER | TESSERA_CONVERT_KEYS_FIRST | TESSERA_CONVERT_RESUME;

void log_warnings(tessera_runtime& runtime, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) runtime.log(TESSERA_LOG_WARNING, warning);
}

Result<tessera_written_info> quantize_file(tessera_runtime& runtime, const std::string& input, const char* output,
                                           const capi::Mix& mix, const capi::Progress& progress) {
  std::string path;
  if (!mix.is_plan) {
    TESSERA_ASSIGN(path, capi::require_text(output, "output"));
  }
  if (!mix.type && !mix.options.mix.copy_all && !mix.has_size())
    return fail(ErrorCode::invalid_argument, "type: is NULL: set type, max_bytes or bits_per_value");
  TESSERA_ASSIGN(const auto files, ModelFiles::open(input));
  TESSERA_ASSIGN(auto plan, convert::plan_quantize(*files, mix.options));
  if (!mix.is_plan) TESSERA_TRY(convert::require_other_files(*files, plan, path));
  TESSERA_ASSIGN(const auto threads, capi::create_threads(mix.n_threads, runtime));
  TESSERA_TRY(capi::fit_mix(*files, mix, plan, *threads, progress));
  log_warnings(runtime, convert::warnings_of(plan, mix.options));
  TESSERA_ASSIGN(const uint64_t n_bytes, convert::output_bytes(*files, plan, mix.options));
  // Nothing may fail once the output is there.
  const tessera_written_info info = capi::written_info(*files, plan, convert::bytes_of_files(*files), n_bytes);
  if (!mix.is_plan) {
    const capi::Progress writing = capi::writing_part(mix, progress);
    TESSERA_TRY(convert::write_quantized(*files, plan, mix.options, path, {*threads, progress.cancel(), writing}));
  }
  return info;
}

// A conversion with its options.
struct WantedConversion {
  tessera_convert_options options;
  std::string input;
  convert::ShardLimits limits;

  bool has(uint32_t flag) const { return (options.flags & flag) != 0; }
};

Result<WantedConversion> read_wanted(const char* input, const tessera_convert_options* options) {
  WantedConversion wanted{};
  TESSERA_ASSIGN(wanted.input, capi::require_text(input, "input"));
  TESSERA_ASSIGN(wanted.options, capi::read_sized(options, kConvertDefaults, "options"));
  TESSERA_TRY(capi::require_flags(wanted.options.flags, kConvertFlags));
  wanted.limits = {.max_tensors = wanted.options.max_file_tensors,
                   .max_bytes = wanted.options.max_file_bytes,
                   .is_first_tensorless = wanted.has(TESSERA_CONVERT_KEYS_FIRST)};
  if (wanted.limits.is_first_tensorless && wanted.limits.max_tensors == 0 && wanted.limits.max_bytes == 0)
    return fail(ErrorCode::invalid_argument, "TESSERA_CONVERT_KEYS_FIRST requires max_file_tensors or max_file_bytes");
  return wanted;
}

// Flags for single weights have no meaning where tensors are written as they are.
Result<> require_quantized(const capi::Mix& mix) {
  if (mix.options.keep_split || mix.options.mix.copy_all)
    return fail(ErrorCode::invalid_argument, "mix: COPY and TESSERA_QUANTIZE_KEEP_SPLIT: not for a checkpoint");
  const bool is_quantized = mix.has_size() || (mix.type && info(info(*mix.type).dtype).is_blocked());
  if (mix.chooses_weights() && !is_quantized)
    return fail(ErrorCode::invalid_argument,
                "mix: options for single weights require a quantized type, max_bytes or bits_per_value");
  return {};
}

// The folder with the settings of the model that an adapter is for.
Result<std::string> base_of(const WantedConversion& wanted, const std::string& adapter) {
  if (wanted.options.base != nullptr) return capi::require_text(wanted.options.base, "base");
  const size_t slash = adapter.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : adapter.substr(0, slash + 1);
  TESSERA_ASSIGN(const auto settings, convert::read_lora_settings(folder + std::string(convert::kAdapterConfigFile)));
  if (!settings.base.empty()) return settings.base;
  return fail(ErrorCode::not_found, "{}: names no base model: set base", adapter);
}

Result<std::unique_ptr<convert::Conversion>> open_conversion(const WantedConversion& wanted, const capi::Mix& mix) {
  const auto type = mix.has_size() ? std::optional(mix.type.value_or(convert::FileType::q8_0)) : mix.type;
  if (const auto adapter = convert::find_adapter(wanted.input)) {
    TESSERA_ASSIGN(const std::string base, base_of(wanted, *adapter));
    return convert::Conversion::open_adapter(wanted.input, base, type);
  }
  if (wanted.options.base != nullptr)
    return fail(ErrorCode::invalid_argument, "base: {} is no adapter with adapter_config.json", wanted.input);
  convert::ConversionOptions settings{.drops_later_layers = wanted.has(TESSERA_CONVERT_DROP_LATER)};
  settings.vocabulary.folder = capi::text_or_empty(wanted.options.vocabulary);
  settings.vocabulary.options.pre = capi::text_or_empty(wanted.options.pre);
  return convert::Conversion::open(wanted.input, type, settings);
}

Result<tessera_written_info> convert_files(tessera_runtime& runtime, const WantedConversion& wanted, const char* output,
                                           capi::Mix& mix, const capi::Progress& progress) {
  std::string path = wanted.input;
  if (!mix.is_plan) {
    TESSERA_ASSIGN(path, capi::require_text(output, "output"));
  }
  TESSERA_TRY(require_quantized(mix));
  TESSERA_ASSIGN(const auto conversion, open_conversion(wanted, mix));
  convert::QuantizeOptions& options = mix.options;
  options.checks_copies = wanted.has(TESSERA_CONVERT_CHECK_TENSORS);
  conversion->apply_to(options);
  const ModelFiles& files = conversion->files();
  TESSERA_ASSIGN(auto plan, convert::plan_quantize(files, options));
  TESSERA_ASSIGN(const auto threads, capi::create_threads(mix.n_threads, runtime));
  TESSERA_TRY(capi::fit_mix(files, mix, plan, *threads, progress));
  if (wanted.limits.max_tensors > 0 || wanted.limits.max_bytes > 0)
    TESSERA_TRY(convert::split_output(plan, path, wanted.limits));
  log_warnings(runtime, conversion->warnings());
  if (!conversion->is_unquantized()) log_warnings(runtime, convert::warnings_of(plan, options));
  TESSERA_ASSIGN(const uint64_t n_bytes, convert::output_bytes(files, plan, options));
  // Nothing may fail once the output is there.
  const tessera_written_info info =
      capi::written_info(files, plan, convert::bytes_of_files(conversion->checkpoint()), n_bytes);
  if (!mix.is_plan) {
    TESSERA_ASSIGN(auto partial, convert::open_output(*conversion, plan, options,
                                                      {.path = path,
                                                       .n_bytes = n_bytes,
                                                       .resumes = wanted.has(TESSERA_CONVERT_RESUME),
                                                       .program_version = TESSERA_ENGINE_VERSION}));
    const capi::Progress writing = capi::writing_part(mix, progress);
    TESSERA_TRY(convert::write_quantized(files, plan, options, path, {*threads, progress.cancel(), writing, &partial}));
    if (const uint64_t n = conversion->rows().n_overflows(); n > 0)
      runtime.log(TESSERA_LOG_WARNING, counted(n, "value") + " too large for F16: infinite in the output");
  }
  return info;
}

}  // namespace

tessera_status tessera_quantize(tessera_runtime* runtime, const char* input, const char* output,
                                const tessera_quantize_options* options, tessera_progress_function progress, void* user,
                                tessera_cancel* cancel, tessera_written_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_ASSIGN(const std::string from, capi::require_text(input, "input"));
    TESSERA_ASSIGN(const auto shown, capi::progress_of(progress, user, cancel));
    TESSERA_TRY(capi::require_info(info));
    capi::Mix mix;
    TESSERA_TRY(capi::read_mix(options, mix));
    TESSERA_ASSIGN(const auto written, quantize_file(*runtime, from, output, mix, shown));
    capi::write_info(info, written);
    return {};
  });
}

void tessera_convert_options_init(tessera_convert_options* options, size_t size) {
  capi::write_sized(options, size, kConvertDefaults);
}

tessera_status tessera_convert(tessera_runtime* runtime, const char* input, const char* output,
                               const tessera_convert_options* options, tessera_progress_function progress, void* user,
                               tessera_cancel* cancel, tessera_written_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_ASSIGN(const WantedConversion wanted, read_wanted(input, options));
    TESSERA_ASSIGN(const auto shown, capi::progress_of(progress, user, cancel));
    TESSERA_TRY(capi::require_info(info));
    capi::Mix mix;
    TESSERA_TRY(capi::read_mix(wanted.options.mix, mix));
    TESSERA_ASSIGN(const auto written, convert_files(*runtime, wanted, output, mix, shown));
    capi::write_info(info, written);
    return {};
  });
}
