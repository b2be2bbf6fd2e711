// The plan of a quantization: types, sizes, keys and warnings.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tessera/base/checked.h"
#include "tessera/base/counted.h"
#include "tessera/convert/mix_rules.h"
#include "tessera/convert/quantize.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/printable.h"
#include "tessera/quant/formats.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kQuantizationVersion = 2;
constexpr size_t kMaxRecordBytes = 127;  // for texts about the importance matrix, truncated as in llama-quantize

// The order of the output, on which the counters of the rules depend: by layer, then by name.
std::vector<PlannedTensor> in_order(const ModelFiles& files, bool keep_parts) {
  std::vector<PlannedTensor> tensors;
  for (const ModelFiles::Tensor& tensor : files.tensors())
    tensors.push_back({.source = tensor, .part = keep_parts ? tensor.file : 0});
  std::ranges::sort(tensors, [&](const PlannedTensor& a, const PlannedTensor& b) {
    const GgufTensor &x = a.source.info, &y = b.source.info;
    if (keep_parts) return std::tie(a.part, x.data_offset) < std::tie(b.part, y.data_offset);
    return std::tuple(layer_of(x.name), x.name) < std::tuple(layer_of(y.name), y.name);
  });
  return tensors;
}

bool uses_imatrix(const PlannedTensor& tensor) { return !tensor.is_copied() && info(tensor.to).is_blocked(); }

// Detects a matrix of another model before any work is done.
Result<> check_imatrix(const QuantizePlan& plan, const Imatrix& imatrix) {
  if (imatrix.entries.empty()) return {};
  bool names_any = false;
  for (const PlannedTensor& tensor : plan.tensors) {
    names_any |= imatrix.entries.contains(tensor.source.info.name);
    if (!uses_imatrix(tensor)) continue;
    const auto found = importance_of(&imatrix, tensor.source.info);
    if (!found) return std::unexpected(found.error());
  }
  if (names_any) return {};
  return fail(ErrorCode::mismatch, "none of the {} weights in the importance matrix is in the model, e.g. {}",
              imatrix.entries.size(), quote_name(imatrix.entries.begin()->first));
}

}  // namespace

uint64_t QuantizePlan::n_bytes_before() const {
  uint64_t sum = 0;
  for (const PlannedTensor& tensor : tensors) sum += tensor.source.info.n_bytes;
  return sum;
}

uint64_t QuantizePlan::n_bytes_after() const {
  uint64_t sum = 0;
  for (const PlannedTensor& tensor : tensors) sum += tensor.n_bytes;
  return sum;
}

Result<QuantizePlan> plan_quantize(const ModelFiles& files, const QuantizeOptions& options) {
  QuantizePlan plan;
  const auto n_files = static_cast<uint32_t>(files.files().size());
  const bool keep_parts = options.keep_split && n_files > 1;
  if (keep_parts) plan.n_parts = n_files;
  plan.tensors = in_order(files, keep_parts);
  std::vector<MixTensor> tensors;
  for (const PlannedTensor& tensor : plan.tensors)
    tensors.push_back({tensor.source.info.name, tensor.source.info.dtype, tensor.source.info.shape});
  Result<MixModel> model = MixModel::read(files.metadata(), tensors);
  if (!model) return forward_error(model);
  const std::vector<MixChoice> choices = choose_types(tensors, *model, options.mix);
  for (size_t i = 0; i < choices.size(); ++i) {
    PlannedTensor& tensor = plan.tensors[i];
    tensor.to = choices[i].dtype;
    tensor.reason = choices[i].reason;
    TESSERA_ASSIGN(tensor.n_bytes, nbytes(tensor.to, tensor.source.info.shape));
  }
  if (!options.mix.copy_all) plan.file_type = options.mix.file_type;
  if (options.imatrix != nullptr) {
    Result<> fits = check_imatrix(plan, *options.imatrix);
    if (!fits) return forward_error(fits, options.imatrix_path);
  }
  return plan;
}

Result<> split_output(QuantizePlan& plan, const std::string& name, const ShardLimits& limits) {
  std::vector<uint64_t> tensor_bytes;
  for (const PlannedTensor& tensor : plan.tensors) tensor_bytes.push_back(tensor.n_bytes);
  TESSERA_ASSIGN(const std::vector<Shard> shards, plan_shards(tensor_bytes, name, limits));
  plan.n_parts = static_cast<uint32_t>(shards.size());
  for (uint32_t part = 0; part < plan.n_parts; ++part)
    for (size_t i = 0; i < shards[part].n_tensors; ++i) plan.tensors[shards[part].first_tensor + i].part = part;
  return {};
}

std::vector<std::string> warnings_of(const QuantizePlan& plan, const QuantizeOptions& options) {
  size_t n_again = 0, n_fallback = 0, n_unweighted = 0, n_wanting = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.reason == MixReason::fallback) ++n_fallback;
    if (tensor.is_copied()) continue;
    const std::string_view name = tensor.source.info.name;
    if (info(tensor.source.info.dtype).is_blocked()) ++n_again;
    if (!uses_imatrix(tensor)) continue;
    const bool has_entry = options.imatrix != nullptr && options.imatrix->entries.contains(name);
    if (options.imatrix != nullptr && !has_entry) ++n_unweighted;
    if (!has_entry && wants_imatrix(name, tensor.to, options.mix.file_type)) ++n_wanting;
  }
  std::vector<std::string> warnings;
  if (n_again > 0)
    warnings.push_back(counted(n_again, "tensor") + " quantized before: quantizing again from the original loses less");
  if (n_fallback > 0)
    warnings.push_back(counted(n_fallback, "tensor") +
                       " whose rows are no whole blocks of the wanted type: a fallback is used");
  if (n_unweighted > 0)
    warnings.push_back(counted(n_unweighted, "tensor") +
                       " without an entry in the importance matrix: quantized unweighted");
  if (n_wanting > 0)
    warnings.push_back(counted(n_wanting, "tensor") +
                       " of types that are poor without an importance matrix (option imatrix)");
  return warnings;
}

Result<GgufBuilder> describe_part(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options,
                                  uint32_t part) {
  GgufBuilder builder;
  if (part == 0 || options.keep_split) {
    const GgufFile& source = *files.files()[part];
    Result<> copied = builder.set_all(source.metadata());
    if (!copied) return forward_error(copied, source.name());
  }
  if (part == 0) {
    if (plan.file_type) builder.set(keys::kFileType, info(*plan.file_type).id);
    builder.set(keys::kQuantizationVersion, kQuantizationVersion);
    if (!options.program_version.empty()) builder.set("quantize.tessera.version", options.program_version);
    if (const Imatrix* imatrix = options.imatrix; imatrix != nullptr) {
      builder.set("quantize.imatrix.file", options.imatrix_path.substr(0, kMaxRecordBytes));
      if (!imatrix->datasets.empty())
        builder.set("quantize.imatrix.dataset", imatrix->datasets.front().substr(0, kMaxRecordBytes));
      builder.set("quantize.imatrix.entries_count", static_cast<uint32_t>(imatrix->entries.size()));
      builder.set("quantize.imatrix.chunks_count", imatrix->n_chunks);
    }
  }
  if (plan.n_parts == 1) {
    for (const std::string_view key : {keys::kSplitNo, keys::kSplitCount, keys::kSplitTensorsCount})
      builder.remove(key);
  } else {
    builder.set(keys::kSplitNo, static_cast<uint16_t>(part));
    builder.set(keys::kSplitCount, static_cast<uint16_t>(plan.n_parts));
    builder.set(keys::kSplitTensorsCount, static_cast<int32_t>(plan.tensors.size()));
  }
  for (const PlannedTensor& tensor : plan.tensors) {
    const GgufTensor& source_tensor = tensor.source.info;
    if (tensor.part == part)
      TESSERA_TRY(builder.add_tensor(source_tensor.name, tensor.to, source_tensor.shape, source_tensor.rank));
  }
  return builder;
}

Result<uint64_t> output_bytes(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options) {
  uint64_t sum = 0;
  for (uint32_t part = 0; part < plan.n_parts; ++part) {
    TESSERA_ASSIGN(const GgufBuilder builder, describe_part(files, plan, options, part));
    TESSERA_ASSIGN(const std::vector<std::byte> header, builder.header());
    sum += header.size();
  }
  for (const PlannedTensor& tensor : plan.tensors) sum += round_up(tensor.n_bytes, kGgufDefaultAlignment);
  return sum;
}

std::vector<std::string> output_paths(const QuantizePlan& plan, const std::string& path) {
  if (plan.n_parts == 1) return {path};
  std::string prefix = path;
  constexpr std::string_view kEnding = ".gguf";
  if (const auto name = parse_split_path(path))
    prefix = name->prefix;
  else if (path.ends_with(kEnding))
    prefix.resize(path.size() - kEnding.size());
  std::vector<std::string> paths;
  for (uint32_t part = 0; part < plan.n_parts; ++part) paths.push_back(split_path(prefix, part, plan.n_parts));
  return paths;
}

Result<TensorImportance> importance_of(const Imatrix* imatrix, const GgufTensor& tensor) {
  if (imatrix == nullptr) return TensorImportance();
  const auto entry = imatrix->entries.find(tensor.name);
  if (entry == imatrix->entries.end()) return TensorImportance();
  return TensorImportance::of(entry->second, tensor.name, tensor.shape);
}

const quant::Format* find_decoder(DType dtype) { return quant::find_format(dtype); }

const quant::Format* find_encoder(DType dtype, const EncoderOptions& options) {
  const quant::Format* format = find_decoder(dtype);
  if (format == nullptr) return nullptr;
  const bool is_there = options.kind == EncoderKind::compatible ? format->quantize_row_compat != nullptr
                                                                : format->quantize_row != nullptr;
  return is_there ? format : nullptr;
}

Error to_error(const RowFault& fault, const ModelFiles& files, const PlannedTensor& tensor, int64_t i) {
  const GgufTensor& source = tensor.source.info;
  const std::string where = fmt::format("{}: tensor {}: element {}", files.files()[tensor.source.file]->name(),
                                        quote_name(source.name), i * source.shape[0] + fault.column);
  if (fault.kind == RowFault::Kind::source)
    return {ErrorCode::format, fmt::format("{} is {}, want a finite number", where, fault.value)};
  return {ErrorCode::limit,
          fmt::format("{} is {}, which passes the range of {}", where, fault.value, info(tensor.to).name)};
}

}  // namespace tessera::convert
