#include "tessera/convert/checkpoints/tensor_rules.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/source/views.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

struct FoundRule {
  const TensorRule* rule;
  NamePlaces places;
};

std::optional<FoundRule> rule_of(std::span<const TensorRule> rules, std::string_view name) {
  for (const TensorRule& rule : rules)
    if (const auto places = match_name(rule.hub, name)) return FoundRule{&rule, *places};
  return std::nullopt;
}

bool stacks(const TensorRule& rule) {
  constexpr std::string_view kExpert = "{e}";
  return rule.hub.find(kExpert) != std::string_view::npos && rule.gguf.find(kExpert) == std::string_view::npos;
}

Result<StoredTensor> changed(const StoredTensor& tensor, Change change, const HeadCounts& heads) {
  switch (change) {
    case Change::rope_q:
      return rope_pairs_together(tensor, heads.q);
    case Change::rope_k:
      return rope_pairs_together(tensor, heads.kv);
    case Change::transpose:
      return transposed(tensor);
    case Change::squeeze:
      return squeezed(tensor);
    default:
      return tensor;
  }
}

ValueChange values_of(Change change) {
  return change == Change::add_one     ? ValueChange::add_one
         : change == Change::minus_exp ? ValueChange::minus_exp
                                       : ValueChange::none;
}

// A tensor of the result while its experts are collected.
struct Collected {
  ConvertedTensor tensor;
  bool is_stack = false;
  std::vector<std::pair<int32_t, ConvertedTensor::Part>> experts{};
};

Result<> finish_stack(Collected& stack) {
  std::ranges::sort(stack.experts, {}, [](const auto& expert) { return expert.first; });
  const StoredTensor& first = stack.experts.front().second.view;
  for (size_t i = 0; i < stack.experts.size(); ++i) {
    auto& [number, part] = stack.experts[i];
    if (to_size(number) != i)
      return fail(ErrorCode::mismatch, "{}: expert {} is missing, of {} and more", stack.tensor.name, i,
                  stack.experts.size());
    if (part.view.shape != first.shape || part.view.type != first.type)
      return fail(ErrorCode::mismatch, "{}: expert {} has another shape or type than expert 0", stack.tensor.name, i);
  }
  stack.tensor.shape = first.shape;
  stack.tensor.shape.insert(stack.tensor.shape.begin(), std::ssize(stack.experts));
  for (auto& [number, part] : stack.experts) stack.tensor.parts.push_back(std::move(part));
  return {};
}

}  // namespace

Result<std::vector<ConvertedTensor>> apply_rules(const Checkpoint& checkpoint, std::span<const TensorRule> rules,
                                                 const HeadCounts& heads) {
  std::vector<Collected> collected;
  std::unordered_map<std::string, size_t> by_name;
  for (const CheckpointTensor& source : checkpoint.tensors()) {
    const std::string& hub_name = source.tensor.name;
    const auto found = rule_of(rules, hub_name);
    if (!found)
      return fail(ErrorCode::unsupported, "{}: no rule for tensor {}", checkpoint.folder(), text::quote_text(hub_name));
    if (found->rule->change == Change::drop) continue;
    TESSERA_ASSIGN(StoredTensor view, changed(source.tensor, found->rule->change, heads));
    const bool is_stack = stacks(*found->rule);
    std::string name = name_of_pattern(found->rule->gguf, found->places);
    const auto [place, is_new] = by_name.emplace(name, collected.size());
    if (is_new) {
      collected.push_back(
          {.tensor = {.name = std::move(name), .values = values_of(found->rule->change)}, .is_stack = is_stack});
    } else if (!is_stack || !collected[place->second].is_stack) {
      return fail(ErrorCode::format, "{}: two tensors become {}, one of them {}", checkpoint.folder(), place->first,
                  text::quote_text(hub_name));
    }
    Collected& result = collected[place->second];
    ConvertedTensor::Part part{source.file, std::move(view)};
    if (is_stack) {
      result.experts.emplace_back(*found->places.expert, std::move(part));
    } else {
      // Rows in another order are a view of more dimensions.
      const bool has_same_shape = found->rule->change == Change::rope_q || found->rule->change == Change::rope_k;
      result.tensor.shape = has_same_shape ? source.tensor.shape : part.view.shape;
      result.tensor.parts.push_back(std::move(part));
    }
  }
  std::vector<ConvertedTensor> tensors;
  for (Collected& result : collected) {
    if (result.is_stack) TESSERA_TRY(finish_stack(result));
    tensors.push_back(std::move(result.tensor));
  }
  return tensors;
}

}  // namespace tessera::convert
