#include "tessera/gguf/lora_file.h"

#include <cmath>
#include <optional>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/printable.h"

namespace tessera {

namespace {

constexpr std::string_view kDownEnding = ".lora_a", kUpEnding = ".lora_b";
constexpr std::string_view kTokenTable = "token_embd.weight";
constexpr int64_t kMaxLoraRank = int64_t{1} << 16;  // far above any adapter

Result<> require_text(const ModelFiles& files, std::string_view key, std::string_view wanted) {
  TESSERA_ASSIGN(const auto text, files.metadata().get<std::string_view>(key));
  if (text == wanted) return {};
  return fail(ErrorCode::unsupported, "{}: key '{}' is {}, want \"{}\"", files.name(), key, quote_name(text), wanted);
}

}  // namespace

Result<LoraFile> LoraFile::open(const std::string& path, const ModelFiles& base) {
  TESSERA_ASSIGN(auto files, ModelFiles::open(path));
  LoraFile lora(std::move(files));
  TESSERA_TRY(lora.read_keys(base));
  TESSERA_TRY(lora.read_pairs(base));
  return lora;
}

Result<> LoraFile::read_keys(const ModelFiles& base) {
  const Metadata& metadata = files_->metadata();
  TESSERA_TRY(require_text(*files_, keys::kType, "adapter"));
  TESSERA_TRY(require_text(*files_, keys::kAdapterType, "lora"));
  TESSERA_ASSIGN(const auto architecture, metadata.get<std::string_view>(keys::kArchitecture));
  TESSERA_ASSIGN(const auto of_base, base.metadata().get<std::string_view>(keys::kArchitecture));
  if (architecture != of_base)
    return fail(ErrorCode::mismatch, "{}: an adapter for architecture {}, the model {} is {}", name(),
                quote_name(architecture), base.name(), quote_name(of_base));
  if (metadata.find(keys::kAdapterInvocationTokens) != nullptr)
    return fail(ErrorCode::unsupported, "{}: adapters that some tokens switch on (key '{}') are not supported", name(),
                keys::kAdapterInvocationTokens);
  TESSERA_ASSIGN(alpha_, metadata.get_or<float>(keys::kAdapterLoraAlpha, 0.0f));
  if (!std::isfinite(alpha_))
    return fail(ErrorCode::format, "{}: key '{}' is {}, want a finite number", name(), keys::kAdapterLoraAlpha, alpha_);
  TESSERA_ASSIGN(task_name_, metadata.get_or<std::string_view>(keys::kAdapterTaskName, ""));
  TESSERA_ASSIGN(prompt_prefix_, metadata.get_or<std::string_view>(keys::kAdapterPromptPrefix, ""));
  return {};
}

Result<> LoraFile::read_pairs(const ModelFiles& base) {
  for (const ModelFiles::Tensor& tensor : files_->tensors()) {
    const std::string_view full = tensor.info.name;
    const bool is_down = full.ends_with(kDownEnding);
    if (!is_down && !full.ends_with(kUpEnding))
      return fail(ErrorCode::unsupported, "{}: tensor {}: want names that end in {} or {}", name(), quote_name(full),
                  kDownEnding, kUpEnding);
    const std::string_view weight = full.substr(0, full.size() - kDownEnding.size());
    const std::string other = std::string(weight).append(is_down ? kUpEnding : kDownEnding);
    const ModelFiles::Tensor* partner = files_->find_tensor(other);
    if (partner == nullptr)
      return fail(ErrorCode::format, "{}: tensor {} without {}", name(), quote_name(full), quote_name(other));
    if (!is_down) continue;
    LoraPair pair{.weight = base.find_tensor(weight), .down = &tensor, .up = partner};
    if (pair.weight == nullptr)
      return fail(ErrorCode::mismatch, "{}: tensor {}: the model {} has no {}", name(), quote_name(full), base.name(),
                  quote_name(weight));
    TESSERA_TRY(require_fit(pair));
    pairs_.push_back(pair);
  }
  if (pairs_.empty()) return fail(ErrorCode::format, "{}: an adapter without tensors", name());
  return {};
}

Result<> LoraFile::require_fit(LoraPair& pair) const {
  const Shape &w = pair.weight->info.shape, &down = pair.down->info.shape, &up = pair.up->info.shape;
  pair.is_table = pair.weight->info.name == kTokenTable;
  pair.rank = up[0];
  const Shape want_down = pair.is_table ? Shape{pair.rank, w[1]} : Shape{w[0], pair.rank, w[2], w[3]};
  const Shape want_up = pair.is_table ? Shape{pair.rank, w[0]} : Shape{pair.rank, w[1], w[2], w[3]};
  if (down != want_down || up != want_up || (pair.is_table && w[2] * w[3] != 1))
    return fail(ErrorCode::mismatch, "{}: {} {} and {} {} do not fit the model's {} {}", name(),
                quote_name(pair.down->info.name), to_string(down), quote_name(pair.up->info.name), to_string(up),
                quote_name(pair.weight->info.name), to_string(w));
  if (pair.rank > kMaxLoraRank)
    return fail(ErrorCode::limit, "{}: tensor {}: rank {}, limit {}", name(), quote_name(pair.up->info.name), pair.rank,
                kMaxLoraRank);
  return {};
}

}  // namespace tessera
