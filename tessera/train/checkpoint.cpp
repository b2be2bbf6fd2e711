#include "tessera/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "tessera/base/function_ref.h"
#include "tessera/base/half.h"
#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/writer.h"

namespace tessera::train {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kVersion = 1;
constexpr std::string_view kVersionKey = "tessera.train.version", kStepsKey = "tessera.train.steps",
                           kWindowsKey = "tessera.train.windows", kModelKey = "tessera.train.model",
                           kDataKey = "tessera.train.data", kOptimizerKey = "tessera.train.optimizer",
                           kFirstLossKey = "tessera.train.first_loss", kMeanLossKey = "tessera.train.mean_loss",
                           kBestLossKey = "tessera.train.best_loss", kBadStepsKey = "tessera.train.bad_steps";
constexpr std::string_view kStateKeys[] = {kVersionKey,   kStepsKey,     kWindowsKey,  kModelKey,    kDataKey,
                                           kOptimizerKey, kFirstLossKey, kMeanLossKey, kBestLossKey, kBadStepsKey};

// GGUF's general.file_type.
uint32_t file_type_of(DType type) {
  constexpr uint32_t kF32 = 0, kF16 = 1, kBf16 = 32;
  if (type == DType::f16) return kF16;
  return type == DType::bf16 ? kBf16 : kF32;
}

void set_adapter_keys(GgufBuilder& builder, const Trainer& trainer) {
  builder.set(keys::kArchitecture, trainer.model().info().architecture);
  builder.set(keys::kType, "adapter");
  builder.set(keys::kAdapterType, "lora");
  builder.set(keys::kAdapterLoraAlpha, trainer.options().lora->options().alpha);
}

Result<> set_model_keys(GgufBuilder& builder, const ModelFiles& files, DType type) {
  TESSERA_TRY(builder.set_all(files.metadata()));
  for (const std::string_view key : {keys::kSplitNo, keys::kSplitCount, keys::kSplitTensorsCount}) builder.remove(key);
  for (const std::string_view key : kStateKeys) builder.remove(key);
  builder.set(keys::kFileType, file_type_of(type));
  return {};
}

std::vector<std::byte> encoded(const std::vector<float>& values, DType type) {
  std::vector<std::byte> bytes(values.size() * (type == DType::f32 ? sizeof(float) : sizeof(uint16_t)));
  if (type == DType::f32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  std::vector<uint16_t> halves(values.size());
  std::ranges::transform(values, halves.begin(), type == DType::f16 ? f32_to_f16 : f32_to_bf16);
  std::memcpy(bytes.data(), halves.data(), bytes.size());
  return bytes;
}

// The tensors of a file to be written: learned tensors are converted to a type, others are copied from their file.
class TensorList {
 public:
  explicit TensorList(const ModelFiles& files) : files_(files) {}

  void add(const Tensor& values, DType type) { entries_.push_back({values.name, values.shape(), &values, type}); }
  void add(const ModelFiles::Tensor& source) {
    entries_.push_back({std::string(source.info.name), source.info.shape, nullptr, source.info.dtype, &source});
  }

  // Calls `before_it_appears` when the file is complete, before it replaces the file at `path`.
  Result<> write(const std::string& path, GgufBuilder& builder, FunctionRef<Result<>()> before_it_appears) const {
    for (const Entry& entry : entries_) TESSERA_TRY(builder.add_tensor(entry.name, entry.type, entry.shape));
    TESSERA_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
    for (const Entry& entry : entries_) {
      if (entry.source != nullptr) {
        TESSERA_TRY(writer.write_tensor(entry.name, files_.data(*entry.source)));
        continue;
      }
      TESSERA_ASSIGN(const std::vector<float> values, Parameters::get_values(*entry.values));
      TESSERA_TRY(writer.write_tensor(entry.name, encoded(values, entry.type)));
    }
    TESSERA_TRY(before_it_appears());
    return writer.finish();
  }

 private:
  struct Entry {
    std::string name;
    Shape shape;
    const Tensor* values;
    DType type;
    const ModelFiles::Tensor* source = nullptr;
  };
  const ModelFiles& files_;
  std::vector<Entry> entries_;
};

// Whether the model is a checkpoint and the tensor is part of the state of its training, not of the model.
bool is_of_earlier_training(const ModelFiles& files, std::string_view name) {
  return files.metadata().find(kVersionKey) != nullptr &&
         (name.ends_with(kMoment1Ending) || name.ends_with(kMoment2Ending));
}

// Adds all tensors of the model. Learned matrices are stored as `type`.
void add_model(TensorList& list, const ModelFiles& files, const Trainer& trainer, DType type) {
  std::unordered_map<std::string_view, const Parameter*> learned;
  for (const Parameter& p : trainer.parameters().all()) learned[p.name()] = &p;
  const auto add = [&](const Parameter& p) { list.add(p.values(), p.shape()[1] > 1 ? type : DType::f32); };
  for (const ModelFiles::Tensor& tensor : files.tensors()) {
    if (is_of_earlier_training(files, tensor.info.name)) continue;
    const auto found = learned.find(tensor.info.name);
    if (found == learned.end())
      list.add(tensor);
    else
      add(*found->second);
  }
  if (files.is_blueprint())
    for (const Parameter& p : trainer.parameters().all()) add(p);
}

// Adds the result of training with its keys: the adapter if there is one, else the model.
Result<> add_learned(GgufBuilder& builder, TensorList& list, const ModelFiles& files, const Trainer& trainer,
                     DType type) {
  if (trainer.options().lora != nullptr) {
    set_adapter_keys(builder, trainer);
    for (const Parameter& p : trainer.parameters().all()) list.add(p.values(), DType::f32);
    return {};
  }
  TESSERA_TRY(set_model_keys(builder, files, type));
  add_model(list, files, trainer, type);
  return {};
}

std::string kept_path(const std::string& path, int64_t i) { return fmt::format("{}.{}", path, i); }

// Renames PATH.1 to PATH.2 and so on, and links PATH.1 to PATH. PATH stays until the new checkpoint replaces it.
Result<> keep_earlier(const std::string& path, int64_t n_keep) {
  std::error_code error;
  if (n_keep < 1 || !fs::exists(path, error)) return {};
  for (int64_t i = n_keep - 1; i >= 1; --i)
    if (fs::exists(kept_path(path, i), error)) fs::rename(kept_path(path, i), kept_path(path, i + 1), error);
  fs::remove(kept_path(path, 1), error);
  fs::create_hard_link(path, kept_path(path, 1), error);
  if (error) return fail(ErrorCode::io, "{}: cannot keep the checkpoint: {}", kept_path(path, 1), error.message());
  return {};
}

Result<> fill(const ModelFiles& files, const std::string& name, const Shape& shape, std::vector<float>& values) {
  const ModelFiles::Tensor* source = files.find_tensor(name);
  if (source == nullptr)
    return fail(ErrorCode::mismatch, "{}: no tensor {}: a checkpoint of another training", files.name(), name);
  if (source->info.dtype != DType::f32 || source->info.shape != shape)
    return fail(ErrorCode::mismatch, "{}: tensor {} is {} {}, want f32 {}", files.name(), name,
                info(source->info.dtype).name, to_string(source->info.shape), to_string(shape));
  values.resize(to_size(shape.n_elements()));
  std::memcpy(values.data(), files.data(*source).data(), values.size() * sizeof(float));
  return {};
}

}  // namespace

uint64_t model_fingerprint(const ModelFiles& files, const Parameters& parameters) {
  constexpr size_t kSample = 64;
  Hash64 hash;
  for (const Metadata::Entry& entry : files.metadata().entries()) hash.add(entry.key).add(entry.value.bytes());
  for (const ModelFiles::Tensor& tensor : files.tensors()) {
    const std::span<const std::byte> data = files.data(tensor);
    hash.add(tensor.info.name).add(data.first(std::min(kSample, data.size())));
  }
  for (const Parameter& p : parameters.all()) {
    hash.add(p.name());
    for (const int64_t extent : p.shape().ne) hash.add(static_cast<uint64_t>(extent));
  }
  return hash.value();
}

Result<> save_checkpoint(const std::string& path, const ModelFiles& files, const Trainer& trainer,
                         const RunIdentity& identity, const RunState& state, int64_t n_keep) {
  GgufBuilder builder;
  TensorList list(files);
  TESSERA_TRY(add_learned(builder, list, files, trainer, DType::f32));
  for (const Parameter& p : trainer.parameters().all()) {
    list.add(p.moment1, DType::f32);
    if (n_moments(p.rule) > 1) list.add(p.moment2, DType::f32);
  }
  builder.set(kVersionKey, kVersion);
  builder.set(kModelKey, identity.model);
  builder.set(kDataKey, identity.data);
  builder.set(kOptimizerKey, to_string(trainer.options().optimizer.kind));
  builder.set(kStepsKey, state.n_steps);
  builder.set(kWindowsKey, state.n_windows);
  builder.set(kFirstLossKey, state.first_loss);
  builder.set(kMeanLossKey, state.mean_loss);
  builder.set(kBestLossKey, state.best_loss);
  builder.set(kBadStepsKey, state.n_bad_steps);
  return list.write(path, builder, [&] { return keep_earlier(path, n_keep); });
}

Result<RunState> load_checkpoint(const std::string& path, Trainer& trainer, const RunIdentity& identity) {
  TESSERA_ASSIGN(const auto files, ModelFiles::open(path));
  const Metadata& metadata = files->metadata();
  if (metadata.find(kVersionKey) == nullptr)
    return fail(ErrorCode::format, "{}: no checkpoint of a training (no key {})", path, kVersionKey);
  TESSERA_ASSIGN(const auto version, metadata.get<uint32_t>(kVersionKey));
  if (version != kVersion) return fail(ErrorCode::unsupported, "{}: version {}, want {}", path, version, kVersion);
  TESSERA_ASSIGN(const auto model, metadata.get<uint64_t>(kModelKey));
  if (model != identity.model)
    return fail(ErrorCode::mismatch, "{}: a checkpoint of another model, or of other weights of it", path);
  TESSERA_ASSIGN(const auto data, metadata.get<uint64_t>(kDataKey));
  if (data != identity.data)
    return fail(
        ErrorCode::mismatch,
        "{}: a checkpoint of training on another text, or with another context (option n_ctx) or seed (option seed)",
        path);
  TESSERA_ASSIGN(const auto optimizer, metadata.get<std::string_view>(kOptimizerKey));
  if (optimizer != to_string(trainer.options().optimizer.kind))
    return fail(ErrorCode::mismatch, "{}: a checkpoint of optimizer {}, not {}", path, optimizer,
                to_string(trainer.options().optimizer.kind));
  RunState state;
  TESSERA_ASSIGN(state.n_steps, metadata.get<int64_t>(kStepsKey));
  TESSERA_ASSIGN(state.n_windows, metadata.get<uint64_t>(kWindowsKey));
  TESSERA_ASSIGN(state.first_loss, metadata.get<double>(kFirstLossKey));
  TESSERA_ASSIGN(state.mean_loss, metadata.get<double>(kMeanLossKey));
  TESSERA_ASSIGN(state.best_loss, metadata.get<double>(kBestLossKey));
  TESSERA_ASSIGN(state.n_bad_steps, metadata.get<int64_t>(kBadStepsKey));
  if (state.n_steps < 0) return fail(ErrorCode::format, "{}: key {} is {}", path, kStepsKey, state.n_steps);
  std::vector<float> values;
  for (Parameter& p : trainer.parameters().all()) {
    TESSERA_TRY(fill(*files, p.name(), p.shape(), values));
    TESSERA_TRY(Parameters::set_values(p, values));
    TESSERA_TRY(fill(*files, p.moment1.name, p.shape(), values));
    TESSERA_TRY(p.moment1.buffer->set(p.moment1, 0, std::as_bytes(std::span(values))));
    if (n_moments(p.rule) < 2) continue;
    TESSERA_TRY(fill(*files, p.moment2.name, p.shape(), values));
    TESSERA_TRY(p.moment2.buffer->set(p.moment2, 0, std::as_bytes(std::span(values))));
  }
  return state;
}

Result<> write_trained(const std::string& path, const ModelFiles& files, const Trainer& trainer, DType type) {
  GgufBuilder builder;
  TensorList list(files);
  TESSERA_TRY(add_learned(builder, list, files, trainer, type));
  return list.write(path, builder, [] { return Result<>{}; });
}

}  // namespace tessera::train
