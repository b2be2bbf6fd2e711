#include "tessera/convert/conversion.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/general_keys.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/gguf/keys.h"
#include "tessera/models/model.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kTokenEmbedding = "token_embd.weight", kOutputLayer = "output.weight";

// Weights of F32 by the ends of their names.
constexpr std::string_view kExactEnds[] = {
    "_norm.weight",        "ffn_gate_inp.weight",        "ffn_gate_inp_shexp.weight", "position_embd.weight",
    "token_types.weight",  "ssm_conv1d.weight",          "shortconv.conv.weight",     "time_mix_first.weight",
    "time_mix_w1.weight",  "time_mix_w2.weight",         "time_mix_decay_w1.weight",  "time_mix_decay_w2.weight",
    "indexer.proj.weight", "time_mix_lerp_fused.weight", "compressor_ape.weight",     "hc_attn_fn.weight",
    "hc_ffn_fn.weight",    "output_hc_fn.weight"};

bool is_float_of_16_or_32_bits(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

// The type of 16 bits that most elements have.
DType main_type_of(std::span<const ConvertedTensor> tensors) {
  int64_t n_f16 = 0, n_bf16 = 0;
  for (const ConvertedTensor& tensor : tensors)
    for (const ConvertedTensor::Part& part : tensor.parts) {
      if (part.view.type == ElementType::f16) n_f16 += part.view.n_elements();
      if (part.view.type == ElementType::bf16) n_bf16 += part.view.n_elements();
    }
  return n_f16 > n_bf16 ? DType::f16 : DType::bf16;
}

// The type of weights that a tensor has in the source; F32 if GGUF does not know its type. Integers are no weights.
DType own_type_of(const ConvertedTensor& tensor) {
  if (tensor.values == ValueChange::integers) return DType::i32;
  if (tensor.parts.empty()) return DType::f32;
  return same_type_in_gguf(tensor.parts[0].view.type).value_or(DType::f32);
}

// The type of tensors that are quantized in the source and stay so, if there are any.
std::optional<FileType> kept_type_of(std::span<const ConvertedTensor> tensors) {
  for (const ConvertedTensor& tensor : tensors)
    if (info(own_type_of(tensor)).is_blocked()) return file_type_of(own_type_of(tensor));
  return std::nullopt;
}

// Whether two tensors have the same values. Reads both in pieces.
bool have_same_bytes(const Checkpoint& checkpoint, const ConvertedTensor::Part& a, const ConvertedTensor::Part& b) {
  if (a.view.type != b.view.type || a.view.shape != b.view.shape || a.factor != b.factor) return false;
  if (a.file == b.file && a.view.offset == b.view.offset && a.view.strides == b.view.strides) return true;
  constexpr int64_t kPiece = int64_t{1} << 20;
  const size_t width = element_bytes(a.view.type);
  std::vector<std::byte> left, right;
  for (int64_t at = 0; at < a.view.n_elements(); at += kPiece) {
    const auto n = to_size(std::min(kPiece, a.view.n_elements() - at));
    left.resize(n * width);
    right.resize(n * width);
    checkpoint.read(a.view, a.file, at, left);
    checkpoint.read(b.view, b.file, at, right);
    checkpoint.forget(a.view, a.file, at, std::ssize(left) / static_cast<int64_t>(width));
    checkpoint.forget(b.view, b.file, at, std::ssize(right) / static_cast<int64_t>(width));
    if (left != right) return false;
  }
  return true;
}

// A tensor that the architecture does not read would be lost when the model runs. Layers that predict further tokens
// are kept for programs that use them.
Result<> require_known_tensors(const ModelFiles& files, const Model& model) {
  std::unordered_set<std::string_view> known;
  for (const Weight& weight : model.weights().weights()) known.insert(weight.tensor.name);
  const int64_t n_layers = model.info().n_layers;
  for (const ModelFiles::Tensor& tensor : files.tensors()) {
    const std::string_view name = tensor.info.name;
    if (!known.contains(name) && layer_of(name) < n_layers && !name.ends_with(".input_scale"))
      return fail(ErrorCode::unsupported, "tensor {}: models of {} have none of this name", name,
                  model.info().architecture);
  }
  return {};
}

}  // namespace

Result<Shape> shape_in_gguf(const ConvertedTensor& tensor) {
  if (tensor.shape.size() > to_size(kMaxRank))
    return fail(ErrorCode::limit, "tensor {}: {} dimensions, limit {}", tensor.name, tensor.shape.size(), kMaxRank);
  Shape shape;
  for (size_t i = 0; i < tensor.shape.size(); ++i) shape.ne[i] = tensor.shape[tensor.shape.size() - 1 - i];
  const auto n_row = checked_mul(shape[0], info(own_type_of(tensor)).block_elements);
  if (!n_row) return fail(ErrorCode::limit, "tensor {}: rows of more than 2^63 values", tensor.name);
  shape[0] = *n_row;
  return shape;
}

DType type_in_gguf(std::string_view name, size_t rank, DType matrices) {
  if (rank <= 1 || !name.ends_with(".weight")) return DType::f32;
  const bool is_exact = std::ranges::any_of(kExactEnds, [&](std::string_view end) { return name.ends_with(end); });
  return is_exact ? DType::f32 : matrices;
}

Result<std::unique_ptr<Conversion>> Conversion::open(const std::string& path, std::optional<FileType> file_type,
                                                     const ConversionOptions& options) {
  TESSERA_ASSIGN(Checkpoint checkpoint, Checkpoint::open(path));
  TESSERA_ASSIGN(HubConfig config, HubConfig::read(checkpoint));
  std::unique_ptr<Conversion> conversion(new Conversion(std::move(checkpoint), std::move(config)));
  Result<> made = conversion->make_header(file_type, options);
  if (!made) {
    const bool names_folder = made.error().message().starts_with(conversion->checkpoint_.folder());
    return names_folder ? forward_error(made) : forward_error(made, conversion->checkpoint_.folder());
  }
  return conversion;
}

Result<> Conversion::make_header(std::optional<FileType> file_type, const ConversionOptions& options) {
  TESSERA_ASSIGN(const ModelClass* const model_class, find_model_class(config_));
  GgufBuilder builder;
  std::vector<ConvertedTensor> tensors;
  ModelDraft draft{checkpoint_, config_, model_class->architecture, builder, tensors};
  if (options.drops_later_layers) draft.later_layers = LaterLayers::dropped;
  TESSERA_TRY(add_general_keys(checkpoint_, model_class->architecture, builder));
  TESSERA_TRY(unpack_tensors(checkpoint_, config_));
  TESSERA_TRY(draft_model(*model_class, checkpoint_.tensors(), draft));
  TESSERA_TRY(untie(tensors, model_class->is_head_tied));
  builder.set(keys::kSizeLabel, size_label(tensors));
  const DType wanted = file_type ? info(*file_type).dtype : main_type_of(tensors);
  is_unquantized_ = is_float_of_16_or_32_bits(wanted);
  const FileType named = kept_type_of(tensors).value_or(file_type.value_or(*file_type_of(wanted)));
  builder.set(keys::kFileType, info(named).id);
  TESSERA_TRY(add_vocabulary(checkpoint_, config_, options.vocabulary, builder, warnings_));
  for (const ConvertedTensor& tensor : tensors) {
    const DType own = own_type_of(tensor), matrices = is_unquantized_ ? wanted : own;
    TESSERA_ASSIGN(const Shape shape, shape_in_gguf(tensor));
    const bool is_fixed = info(own).is_blocked() || own == DType::i32;
    const DType type = is_fixed ? own : type_in_gguf(tensor.name, tensor.shape.size(), matrices);
    TESSERA_TRY(builder.add_tensor(tensor.name, type, shape, static_cast<int>(tensor.shape.size())));
  }
  TESSERA_ASSIGN(header_, builder.header());
  TESSERA_ASSIGN(files_, ModelFiles::parse_header(header_, checkpoint_.folder()));
  rows_ = std::make_unique<ConvertedRows>(checkpoint_, std::move(tensors));
  TESSERA_ASSIGN(const auto model, create_model(*files_, {}));
  return model_class->has_unused_tensors ? Result<>() : require_known_tensors(*files_, *model);
}

// A model whose output layer is the token embedding has one tensor for both.
Result<> Conversion::untie(std::vector<ConvertedTensor>& tensors, bool is_tied_by_class) {
  TESSERA_ASSIGN(const auto is_tied, config_.flag({"tie_word_embeddings"}));
  if (!is_tied.value_or(is_tied_by_class)) return {};
  const auto embedding = std::ranges::find(tensors, kTokenEmbedding, &ConvertedTensor::name);
  const auto output = std::ranges::find(tensors, kOutputLayer, &ConvertedTensor::name);
  if (embedding == tensors.end() || output == tensors.end()) return {};
  if (have_same_bytes(checkpoint_, embedding->parts[0], output->parts[0])) {
    tensors.erase(output);
  } else if (is_tied.value_or(false)) {
    warnings_.push_back(
        "the output layer differs from the token embedding, though tie_word_embeddings says that they "
        "are one: both are written");
  }
  return {};
}

void Conversion::apply_to(QuantizeOptions& options) const {
  options.rows = rows_.get();
  if (is_unquantized_) {
    options.mix.copy_all = true;
    options.program_version.clear();
  }
  options.mix.keep_blocks = true;
}

Result<uint64_t> fingerprint_of(const Conversion& conversion, const QuantizePlan& plan, const QuantizeOptions& options,
                                std::string_view program_version) {
  Fingerprint fingerprint;
  fingerprint.add(program_version);
  for (uint32_t part = 0; part < plan.n_parts; ++part) {
    TESSERA_ASSIGN(const GgufBuilder builder, describe_part(conversion.files(), plan, options, part));
    TESSERA_ASSIGN(const std::vector<std::byte> header, builder.header());
    fingerprint.add(header);
  }
  for (const std::string& path : conversion.checkpoint().paths()) fingerprint.add_file(path);
  // These say how tensors are packed, which the header does not.
  for (const char* name : {"config.json", "hf_quant_config.json"})
    fingerprint.add_file(conversion.checkpoint().folder() + "/" + name);
  fingerprint.add(static_cast<uint64_t>(options.encoder.kind)).add(static_cast<uint64_t>(options.encoder.weighting));
  fingerprint.add(uint64_t{options.checks_copies});
  if (options.imatrix == nullptr) return fingerprint.value();
  for (const auto& [name, entry] : options.imatrix->entries) {
    fingerprint.add(name);
    fingerprint.add(std::as_bytes(std::span(entry.sums))).add(std::as_bytes(std::span(entry.counts)));
  }
  return fingerprint.value();
}

Result<> check_output(const Checkpoint& checkpoint, std::span<const std::string> paths, uint64_t n_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const std::string& path : paths)
    for (const std::string& input : checkpoint.paths())
      if (fs::equivalent(input, path, error))
        return fail(ErrorCode::invalid_argument, "{}: is the input, {}: give another output", path, input);
  fs::path folder = fs::path(paths.front()).parent_path();
  if (folder.empty()) folder = ".";
  const fs::space_info space = fs::space(folder, error);
  if (error) return fail(ErrorCode::io, "{}: {}", folder.string(), error.message());
  if (space.available < n_bytes)
    return fail(ErrorCode::limit, "{}: needs {} bytes, {} are free", paths.front(), n_bytes, space.available);
  return {};
}

uint64_t bytes_of_files(const Checkpoint& checkpoint) {
  uint64_t n = 0;
  for (const std::string& path : checkpoint.paths()) {
    std::error_code error;
    if (const auto size = std::filesystem::file_size(path, error); !error) n += size;
  }
  return n;
}

Result<PartialOutput> open_output(const Conversion& conversion, const QuantizePlan& plan,
                                  const QuantizeOptions& options, const OutputPlan& output) {
  TESSERA_ASSIGN(const uint64_t fingerprint, fingerprint_of(conversion, plan, options, output.program_version));
  TESSERA_ASSIGN(PartialOutput partial, PartialOutput::open(output.path, fingerprint, output.resumes));
  const uint64_t n_wanted = output.n_bytes - std::min(output.n_bytes, partial.n_bytes_found());
  TESSERA_TRY(check_output(conversion.checkpoint(), output_paths(plan, output.path), n_wanted));
  return partial;
}

}  // namespace tessera::convert
