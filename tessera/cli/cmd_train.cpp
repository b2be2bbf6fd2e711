// tessera train: trains a new model from a text, including its vocabulary.
#include <fmt/format.h>

#include <filesystem>

#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/train_args.h"
#include "tessera/gguf/keys.h"
#include "tessera/train/blueprint.h"
#include "tessera/train/tokenizer_trainer.h"

namespace tessera::cli {

namespace {

constexpr float kTrainLearningRate = 1e-3f;
constexpr int64_t kDefaultVocab = 4096;

class TrainCommand final : public Command {
 public:
  FlagTable flags() override;
  Result<> check() override;
  Result<> run(Context& process) override;

 private:
  Result<GgufBuilder> vocab(Context& process) const;
  Result<GgufBuilder> trained_vocab(Context& process) const;

  TrainArgs args_{kTrainLearningRate};
  train::ModelSizes sizes_;
  train::TokenizerTraining tokenizer_;
  int64_t n_vocab_ = 0;
  std::string vocab_from_;
};

FlagTable TrainCommand::flags() {
  FlagTable table;
  table.common("--arch", "NAME", "architecture: " + train::blueprint_architectures(), set_string(sizes_.architecture),
               sizes_.architecture);
  table.rare("--model-name", "TEXT", "name of the model (general.name)", set_string(sizes_.name));
  table.common("--n-layers", "N", "layers", set_integer(sizes_.n_layers, 1, 512));
  table.common("--n-embd", "N", "width of the embeddings", set_integer(sizes_.n_embd, 1, 1 << 20));
  table.common("--n-heads", "N", "number of attention heads", set_integer(sizes_.n_heads, 1, 4096));
  table.common("--n-heads-kv", "N", "number of key and value heads", set_integer(sizes_.n_heads_kv, 1, 4096),
               "--n-heads");
  table.common("--n-ff", "N", "width of the feed-forward blocks", set_integer(sizes_.n_ff, 1, 1 << 20),
               "8/3 of --n-embd; 4 times without a gate");
  table.rare("--rope-freq-base", "X", "base of the RoPE frequencies", set_real(sizes_.rope_base, 1.01f, 1e9f));
  table.rare("--untied", "", "give the output layer its own weights instead of the embedding's",
             set_switch(sizes_.ties_output, false));
  table.common(
      "--tokenizer", "KIND", "kind of vocabulary to train from the text: bpe, spm",
      [this](std::string_view text) -> Result<> {
        if (text != "bpe" && text != "spm") return fail(ErrorCode::invalid_argument, "'{}': want bpe or spm", text);
        tokenizer_.kind = text == "bpe" ? train::TokenizerKind::bpe : train::TokenizerKind::spm;
        return {};
      },
      "bpe");
  table.common("--vocab-size", "N", "its tokens",
               set_integer(n_vocab_, 1, static_cast<int64_t>(train::kMaxTrainedVocab)),
               fmt::format("{}", kDefaultVocab));
  table.common("--vocab-from", "FILE", "use the vocabulary of this model instead of training one",
               set_string(vocab_from_));
  args_.add_to(table);
  return table;
}

Result<> TrainCommand::check() {
  TESSERA_TRY(args_.check());
  if (!vocab_from_.empty() && n_vocab_ != 0)
    return fail(ErrorCode::invalid_argument, "--vocab-from and --vocab-size: give one of them");
  if (args_.n_ctx > 0) sizes_.n_ctx = args_.n_ctx;
  tokenizer_.n_vocab = to_size(n_vocab_ != 0 ? n_vocab_ : kDefaultVocab);
  return {};
}

Result<GgufBuilder> TrainCommand::trained_vocab(Context& process) const {
  train::TextReader reader(args_.texts, args_.separator);
  TESSERA_ASSIGN(const train::TrainedVocab vocab,
                 train::train_tokenizer([&] { return reader.next(); }, tokenizer_, &process.interrupt));
  if (!process.quiet)
    log(fmt::format("vocabulary: {} tokens, {:.2f} bytes each in the text{}", vocab.tokens.size(),
                    static_cast<double>(vocab.n_text_bytes) / static_cast<double>(vocab.n_text_tokens),
                    vocab.tokens.size() < tokenizer_.n_vocab ? " (no further pair occurs twice)" : ""));
  GgufBuilder builder;
  train::write_vocab(builder, vocab);
  return builder;
}

// Returns the vocabulary of the checkpoint if the run resumes.
Result<GgufBuilder> TrainCommand::vocab(Context& process) const {
  const std::string& from = args_.resume ? args_.checkpoint : vocab_from_;
  if (from.empty()) return trained_vocab(process);
  TESSERA_ASSIGN(const auto files, ModelFiles::open(from));
  if (files->metadata().find(keys::kTokenizerModel) == nullptr)
    return fail(ErrorCode::not_found, "{}: has no vocabulary", from);
  GgufBuilder builder;
  for (const Metadata::Entry& entry : files->metadata().entries())
    if (entry.key.starts_with("tokenizer.")) TESSERA_TRY(builder.set_value(entry.key, entry.value));
  return builder;
}

Result<> TrainCommand::run(Context& process) {
  TESSERA_TRY(require_writable(args_.output));  // before training a vocabulary, which is slow
  TESSERA_ASSIGN(const GgufBuilder vocab, this->vocab(process));
  TESSERA_ASSIGN(const auto blueprint, train::Blueprint::create(sizes_, vocab));
  return run_training(args_, {.files = blueprint->files(), .model = blueprint->model()}, process);
}

}  // namespace

std::unique_ptr<Command> create_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace tessera::cli
