// Names of GGUF metadata keys that are common to all architectures. Keys specific to a model consist of its
// architecture's name, a dot and a suffix: arch_key("llama", "block_count").
#pragma once

#include <string>
#include <string_view>

namespace tessera::keys {

inline constexpr std::string_view kArchitecture = "general.architecture";
inline constexpr std::string_view kType = "general.type";
inline constexpr std::string_view kName = "general.name";
inline constexpr std::string_view kAuthor = "general.author";
inline constexpr std::string_view kVersion = "general.version";
inline constexpr std::string_view kOrganization = "general.organization";
inline constexpr std::string_view kBasename = "general.basename";
inline constexpr std::string_view kFinetune = "general.finetune";
inline constexpr std::string_view kSizeLabel = "general.size_label";
inline constexpr std::string_view kDescription = "general.description";
inline constexpr std::string_view kLicense = "general.license";
inline constexpr std::string_view kUrl = "general.url";
inline constexpr std::string_view kTags = "general.tags";
inline constexpr std::string_view kLanguages = "general.languages";
inline constexpr std::string_view kQuantizedBy = "general.quantized_by";
inline constexpr std::string_view kFileType = "general.file_type";
inline constexpr std::string_view kQuantizationVersion = "general.quantization_version";
inline constexpr std::string_view kAlignment = "general.alignment";

inline constexpr std::string_view kAdapterType = "adapter.type";
inline constexpr std::string_view kAdapterLoraAlpha = "adapter.lora.alpha";             // f32
inline constexpr std::string_view kAdapterTaskName = "adapter.lora.task_name";          // text for people
inline constexpr std::string_view kAdapterPromptPrefix = "adapter.lora.prompt_prefix";  // text for people
inline constexpr std::string_view kAdapterInvocationTokens = "adapter.alora.invocation_tokens";
inline constexpr std::string_view kControlVectorHint = "controlvector.model_hint";  // architecture of the model

inline constexpr std::string_view kSplitNo = "split.no";                       // u16, from 0
inline constexpr std::string_view kSplitCount = "split.count";                 // u16
inline constexpr std::string_view kSplitTensorsCount = "split.tensors.count";  // i32, over all parts

inline constexpr std::string_view kTokenizerModel = "tokenizer.ggml.model";
inline constexpr std::string_view kTokenizerPre = "tokenizer.ggml.pre";
inline constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
inline constexpr std::string_view kTokenTypes = "tokenizer.ggml.token_type";
inline constexpr std::string_view kTokenTypeCount = "tokenizer.ggml.token_type_count";
inline constexpr std::string_view kScores = "tokenizer.ggml.scores";
inline constexpr std::string_view kMerges = "tokenizer.ggml.merges";
inline constexpr std::string_view kBosId = "tokenizer.ggml.bos_token_id";
inline constexpr std::string_view kEosId = "tokenizer.ggml.eos_token_id";
inline constexpr std::string_view kEotId = "tokenizer.ggml.eot_token_id";
inline constexpr std::string_view kEomId = "tokenizer.ggml.eom_token_id";
inline constexpr std::string_view kUnknownId = "tokenizer.ggml.unknown_token_id";
inline constexpr std::string_view kSeparatorId = "tokenizer.ggml.seperator_token_id";  // misspelt in the format
inline constexpr std::string_view kPaddingId = "tokenizer.ggml.padding_token_id";
inline constexpr std::string_view kClsId = "tokenizer.ggml.cls_token_id";
inline constexpr std::string_view kMaskId = "tokenizer.ggml.mask_token_id";
inline constexpr std::string_view kFimPrefixId = "tokenizer.ggml.fim_pre_token_id";
inline constexpr std::string_view kFimSuffixId = "tokenizer.ggml.fim_suf_token_id";
inline constexpr std::string_view kFimMiddleId = "tokenizer.ggml.fim_mid_token_id";
inline constexpr std::string_view kFimPaddingId = "tokenizer.ggml.fim_pad_token_id";
inline constexpr std::string_view kFimRepositoryId = "tokenizer.ggml.fim_rep_token_id";
inline constexpr std::string_view kFimSeparatorId = "tokenizer.ggml.fim_sep_token_id";
inline constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
inline constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token";
inline constexpr std::string_view kAddSep = "tokenizer.ggml.add_sep_token";
inline constexpr std::string_view kAddSpacePrefix = "tokenizer.ggml.add_space_prefix";
inline constexpr std::string_view kRemoveExtraWhitespaces = "tokenizer.ggml.remove_extra_whitespaces";
inline constexpr std::string_view kPrecompiledCharsmap = "tokenizer.ggml.precompiled_charsmap";
inline constexpr std::string_view kLowercase = "tokenizer.ggml.normalizer.lowercase";
inline constexpr std::string_view kStripAccents = "tokenizer.ggml.normalizer.strip_accents";
inline constexpr std::string_view kChatTemplate = "tokenizer.chat_template";

inline constexpr std::string_view kShiftLogits = "diffusion.shift_logits";  // bool; absent: true

/// "{arch}.{suffix}", e.g. "llama.attention.head_count".
inline std::string arch_key(std::string_view arch, std::string_view suffix) {
  std::string key(arch);
  return key.append(".").append(suffix);
}

}  // namespace tessera::keys
