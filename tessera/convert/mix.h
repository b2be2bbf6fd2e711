// Chooses the type to which each tensor of a model is quantized. Pure functions of the tensor list, a few
// hyperparameters and the options. The rules are those of llama-quantize, so a Q4_K_M has the tensor types that users
// expect.
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

/// Hyperparameters of a model that the rules depend on.
struct MixModel {
  std::string_view arch;
  int64_t n_layers = 0;
  int64_t n_heads = 0;     // of layer 0
  int64_t n_heads_kv = 0;  // of layer 0
  int64_t n_experts = 0;

  /// Reads the metadata. Without a number of layers there, it is determined from the tensors' names. Errors: a key of
  /// the wrong type.
  static Result<MixModel> read(const Metadata& metadata, std::span<const MixTensor> tensors);
};

struct TensorTypeRule {
  TensorPattern pattern;
  DType dtype;
};

struct MixOptions {
  FileType file_type = FileType::q8_0;
  bool copy_all = false;                          // every tensor is copied unchanged
  bool pure = false;                              // the default type for all tensors, without rules
  bool has_imatrix = false;                       // an importance matrix was given; it need not cover every tensor
  bool keep_output = false;                       // output.weight is copied unchanged
  bool keep_blocks = false;                       // so are tensors that are quantized already
  std::optional<DType> output_type = {};          // of output.weight, or of a token embedding that serves as output
  std::optional<DType> embedding_type = {};       // of token_embd.weight
  std::vector<TensorTypeRule> tensor_types = {};  // the first match overrides the rules
};

enum class MixReason : uint8_t {
  base,      // the default type
  rule,      // a rule of the mix
  asked,     // a flag sets this tensor's type
  fallback,  // rows are not whole blocks of the chosen type
  kept,      // never quantized
  size,      // the best type within a target for the file size
};

/// "default", "rule", "override", "fallback", "kept", "size".
std::string_view to_string(MixReason reason);

struct MixChoice {
  DType dtype;
  MixReason reason;
  DType wanted;  // for the reason fallback: the type before it
};

/// Chooses the type of each tensor. The rules count tensors of a kind, so tensors must be in the order of the output
/// file.
std::vector<MixChoice> choose_types(std::span<const MixTensor> tensors, const MixModel& model,
                                    const MixOptions& options);

/// Returns the same type if rows of n elements are whole blocks of it. Otherwise returns the next type for which they
/// are; f16 is the last.
DType fitting_type(DType wanted, int64_t n);

/// The number in "blk.N.", or -1.
int64_t layer_of(std::string_view tensor_name);

/// True if the policy of llama-quantize requires an importance matrix for a tensor of this type.
bool wants_imatrix(std::string_view tensor_name, DType dtype, FileType file_type);

}  // namespace tessera::convert
