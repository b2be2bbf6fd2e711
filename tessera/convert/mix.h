// Which type each tensor of a model is quantized to. Pure functions of the tensor list, a few hyperparameters and the
// options; the rules are those of llama-quantize, so that a Q4_K_M is the Q4_K_M that users know.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/tensor_pattern.h"
#include "tessera/convert/file_types.h"
#include "tessera/gguf/metadata.h"
#include "tessera/tensor/shape.h"

namespace tessera::convert {

struct MixTensor {
  std::string_view name;
  DType dtype = DType::f32;
  Shape shape;
};

/// What the rules ask of a model.
struct MixModel {
  std::string_view arch;
  int64_t n_layers = 0;
  int64_t n_heads = 0;     // of layer 0
  int64_t n_heads_kv = 0;  // of layer 0
  int64_t n_experts = 0;

  /// From the metadata; without a number of layers, from the tensors' names. Errors: a key of the wrong type.
  static Result<MixModel> read(const Metadata& metadata, std::span<const MixTensor> tensors);
};

struct TensorTypeRule {
  TensorPattern pattern;
  DType dtype;
};

struct MixOptions {
  FileType file_type = FileType::q8_0;
  bool copy_all = false;                          // every tensor stays as it is
  bool pure = false;                              // the default type for all, without rules
  bool has_imatrix = false;                       // an importance matrix was given; it need not cover every tensor
  bool keep_output = false;                       // output.weight stays as it is
  std::optional<DType> output_type = {};          // of output.weight, or of a token embedding that serves as output
  std::optional<DType> embedding_type = {};       // of token_embd.weight
  std::vector<TensorTypeRule> tensor_types = {};  // the first that matches wins over the rules
};

enum class MixReason : uint8_t {
  base,      // the default type
  rule,      // a rule of the mix
  asked,     // a flag names this tensor's type
  fallback,  // rows are no whole blocks of the type that was wanted
  kept,      // never quantized
  size,      // the best that a target for the file's size allows
};

/// "default", "rule", "override", "fallback", "kept", "size".
std::string_view to_string(MixReason reason);

struct MixChoice {
  DType dtype;
  MixReason reason;
  DType wanted;  // where reason is fallback: before it
};

/// The type of each tensor. The rules count tensors of a kind, so the order matters: that of the output file.
std::vector<MixChoice> choose_types(std::span<const MixTensor> tensors, const MixModel& model,
                                    const MixOptions& options);

/// The same type where rows of n elements are whole blocks of it; else the next that is, in the end f16.
DType fitting_type(DType wanted, int64_t n);

/// The number in "blk.N.", or -1.
int64_t layer_of(std::string_view tensor_name);

/// Whether the policy of llama-quantize wants an importance matrix for this tensor's type.
bool wants_imatrix(std::string_view tensor_name, DType dtype, FileType file_type);

}  // namespace tessera::convert
