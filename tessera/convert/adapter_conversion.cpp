// Conversions of LoRA adapters: the header of an adapter file, whose rows are read as those of a model.
#include <algorithm>
#include <utility>

#include "tessera/convert/adapter/lora_tensors.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/conversion.h"
#include "tessera/convert/general_keys.h"
#include "tessera/gguf/keys.h"

namespace tessera::convert {

namespace {

// The type of all matrices, if GGUF has it for single numbers.
DType adapter_type_of(std::span<const ConvertedTensor> tensors) {
  const auto type_of = [](const ConvertedTensor& tensor) { return same_type_in_gguf(tensor.parts[0].view.type); };
  const auto first = type_of(tensors[0]);
  const bool is_one =
      std::ranges::all_of(tensors, [&](const ConvertedTensor& tensor) { return type_of(tensor) == first; });
  const bool is_short = first == DType::f16 || first == DType::bf16;
  return is_one && is_short ? *first : DType::f32;
}

}  // namespace

Result<std::unique_ptr<Conversion>> Conversion::open_adapter(const std::string& path, const std::string& base,
                                                             std::optional<FileType> file_type) {
  const std::optional<std::string> file = find_adapter(path);
  if (!file) return fail(ErrorCode::not_found, "{}: no adapter: want adapter_config.json and adapter_model.*", path);
  TESSERA_ASSIGN(Checkpoint adapter, Checkpoint::open(*file));
  TESSERA_ASSIGN(HubConfig config, HubConfig::read(base));
  std::unique_ptr<Conversion> conversion(new Conversion(std::move(adapter), std::move(config)));
  Result<> made = conversion->make_adapter_header(file_type);
  if (made) return conversion;
  const std::string message(made.error().message());
  const bool names_file = message.starts_with(conversion->checkpoint_.folder()) || message.starts_with(base);
  return names_file ? forward_error(made) : forward_error(made, *file);
}

Result<> Conversion::make_adapter_header(std::optional<FileType> file_type) {
  if (file_type && info(info(*file_type).dtype).is_blocked())
    return fail(ErrorCode::invalid_argument, "adapters have the type F32, F16 or BF16, not {}", info(*file_type).name);
  TESSERA_ASSIGN(const LoraSettings settings, read_lora_settings(checkpoint_.folder() + "/" + kAdapterConfigFile));
  TESSERA_ASSIGN(const ModelClass* const model_class, find_model_class(config_));
  TESSERA_ASSIGN(LoraDraft draft, draft_lora(checkpoint_, settings, *model_class, config_));
  GgufBuilder builder;
  TESSERA_TRY(add_general_keys(checkpoint_, model_class->architecture, builder));
  builder.set(keys::kType, "adapter");
  builder.set(keys::kAdapterType, "lora");
  builder.set(keys::kAdapterLoraAlpha, draft.alpha);
  const DType type = file_type ? info(*file_type).dtype : adapter_type_of(draft.tensors);
  builder.set(keys::kFileType, info(*file_type_of(type)).id);
  for (const ConvertedTensor& tensor : draft.tensors) {
    TESSERA_ASSIGN(const Shape shape, shape_in_gguf(tensor));
    TESSERA_TRY(builder.add_tensor(tensor.name, type, shape, static_cast<int>(tensor.shape.size())));
  }
  TESSERA_ASSIGN(header_, builder.header());
  TESSERA_ASSIGN(files_, ModelFiles::parse_header(header_, checkpoint_.folder()));
  rows_ = std::make_unique<ConvertedRows>(checkpoint_, std::move(draft.tensors));
  return {};
}

}  // namespace tessera::convert
