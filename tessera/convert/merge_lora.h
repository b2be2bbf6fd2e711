// Merges LoRA adapters into a model's weights (`tessera export-lora`): W + scale * factor * up down, row by row, with
// the code of quantize. Tensors without an adapter are copied byte for byte.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/quantize.h"
#include "tessera/gguf/lora_file.h"

namespace tessera::convert {

class LoraMerge final : public RowEdit {
 public:
  /// Decodes the matrices of an adapter and adds the adapter times scale. Its file may be closed afterwards. Errors:
  /// unsupported (a type without decoder); format (a value that is not finite).
  Result<> add(const LoraFile& lora, float scale);

  /// Converts a plan that copies all tensors to one that edits the adapted weights. Each keeps its type, or becomes
  /// `type`. Errors: mismatch (rows that are not whole blocks of the type).
  Result<> apply_to(QuantizePlan& plan, std::optional<DType> type) const;

  void edit(std::string_view tensor, int64_t row, std::span<float> values) const override;

 private:
  // Adds factor * sum over j of coefficients[i, j] * basis[j] to row i of a weight.
  struct Term {
    int64_t rank = 0, n_rows = 0;  // of one matrix (expert)
    int64_t width = 0;
    float factor = 1.0f;
    std::vector<float> coefficients{};  // [rank, all rows]
    std::vector<float> basis{};         // [width, rank, n_experts]
  };
  static void add_term(const Term& term, int64_t row, std::span<float> values);

  std::map<std::string, std::vector<Term>, std::less<>> terms_;  // by weight
};

}  // namespace tessera::convert
