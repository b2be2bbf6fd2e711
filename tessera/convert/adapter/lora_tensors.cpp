#include "tessera/convert/adapter/lora_tensors.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/convert/adapter/low_rank_product.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/gguf/printable.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kWeightEnd = ".weight";
constexpr std::string_view kTableWeight = "token_embd.weight", kHeadWeight = "output.weight";
constexpr int64_t kMostRanks = int64_t{1} << 16;     // that a file may have, as its reader says
constexpr int64_t kMostElements = int64_t{1} << 58;  // of a weight, so that offsets of its elements are numbers
constexpr size_t kAdapterFile = 0;                   // an adapter is one file
constexpr std::string_view kAdapterPrefix = "base_model.model.";

/// The names that PEFT gives the matrices of a module.
struct MatrixName {
  std::string_view part;
  bool is_down, is_table;
};
constexpr MatrixName kMatrixNames[] = {{".lora_A", true, false},
                                       {".lora_B", false, false},
                                       {".lora_embedding_A", true, true},
                                       {".lora_embedding_B", false, true}};

/// A module with a pair of matrices: B A for a product, and the transposed of that for a table of embeddings.
struct LoraModule {
  std::string name;
  bool is_table = false;
  const CheckpointTensor* down = nullptr;  // A [rank, n_in]
  const CheckpointTensor* up = nullptr;    // B [n_out, rank]

  int64_t rank() const { return down->tensor.shape[0]; }
};

std::unexpected<Error> unknown_tensor(const StoredTensor& tensor) {
  return fail(ErrorCode::unsupported, "tensor {}: want pairs of MODULE.lora_A.weight and MODULE.lora_B.weight",
              quote_name(tensor.name));
}

// The module and the kind of matrix that a tensor's name says; null for other tensors. PEFT leaves out the adapter's
// name, "default", when it writes files; other programs do not.
const MatrixName* find_matrix(std::string_view name, std::string_view& module) {
  const size_t at = name.rfind(".lora_");
  if (at == std::string_view::npos) return nullptr;
  module = name.substr(0, at);
  if (module.starts_with(kAdapterPrefix)) module.remove_prefix(kAdapterPrefix.size());
  std::string_view rest = name.substr(at);
  for (const std::string_view end : {kWeightEnd, std::string_view(".default")})
    if (rest.ends_with(end)) rest.remove_suffix(end.size());
  const auto* found = std::ranges::find(kMatrixNames, rest, &MatrixName::part);
  return found == std::end(kMatrixNames) ? nullptr : found;
}

Result<> check_module(const LoraModule& module) {
  if (module.down == nullptr || module.up == nullptr)
    return fail(ErrorCode::format, "module {}: one of its two matrices is missing", quote_name(module.name));
  const StoredTensor &down = module.down->tensor, &up = module.up->tensor;
  for (const StoredTensor* const tensor : {&down, &up}) {
    if (tensor->shape.size() != 2)
      return fail(ErrorCode::unsupported, "tensor {}: {} dimensions, want a matrix", quote_name(tensor->name),
                  tensor->shape.size());
    if (block_format(tensor->type))
      return fail(ErrorCode::unsupported, "tensor {}: its type {} is for whole models", quote_name(tensor->name),
                  element_name(tensor->type));
  }
  if (down.shape[0] != up.shape[1] || down.n_elements() == 0 || up.n_elements() == 0)
    return fail(ErrorCode::format, "module {}: matrices of {} x {} and {} x {} have no product",
                quote_name(module.name), up.shape[0], up.shape[1], down.shape[0], down.shape[1]);
  if (module.rank() > kMostRanks)
    return fail(ErrorCode::limit, "module {}: rank {}, limit {}", quote_name(module.name), module.rank(), kMostRanks);
  if (checked_mul(down.shape[1], up.shape[0]).value_or(kMostElements) >= kMostElements)
    return fail(ErrorCode::limit, "module {}: a weight of {} x {}, limit 2^58 elements", quote_name(module.name),
                up.shape[0], down.shape[1]);
  return {};
}

// In the order of the file.
Result<std::vector<LoraModule>> modules_of(const Checkpoint& adapter) {
  std::vector<LoraModule> modules;
  std::unordered_map<std::string, size_t> by_name;
  for (const CheckpointTensor& source : adapter.tensors()) {
    std::string_view name;
    const MatrixName* const kind = find_matrix(source.tensor.name, name);
    if (kind == nullptr) return unknown_tensor(source.tensor);
    const auto [place, is_new] = by_name.emplace(name, modules.size());
    if (is_new) modules.push_back({.name = std::string(name), .is_table = kind->is_table});
    LoraModule& module = modules[place->second];
    const CheckpointTensor*& matrix = kind->is_down ? module.down : module.up;
    if (matrix != nullptr || module.is_table != kind->is_table) return unknown_tensor(source.tensor);
    matrix = &source;
  }
  for (const LoraModule& module : modules) TESSERA_TRY(check_module(module));
  if (modules.empty()) return fail(ErrorCode::format, "an adapter without tensors");
  return modules;
}

// A matrix times a number, in floats of 32 bits. The file must outlive it.
class ScaledMatrix final : public ElementSource {
 public:
  ScaledMatrix(StoredTensor matrix, const MappedFile& file, float factor)
      : matrix_(std::move(matrix)), file_(file), factor_(factor) {}

  void read(int64_t first, std::span<std::byte> into) const override {
    std::vector<float> values(into.size() / sizeof(float));
    std::vector<std::byte> stored(values.size() * element_bytes(matrix_.type));
    matrix_.read(file_.bytes(), first, stored);
    to_floats(matrix_.type, stored, values);
    for (float& value : values) value *= factor_;
    std::ranges::copy(std::as_bytes(std::span(values)), into.begin());
  }

  void forget(int64_t first, int64_t n) const override { matrix_.forget(file_, first, n); }

 private:
  StoredTensor matrix_;
  const MappedFile& file_;
  float factor_;
};

StoredTensor scaled_matrix(const Checkpoint& adapter, const CheckpointTensor& source, float factor) {
  if (factor == 1.0f) return source.tensor;
  StoredTensor result{.name = source.tensor.name, .type = ElementType::f32, .shape = source.tensor.shape};
  result.elements = std::make_shared<ScaledMatrix>(source.tensor, adapter.file_of(source), factor);
  return result;
}

/// A module, and the weight of the hub that it changes.
struct LoraWeight {
  const LoraModule* module = nullptr;
  LowRankProduct product{};
  StoredTensor weight{};  // of which only name and shape count
};

// Matrices of a convolution (Conv1D of GPT-2) are stored transposed, which a rule undoes. So is a table of embeddings.
LoraWeight weight_of(const Checkpoint& adapter, const LoraModule& module, bool is_transposed, float factor) {
  LowRankFactor inputs{module.down->tensor, 1}, outputs{scaled_matrix(adapter, *module.up, factor), 0};
  LoraWeight result{.module = &module};
  result.product = is_transposed ? LowRankProduct{std::move(inputs), std::move(outputs)}
                                 : LowRankProduct{std::move(outputs), std::move(inputs)};
  result.weight.shape = {result.product.rows.n(), result.product.columns.n()};
  return result;
}

// The name of a module's weight in a model of text alone.
Result<std::string> name_of_weight(const LoraModule& module) {
  const CheckpointTensor named{.tensor = {.name = module.name + std::string(kWeightEnd)}};
  const std::vector<CheckpointTensor> kept = kept_tensors({&named, 1});
  if (kept.empty())
    return fail(ErrorCode::unsupported, "module {}: is no part of a model of text", quote_name(module.name));
  return kept[0].tensor.name;
}

Result<std::vector<LoraWeight>> weights_of(const Checkpoint& adapter, std::span<const LoraModule> modules,
                                           const LoraSettings& settings, const ClassRules& rules) {
  std::vector<LoraWeight> weights;
  const double alpha = alpha_of(settings, modules[0].name, modules[0].rank());
  for (const LoraModule& module : modules) {
    TESSERA_ASSIGN(std::string name, name_of_weight(module));
    const auto fitting = find_rules(name, rules.rules, rules.facts.prefix);
    const bool is_transposed = module.is_table || (!fitting.empty() && fitting[0].change == Change::transpose);
    const auto factor = static_cast<float>(alpha_of(settings, module.name, module.rank()) / alpha);
    weights.push_back(weight_of(adapter, module, is_transposed, factor));
    weights.back().weight.name = std::move(name);
  }
  return weights;
}

// The weights of the hub of which a tensor has views: one, or one for each expert.
int64_t count_weights(const ConvertedTensor& changed) {
  int64_t n = 1;
  for (size_t i = 1; i < changed.parts.size(); ++i)
    if (changed.parts[i].file != changed.parts[i - 1].file) ++n;
  return n;
}

// The pair of a weight of the result, whose parts are views of weights of the hub.
Result<> add_pair(const ConvertedTensor& changed, std::span<const LoraWeight> weights,
                  std::vector<ConvertedTensor>& tensors) {
  const LoraModule& first = *weights[changed.parts[0].file].module;
  const auto refusal = [&] {
    return fail(ErrorCode::unsupported, "module {}: adapters cannot change {}", quote_name(first.name), changed.name);
  };
  const bool is_table = changed.name == kTableWeight;
  const int64_t n_weights = count_weights(changed);
  const bool is_stack = changed.shape.size() == 3 && changed.shape[0] == n_weights;
  const bool is_matrix = changed.shape.size() == 2 && n_weights == 1;
  const bool is_scaled = std::ranges::any_of(changed.parts, [](const auto& part) { return part.factor != 1.0f; });
  const bool has_curve = changed.values == ValueChange::minus_exp || changed.values == ValueChange::ternary;
  if ((!is_matrix && !is_stack) || is_table != first.is_table || has_curve || is_scaled) return refusal();
  const int64_t n_columns = changed.shape.back();
  ConvertedTensor rows{.name = changed.name}, columns{.name = changed.name};
  std::optional<FactorWalk> along_columns;
  for (size_t i = 0; i < changed.parts.size(); ++i) {
    const ConvertedTensor::Part& part = changed.parts[i];
    const LoraWeight& weight = weights[part.file];
    const LoraModule& module = *weight.module;
    if (module.rank() != first.rank())
      return fail(ErrorCode::mismatch, "module {}: rank {}, and module {} has {}, want one for all experts",
                  quote_name(module.name), module.rank(), quote_name(first.name), first.rank());
    TESSERA_ASSIGN(const auto walks, walks_of_view(part.view, weight.weight, n_columns));
    rows.parts.push_back({kAdapterFile, walked(weight.product, walks.first, false)});
    const bool is_same_weight = i > 0 && changed.parts[i - 1].file == part.file;
    if (is_same_weight && walks.second != *along_columns) return refusal();
    if (is_same_weight) continue;
    along_columns = walks.second;
    columns.parts.push_back({kAdapterFile, walked(weight.product, walks.second, !is_table)});
  }
  rows.shape = columns.shape = changed.shape;
  rows.shape.back() = first.rank();
  columns.shape[columns.shape.size() - (is_table ? 1 : 2)] = first.rank();
  if (is_table) columns.shape[0] = n_columns;
  ConvertedTensor &down = is_table ? rows : columns, &up = is_table ? columns : rows;
  down.name += ".lora_a";
  up.name += ".lora_b";
  tensors.push_back(std::move(down));
  tensors.push_back(std::move(up));
  return {};
}

// The output layer of a model may be its token embedding. An adapter changes both then, or none.
Result<bool> has_own_head(const ModelClass& model_class, const HubConfig& base) {
  TESSERA_ASSIGN(const auto is_tied, base.flag({"tie_word_embeddings"}));
  return !is_tied.value_or(model_class.is_head_tied);
}

}  // namespace

Result<LoraDraft> draft_lora(const Checkpoint& adapter, const LoraSettings& settings, const ModelClass& model_class,
                             const HubConfig& base) {
  TESSERA_ASSIGN(const std::vector<LoraModule> modules, modules_of(adapter));
  TESSERA_ASSIGN(const ClassRules rules, rules_of(model_class, base));
  TESSERA_ASSIGN(const bool has_head, has_own_head(model_class, base));
  LoraDraft draft{.alpha = static_cast<float>(alpha_of(settings, modules[0].name, modules[0].rank()))};
  TESSERA_ASSIGN(const std::vector<LoraWeight> weights, weights_of(adapter, modules, settings, rules));
  std::vector<CheckpointTensor> named;  // weight number i is in "file" i
  for (const LoraWeight& weight : weights) named.push_back({weight.weight, named.size()});
  TESSERA_ASSIGN(const auto changed, apply_class(model_class, rules, named));
  std::vector<bool> is_used(modules.size());
  for (const ConvertedTensor& tensor : changed) {
    if (tensor.name == kHeadWeight && !has_head)
      return fail(ErrorCode::unsupported,
                  "{}: the output layer is the token embedding: an adapter cannot change it alone", base.path());
    for (const ConvertedTensor::Part& part : tensor.parts) is_used[part.file] = true;
    TESSERA_TRY(add_pair(tensor, weights, draft.tensors));
  }
  if (const auto unused = std::ranges::find(is_used, false); unused != is_used.end())
    return fail(ErrorCode::unsupported, "module {}: models of {} do not have it in GGUF",
                quote_name(modules[to_size(unused - is_used.begin())].name), model_class.architecture);
  return draft;
}

}  // namespace tessera::convert
