// tessera finetune: trains a model further on a text, either all of its weights or an adapter.
#include <fmt/format.h>

#include <filesystem>

#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/train_args.h"
#include "tessera/train/lora.h"

namespace tessera::cli {

namespace {

constexpr float kFinetuneLearningRate = 2e-4f;

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) names.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

class FinetuneCommand final : public Command {
 public:
  FlagTable flags() override;
  Result<> check() override;
  Result<> run(Context& process) override;

 private:
  TrainArgs args_{kFinetuneLearningRate};
  std::string model_;
  bool is_lora_ = false, has_lora_option_ = false;
  train::LoraOptions lora_;
};

FlagTable FinetuneCommand::flags() {
  FlagTable table;
  add_model_flag(table, model_);
  table.common("--lora", "", "train a LoRA adapter instead of the weights, which may be quantized",
               set_switch(is_lora_));
  table.common("--rank", "N", "rank of the adapter", noting(has_lora_option_, set_integer(lora_.rank, 1, 4096)));
  table.common("--alpha", "X", "the adapter is scaled by alpha / rank",
               noting(has_lora_option_, set_real(lora_.alpha, 1e-6f, 1e6f)));
  table.common("--targets", "NAMES", "matrices that get an adapter, e.g. attn_q,attn_v",
               noting(has_lora_option_,
                      [this](std::string_view text) -> Result<> {
                        lora_.targets = split_names(text);
                        lora_.has_default_targets = false;
                        if (lora_.targets.empty())
                          return fail(ErrorCode::invalid_argument, "want names, e.g. attn_q,attn_v");
                        return {};
                      }),
               "all of attention and feed-forward");
  args_.add_to(table);
  return table;
}

Result<> FinetuneCommand::check() {
  TESSERA_TRY(require_model(model_));
  TESSERA_TRY(args_.check());
  if (has_lora_option_ && !is_lora_)
    return fail(ErrorCode::invalid_argument, "--rank, --alpha and --targets require --lora");
  if (is_lora_ && args_.type != DType::f32)
    return fail(ErrorCode::invalid_argument, "--type {}: an adapter is trained and written in f32",
                info(args_.type).name);
  return {};
}

Result<> FinetuneCommand::run(Context& process) {
  std::error_code none;
  if (std::filesystem::equivalent(model_, args_.output, none))
    return fail(ErrorCode::invalid_argument, "{}: is the input: give another output", args_.output);
  TESSERA_ASSIGN(const auto files, ModelFiles::open(model_));
  TESSERA_ASSIGN(const auto model, create_model(*files, {}));
  std::unique_ptr<train::Lora> lora;
  if (is_lora_) {
    TESSERA_ASSIGN(lora, train::Lora::create(*model, lora_));
  }
  return run_training(args_, {.files = *files, .model = *model, .lora = lora.get()}, process);
}

}  // namespace

std::unique_ptr<Command> create_finetune_command() { return std::make_unique<FinetuneCommand>(); }

}  // namespace tessera::cli
