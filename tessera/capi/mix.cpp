#include "tessera/capi/mix.h"

#include "tessera/convert/fit_size.h"
#include "tessera/gguf/weight_facts.h"

namespace tessera::capi {

namespace {

constexpr tessera_quantize_options kQuantizeDefaults = {};
constexpr uint32_t kQuantizeFlags = TESSERA_QUANTIZE_PLAN | TESSERA_QUANTIZE_PURE | TESSERA_QUANTIZE_KEEP_OUTPUT |
                                    TESSERA_QUANTIZE_KEEP_SPLIT | TESSERA_QUANTIZE_MAGNITUDE |
                                    TESSERA_QUANTIZE_COMPATIBLE;
constexpr float kMostBits = 32;
constexpr float kMeasuringShare = 0.5f;  // of the progress, where types are found for a size

Result<DType> weight_type(std::string_view text, std::string_view name) {
  if (const auto type = convert::weight_type_from_name(text)) return *type;
  return fail(ErrorCode::invalid_argument, "{}: '{}' is not a type of weights, such as q6_K", name, text);
}

Result<std::optional<DType>> weight_type_or_none(const char* text, std::string_view name) {
  if (text == nullptr) return std::nullopt;
  TESSERA_ASSIGN(const DType type, weight_type(text, name));
  return type;
}

Result<convert::TensorTypeRule> tensor_rule(const std::string& line) {
  const size_t equals = line.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return fail(ErrorCode::invalid_argument, "tensor_types: '{}': want REGEX=TYPE, such as attn_v=q8_0", line);
  TESSERA_ASSIGN(const DType type, weight_type(std::string_view(line).substr(equals + 1), "tensor_types"));
  auto pattern = TensorPattern::compile(std::string_view(line).substr(0, equals));
  if (!pattern) return forward_error(pattern, "tensor_types");
  return convert::TensorTypeRule{std::move(*pattern), type};
}

Result<> read_types(const tessera_quantize_options& wanted, Mix& mix) {
  convert::MixOptions& to = mix.options.mix;
  if (const std::string type = text_or_empty(wanted.type); type == "COPY") {
    to.copy_all = true;
  } else if (!type.empty()) {
    mix.type = convert::file_type_from_name(type);
    if (!mix.type)
      return fail(ErrorCode::invalid_argument, "type: '{}' is not a type of files, such as Q4_K_M or COPY", type);
    to.file_type = *mix.type;
  }
  for (const std::string& line : split_names(text_or_empty(wanted.tensor_types), '\n')) {
    TESSERA_ASSIGN(convert::TensorTypeRule rule, tensor_rule(line));
    to.tensor_types.push_back(std::move(rule));
  }
  TESSERA_ASSIGN(to.output_type, weight_type_or_none(wanted.output_type, "output_type"));
  TESSERA_ASSIGN(to.embedding_type, weight_type_or_none(wanted.embedding_type, "embedding_type"));
  to.pure = (wanted.flags & TESSERA_QUANTIZE_PURE) != 0;
  to.keep_output = (wanted.flags & TESSERA_QUANTIZE_KEEP_OUTPUT) != 0;
  return {};
}

Result<> read_size(const tessera_quantize_options& wanted, Mix& mix) {
  if (!(wanted.bits_per_value >= 0) || wanted.bits_per_value > kMostBits)
    return fail(ErrorCode::invalid_argument, "bits_per_value: {}, want 0 to {}", wanted.bits_per_value, kMostBits);
  mix.max_bytes = wanted.max_bytes;
  mix.bits_per_value = double{wanted.bits_per_value};
  if (mix.max_bytes > 0 && mix.bits_per_value > 0)
    return fail(ErrorCode::invalid_argument, "max_bytes and bits_per_value: set one of them");
  if (mix.has_size() && (mix.options.mix.pure || mix.options.mix.copy_all))
    return fail(ErrorCode::invalid_argument,
                "max_bytes and bits_per_value choose a type for each tensor: not together with COPY and "
                "TESSERA_QUANTIZE_PURE");
  return {};
}

Result<> read_importance(const tessera_quantize_options& wanted, Mix& mix) {
  const convert::ImatrixFilter filter{.include = split_names(text_or_empty(wanted.importance), ','),
                                      .exclude = split_names(text_or_empty(wanted.unimportant), ',')};
  if (!filter.include.empty() && !filter.exclude.empty())
    return fail(ErrorCode::invalid_argument, "importance and unimportant: set one of them");
  mix.options.imatrix_path = text_or_empty(wanted.imatrix);
  mix.options.mix.has_imatrix = !mix.options.imatrix_path.empty();
  if (!mix.options.mix.has_imatrix) {
    if (filter.include.empty() && filter.exclude.empty()) return {};
    return fail(ErrorCode::invalid_argument, "importance and unimportant require imatrix");
  }
  TESSERA_ASSIGN(mix.imatrix, convert::Imatrix::load(mix.options.imatrix_path));
  convert::apply(filter, mix.imatrix);
  mix.options.imatrix = &mix.imatrix;
  return {};
}

}  // namespace

bool Mix::chooses_weights() const {
  const convert::MixOptions& of = options.mix;
  return of.has_imatrix || of.pure || of.keep_output || of.output_type || of.embedding_type || !of.tensor_types.empty();
}

Result<> read_mix(const tessera_quantize_options* options, Mix& mix) {
  TESSERA_ASSIGN(const auto wanted, read_sized(options, kQuantizeDefaults, "options"));
  TESSERA_TRY(require_flags(wanted.flags, kQuantizeFlags));
  mix.is_plan = (wanted.flags & TESSERA_QUANTIZE_PLAN) != 0;
  mix.n_threads = wanted.n_threads;
  mix.options.keep_split = (wanted.flags & TESSERA_QUANTIZE_KEEP_SPLIT) != 0;
  mix.options.program_version = TESSERA_ENGINE_VERSION;
  if ((wanted.flags & TESSERA_QUANTIZE_MAGNITUDE) != 0) mix.options.encoder.weighting = convert::Weighting::magnitude;
  if ((wanted.flags & TESSERA_QUANTIZE_COMPATIBLE) != 0) mix.options.encoder.kind = convert::EncoderKind::compatible;
  TESSERA_TRY(read_types(wanted, mix));
  TESSERA_TRY(read_size(wanted, mix));
  return read_importance(wanted, mix);
}

Result<> fit_mix(const ModelFiles& files, const Mix& mix, convert::QuantizePlan& plan, ThreadPool& threads,
                 const Progress& progress) {
  if (!mix.has_size()) return {};
  const uint64_t max_bytes = mix.max_bytes > 0 ? mix.max_bytes : convert::bytes_of_bits(mix.bits_per_value, files);
  const Progress measuring = progress.part(0, mix.is_plan ? 1 : kMeasuringShare);
  TESSERA_TRY(convert::fit_size(files, plan, mix.options, max_bytes, {threads, progress.cancel(), measuring}));
  if (mix.type) plan.file_type = mix.type;
  return {};
}

Progress writing_part(const Mix& mix, const Progress& progress) {
  return progress.part(mix.has_size() ? kMeasuringShare : 0, 1);
}

tessera_written_info written_info(const ModelFiles& files, const convert::QuantizePlan& plan, uint64_t n_bytes_before,
                                  uint64_t n_bytes) {
  tessera_written_info info{};
  info.n_files = plan.n_parts;
  info.n_tensors = plan.tensors.size();
  info.n_values = count_parameters(files);
  info.n_bytes_before = n_bytes_before;
  info.n_bytes = n_bytes;
  const auto type = plan.file_type ? plan.file_type : convert::recorded_type(files);
  if (type) copy_text(convert::info(*type).name, info.type);
  return info;
}

}  // namespace tessera::capi

void tessera_quantize_options_init(tessera_quantize_options* options, size_t size) {
  tessera::capi::write_sized(options, size, tessera::capi::kQuantizeDefaults);
}
