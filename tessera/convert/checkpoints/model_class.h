// The classes of models that can be converted, as config.json names them: LlamaForCausalLM, Qwen3MoeForCausalLM. A
// class is a row: its architecture, the rules for its tensors, and the keys that differ from the common ones. Files of
// this folder hold the rows of one family each; checkpoints.def lists the files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/checkpoints/key_rows.h"
#include "tessera/convert/checkpoints/tensor_rules.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// The fate of layers past num_hidden_layers, which predict further tokens.
enum class LaterLayers : uint8_t { kept, dropped };

/// The header of a model in the making.
struct ModelDraft {
  const Checkpoint& checkpoint;
  const HubConfig& config;
  std::string_view architecture;
  GgufBuilder& builder;
  std::vector<ConvertedTensor>& tensors;
  LaterLayers later_layers = LaterLayers::kept;  // of classes that can keep them

  std::string key(std::string_view suffix) const;
  bool has_tensor(std::string_view name) const;
  /// The first extent of a tensor; 0 if there is none of this name.
  int64_t rows_of(std::string_view name) const;
};

/// Whether the keys and tensors of rope scaling are made of the config.
enum class RopeScaling : uint8_t { of_config, none };

struct ModelClass {
  std::string_view names;         // in config.json, separated by spaces
  std::string_view architecture;  // in GGUF
  std::span<const TensorRule> rules;
  std::span<const KeyRow> keys{};
  std::span<const TensorRule> shared_rules{};  // used after rules, by several classes of a family
  std::span<const KeyRow> shared_keys{};       // of which keys replaces those of the same name
  bool is_decoder = true;                      // decoder_rules() hold for tensors that no row of rules fits
  std::string_view prefix{};                   // of the hub's names; rules leave it out
  bool is_head_tied = false;  // an output layer that equals the token embedding is left out, whatever the config says
  bool has_unused_tensors = false;  // of the result: other programs want them
  LaterLayers later_layers = LaterLayers::kept;
  RopeScaling scaling = RopeScaling::of_config;
  Result<bool> (*fits)(const HubConfig& config) = nullptr;  // of several rows of a name, the first that fits counts
  // Changes names that depend on the config. Those of adapters, too.
  Result<> (*rename)(const HubConfig& config, std::vector<ConvertedTensor>& tensors) = nullptr;
  Result<> (*finish)(ModelDraft& draft) = nullptr;  // what no row can say
};

/// The names of the layers of most decoders: norms before attention and FFN, q, k, v and a gated FFN, or experts.
std::span<const TensorRule> decoder_rules();

/// The row of a config's class. Errors: unsupported (none of this name fits); those of reading the config.
Result<const ModelClass*> find_model_class(const HubConfig& config);
std::span<const ModelClass* const> all_model_classes();

/// The rules of a class in their order, and what they depend on. The config must outlive it.
struct ClassRules {
  std::vector<TensorRule> rules{};
  RuleFacts facts{};
};
Result<ClassRules> rules_of(const ModelClass& model_class, const HubConfig& config);

/// apply_rules() and the renaming of the class. Errors: those of both.
Result<std::vector<ConvertedTensor>> apply_class(const ModelClass& model_class, const ClassRules& rules,
                                                 std::span<const CheckpointTensor> tensors);

/// The tensors that rules are for, under the names that they have in models of text alone: no towers for images and
/// sound, no masks.
std::vector<CheckpointTensor> kept_tensors(std::span<const CheckpointTensor> sources);

/// The tensors and keys of a model. Errors: those of apply_rules() and add_keys(), and of the class.
Result<> draft_model(const ModelClass& model_class, std::span<const CheckpointTensor> sources, ModelDraft& draft);

}  // namespace tessera::convert
