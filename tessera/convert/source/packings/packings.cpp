#include "tessera/convert/source/packings/packings.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

// Ends of the names of parts, "" where a method has no such part; in the order of PackedGroup.
struct PartNames {
  std::optional<std::string_view> weight{}, scale{}, zeros{}, groups{}, shape{};
  std::optional<std::string_view> global_scale{}, input_scale{};
};

struct PackingRow {
  std::string_view method;
  PackedTensors (*make)(const PackedGroup&, const PackingConfig&);
  std::string_view anchor, result;
  PartNames names;
};

constexpr auto kPackings = std::to_array<PackingRow>({
#define TESSERA_PACKING(method, make, anchor, result, ...) {method, make, anchor, result, {__VA_ARGS__}},
#include "tessera/convert/source/packings/packings.def"
});

constexpr const char* kModeloptFile = "hf_quant_config.json";

// Tensors beside packed ones that say nothing about weights: scales of activations and of the KV cache.
constexpr std::string_view kOtherScales[] = {".activation_scale", "_activation_scale", ".input_scale",
                                             ".input_zero_point", ".k_scale",          ".v_scale",
                                             ".output_scale"};

// Finds the parts of groups, each of which belongs to one group.
class Unpacking {
 public:
  Unpacking(const Checkpoint& checkpoint, const PackingConfig& config)
      : checkpoint_(checkpoint), config_(config), made_(checkpoint.tensors().size()), is_used_(made_.size()) {}

  Result<> add_row(const PackingRow& row) {
    const auto tensors = checkpoint_.tensors();
    const bool needs_weight = row.anchor.starts_with('?');
    const std::string_view anchor = row.anchor.substr(needs_weight ? 1 : 0);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string_view name = tensors[i].tensor.name;
      if (is_used_[i] || !name.ends_with(anchor)) continue;
      const std::string_view stem = name.substr(0, name.size() - anchor.size());
      if (needs_weight && checkpoint_.find(std::string(stem) + std::string(*row.names.weight)) == nullptr) continue;
      TESSERA_ASSIGN(made_[i], tensors_of(row, stem));
    }
    return {};
  }

  // Groups are where their anchors were.
  std::vector<CheckpointTensor> take() {
    std::vector<CheckpointTensor> result;
    const auto tensors = checkpoint_.tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (StoredTensor& tensor : made_[i]) result.push_back({std::move(tensor), tensors[i].file});
      const auto is_end = [&](std::string_view end) { return tensors[i].tensor.name.ends_with(end); };
      if (!is_used_[i] && std::ranges::none_of(kOtherScales, is_end)) result.push_back(tensors[i]);
    }
    return result;
  }

 private:
  PackedTensors tensors_of(const PackingRow& row, std::string_view stem) {
    PackedGroup group{.name = std::string(stem) + std::string(row.result)};
    const PartNames& names = row.names;
    TESSERA_ASSIGN(group.weight, part_of_group(stem, names.weight));
    TESSERA_ASSIGN(group.scale, part_of_group(stem, names.scale));
    TESSERA_ASSIGN(group.zeros, part_of_group(stem, names.zeros));
    TESSERA_ASSIGN(group.groups, part_of_group(stem, names.groups));
    TESSERA_ASSIGN(group.shape, part_of_group(stem, names.shape));
    TESSERA_ASSIGN(group.global_scale, part_of_group(stem, names.global_scale));
    TESSERA_ASSIGN(group.input_scale, part_of_group(stem, names.input_scale));
    return row.make(group, config_);
  }

  Result<std::optional<PackedPart>> part_of_group(std::string_view stem, std::optional<std::string_view> end) {
    if (!end) return std::nullopt;
    const bool is_optional = end->starts_with('?');
    const std::string name = std::string(stem) + std::string(end->substr(is_optional ? 1 : 0));
    const CheckpointTensor* found = checkpoint_.find(name);
    if (found == nullptr) {
      if (is_optional) return std::nullopt;
      return fail(ErrorCode::not_found, "no tensor {}", text::quote_text(name, kMaxShownName));
    }
    const StoredTensor& tensor = found->tensor;
    if (!tensor.strides.empty() || tensor.elements != nullptr)
      return fail(ErrorCode::unsupported, "tensor {}: elements in another order than that of the shape",
                  text::quote_text(name, kMaxShownName));
    is_used_[static_cast<size_t>(found - checkpoint_.tensors().data())] = true;
    return PackedPart{.name = name,
                      .type = tensor.type,
                      .shape = tensor.shape,
                      .data = checkpoint_.file_bytes(*found).data() + tensor.offset,
                      .map = &checkpoint_.file_of(*found)};
  }

  static constexpr size_t kMaxShownName = 200;

  const Checkpoint& checkpoint_;
  const PackingConfig& config_;
  std::vector<std::vector<StoredTensor>> made_;
  std::vector<bool> is_used_;
};

// Checkpoints of older versions of modelopt have its config in a file of its own.
Result<std::optional<PackingConfig>> packing_of(const Checkpoint& checkpoint, const HubConfig& config) {
  TESSERA_ASSIGN(auto packing, read_packing_config(config));
  if (packing) return packing;
  TESSERA_ASSIGN(JsonTree file, checkpoint.read_json_file(kModeloptFile));
  if (!file || !file->is_object() || !file->contains("quantization")) return std::nullopt;
  (*file)["quantization_config"].swap((*file)["quantization"]);
  TESSERA_ASSIGN(const HubConfig other, HubConfig::of(std::move(file), checkpoint.folder() + "/" + kModeloptFile));
  return read_packing_config(other);
}

}  // namespace

Result<> unpack_tensors(Checkpoint& checkpoint, const HubConfig& config) {
  TESSERA_ASSIGN(const auto packing, packing_of(checkpoint, config));
  if (!packing) return {};
  Unpacking unpacking(checkpoint, *packing);
  for (const PackingRow& row : kPackings) {
    if (row.method != packing->method) continue;
    auto added = unpacking.add_row(row);
    if (!added) return forward_error(added, checkpoint.folder());
  }
  return checkpoint.replace_tensors(unpacking.take());
}

}  // namespace tessera::convert
