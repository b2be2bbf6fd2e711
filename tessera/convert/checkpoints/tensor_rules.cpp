#include "tessera/convert/checkpoints/tensor_rules.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/convert/source/views.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

bool stacks(const TensorRule& rule) {
  constexpr std::string_view kExpert = "{e}";
  return rule.hub.find(kExpert) != std::string_view::npos && rule.gguf.find(kExpert) == std::string_view::npos;
}

Result<TensorPieces> one_piece(Result<StoredTensor> view) {
  if (!view) return forward_error(view);
  std::vector<int64_t> shape = view->shape;
  return TensorPieces{{std::move(*view)}, std::move(shape)};
}

Result<TensorPieces> rows_in_pairs(const StoredTensor& tensor, int64_t n_heads) {
  TESSERA_ASSIGN(StoredTensor view, rope_pairs_together(tensor, n_heads));
  return TensorPieces{{std::move(view)}, tensor.shape};
}

Result<StoredTensor> transposed_each(const StoredTensor& tensor) {
  if (tensor.shape.size() != 3) return transposed(tensor);
  constexpr size_t kOrder[] = {0, 2, 1};
  return with_order(tensor, kOrder);
}

// Half of the rows; of each matrix of a tensor of three dimensions.
Result<StoredTensor> half_of_rows(const StoredTensor& tensor, bool is_second) {
  const size_t dimension = tensor.shape.size() == 3 ? 1 : 0;
  if (tensor.shape.empty() || tensor.shape[dimension] % 2 != 0)
    return fail(ErrorCode::mismatch, "{}: its rows have no halves", tensor.name);
  const int64_t n = tensor.shape[dimension] / 2;
  return part_of(tensor, dimension, is_second ? n : 0, n);
}

Result<TensorPieces> changed(const StoredTensor& tensor, Change change, const RuleFacts& facts) {
  switch (change) {
    case Change::rope_q:
      return rows_in_pairs(tensor, facts.heads.q);
    case Change::rope_k:
      return rows_in_pairs(tensor, facts.heads.kv);
    case Change::transpose:
      return one_piece(transposed_each(tensor));
    case Change::squeeze:
      return one_piece(squeezed(tensor));
    case Change::first_half:
      return one_piece(half_of_rows(tensor, false));
    case Change::second_half:
      return one_piece(half_of_rows(tensor, true));
    default:
      return one_piece(tensor);
  }
}

ValueChange values_of(Change change) {
  switch (change) {
    case Change::add_one:
      return ValueChange::add_one;
    case Change::add_fifth:
      return ValueChange::add_fifth;
    case Change::add_fifth_to_1_5:
      return ValueChange::add_fifth_to_1_5;
    case Change::minus_exp:
      return ValueChange::minus_exp;
    case Change::ternary:
      return ValueChange::ternary;
    case Change::integers:
      return ValueChange::integers;
    default:
      return ValueChange::none;
  }
}

float factor_of(const TensorPieces& pieces, size_t i) { return pieces.factors.empty() ? 1.0f : pieces.factors[i]; }

// A tensor of the result while its experts are collected.
struct Collected {
  ConvertedTensor tensor;
  bool is_stack = false;
  std::vector<std::pair<int32_t, TensorPieces>> experts{};
  std::vector<size_t> files{};  // of experts
};

Result<> finish_stack(Collected& stack) {
  std::vector<size_t> order(stack.experts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return stack.experts[i].first; });
  const TensorPieces& first = stack.experts[order[0]].second;
  stack.tensor.shape = first.shape;
  stack.tensor.shape.insert(stack.tensor.shape.begin(), std::ssize(stack.experts));
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [number, pieces] = stack.experts[order[i]];
    if (to_size(number) != i)
      return fail(ErrorCode::mismatch, "{}: expert {} is missing, of {} and more", stack.tensor.name, i,
                  stack.experts.size());
    if (pieces.shape != first.shape || pieces.views[0].type != first.views[0].type)
      return fail(ErrorCode::mismatch, "{}: expert {} has another shape or type than expert 0", stack.tensor.name, i);
    for (size_t k = 0; k < pieces.views.size(); ++k)
      stack.tensor.parts.push_back({stack.files[order[i]], pieces.views[k], factor_of(pieces, k)});
  }
  return {};
}

constexpr std::string_view kWeight = ".weight";

/// A factor of a whole tensor of blocks, such as NVFP4 has: named as the tensor, with another end.
constexpr std::string_view kFactorEnds[] = {".scale", ".input_scale"};

// The end of a factor's name; empty if it is none.
std::string_view factor_end_of(std::string_view name) {
  for (const std::string_view end : kFactorEnds)
    if (name.ends_with(end)) return end;
  return {};
}

bool fits_end(std::span<const TensorRule> fitting, std::string_view end) {
  return !fitting.empty() && fitting[0].hub.ends_with(end);
}

bool fits_any(std::string_view name, std::span<const TensorRule> rules) {
  return std::ranges::any_of(rules, [&](const TensorRule& rule) { return match_name(rule.hub, name).has_value(); });
}

// A name as rules have it. Models without a head, such as those that make embeddings, may leave out "model.".
std::string name_in_rules(std::string_view name, std::span<const TensorRule> rules, std::string_view prefix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  std::string longer = "model." + std::string(name);
  return !fits_any(name, rules) && fits_any(longer, rules) ? longer : std::string(name);
}

// Collects the tensors of the result, by their names.
class Collection {
 public:
  explicit Collection(const RuleFacts& facts) : facts_(facts) {}

  /// factor_end: of a factor of the tensor of the rule, which is not changed.
  Result<> add(const CheckpointTensor& source, const TensorRule& rule, NamePlaces places,
               std::string_view factor_end = {}) {
    if (rule.change == Change::drop) return {};
    if (rule.is_after_layers) places.layer = static_cast<int32_t>(places.layer.value_or(0) + facts_.n_layers);
    if (facts_.drops_later_layers && places.layer.value_or(0) >= facts_.n_layers) return {};
    if (rule.member >= 0) places.expert = rule.member;
    const bool is_factor = !factor_end.empty(), is_stack = stacks(rule) || rule.member >= 0;
    TESSERA_ASSIGN(TensorPieces pieces, is_factor ? one_piece(is_stack ? squeezed(source.tensor) : source.tensor)
                                                  : pieces_of(source.tensor, rule));
    std::string name = name_of_pattern(rule.gguf, places);
    if (is_factor && name.ends_with(kWeight)) name.replace(name.size() - kWeight.size(), kWeight.size(), factor_end);
    const auto [place, is_new] = by_name_.emplace(name, collected_.size());
    if (is_new) {
      collected_.push_back(
          {.tensor = {.name = std::move(name), .values = is_factor ? ValueChange::none : values_of(rule.change)},
           .is_stack = is_stack});
    } else if (!is_stack || !collected_[place->second].is_stack) {
      return fail(ErrorCode::format, "two tensors become {}, one of them {}", place->first,
                  text::quote_text(source.tensor.name));
    }
    Collected& result = collected_[place->second];
    if (is_stack) {
      result.experts.emplace_back(*places.expert, std::move(pieces));
      result.files.push_back(source.file);
      return {};
    }
    result.tensor.shape = std::move(pieces.shape);
    for (size_t k = 0; k < pieces.views.size(); ++k)
      result.tensor.parts.push_back({source.file, std::move(pieces.views[k]), factor_of(pieces, k)});
    return {};
  }

  bool has(const TensorRule& rule, const NamePlaces& places) const {
    return by_name_.contains(name_of_pattern(rule.gguf, places));
  }

  Result<std::vector<ConvertedTensor>> finish() {
    std::vector<ConvertedTensor> tensors;
    for (Collected& result : collected_) {
      if (result.is_stack) TESSERA_TRY(finish_stack(result));
      tensors.push_back(std::move(result.tensor));
    }
    return tensors;
  }

 private:
  Result<TensorPieces> pieces_of(const StoredTensor& tensor, const TensorRule& rule) const {
    return rule.pieces != nullptr ? rule.pieces(tensor, facts_) : changed(tensor, rule.change, facts_);
  }

  const RuleFacts& facts_;
  std::vector<Collected> collected_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace

ConvertedTensor computed_tensor(std::string name, std::vector<float> values) {
  ConvertedTensor tensor{.name = std::move(name), .shape = {std::ssize(values)}};
  tensor.computed = std::move(values);
  return tensor;
}

std::vector<float> stored_floats(const Checkpoint& checkpoint, const ConvertedTensor& tensor) {
  std::vector<float> values;
  for (const ConvertedTensor::Part& part : tensor.parts) {
    std::vector<std::byte> bytes(to_size(part.view.n_elements()) * element_bytes(part.view.type));
    checkpoint.read(part.view, part.file, 0, bytes);
    const auto n = to_size(part.view.n_values());
    values.resize(values.size() + n);
    to_floats(part.view.type, bytes, std::span(values).last(n));
  }
  return values;
}

std::span<const TensorRule> find_rules(std::string_view name, std::span<const TensorRule> rules,
                                       std::string_view prefix) {
  const std::string known = name_in_rules(name, rules, prefix);
  const auto first =
      std::ranges::find_if(rules, [&](const TensorRule& rule) { return match_name(rule.hub, known).has_value(); });
  const auto end = std::find_if(first, rules.end(), [&](const TensorRule& rule) { return rule.hub != first->hub; });
  return {first, end};
}

Result<std::vector<ConvertedTensor>> apply_rules(std::span<const CheckpointTensor> tensors,
                                                 std::span<const TensorRule> rules, const RuleFacts& facts) {
  struct Spare {
    const CheckpointTensor* source;
    const TensorRule* rule;
    NamePlaces places;
  };
  Collection collection(facts);
  std::vector<Spare> spares;
  for (const CheckpointTensor& source : tensors) {
    std::string full_name = source.tensor.name;
    std::string_view factor_end = factor_end_of(source.tensor.name);
    // A rule may be for a factor itself, and not for the weight that it belongs to.
    if (!factor_end.empty() && fits_end(find_rules(full_name, rules, facts.prefix), factor_end)) factor_end = {};
    if (!factor_end.empty()) full_name.replace(full_name.size() - factor_end.size(), factor_end.size(), kWeight);
    const std::span<const TensorRule> fitting = find_rules(full_name, rules, facts.prefix);
    if (fitting.empty())
      return fail(ErrorCode::unsupported, "no rule for tensor {}", text::quote_text(source.tensor.name));
    const std::string known = name_in_rules(full_name, rules, facts.prefix);  // places refer to it
    const auto places = match_name(fitting[0].hub, known);
    for (const TensorRule& rule : fitting) {
      if (rule.change == Change::spare)
        spares.push_back({&source, &rule, *places});
      else
        TESSERA_TRY(collection.add(source, rule, *places, factor_end));
    }
  }
  for (const Spare& spare : spares)
    if (!collection.has(*spare.rule, spare.places))
      TESSERA_TRY(collection.add(*spare.source, *spare.rule, spare.places));
  return collection.finish();
}

}  // namespace tessera::convert
