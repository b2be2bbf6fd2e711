// tessera train: trains a new model from a text, including its vocabulary.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/template_args.h"
#include "tessera/cli/train_args.h"
#include "tessera/engine/vocab_loader.h"
#include "tessera/gguf/keys.h"
#include "tessera/text/utf8.h"
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
  Result<> set_conversation(GgufBuilder& vocab, Context& process) const;
  Result<> set_end_token(GgufBuilder& vocab, const text::Vocab& tokens) const;
  void add_vocab_flags(FlagTable& table);

  TrainArgs args_{kTrainLearningRate};
  train::ModelSizes sizes_;
  train::TokenizerTraining tokenizer_;
  int64_t n_vocab_ = 0;
  std::string vocab_from_;
  std::string end_token_;
  TemplateArgs template_;
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
  add_vocab_flags(table);
  args_.add_to(table);
  return table;
}

void TrainCommand::add_vocab_flags(FlagTable& table) {
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
  table.common("--control-token", "TEXT", "add this control token to the vocabulary; may be repeated; sets --special",
               [this](std::string_view text) -> Result<> {
                 tokenizer_.control_tokens.emplace_back(text);
                 return {};
               });
  table.common("--end-token", "TEXT", "control token that ends a turn, where generation stops", set_string(end_token_));
  table.common("--chat-template", "NAME", "built-in chat template, or a template, to write to the model",
               set_string(template_.name));
  table.common("--chat-template-file", "FILE", "file with the chat template to write to the model",
               set_string(template_.file));
}

Result<> TrainCommand::check() {
  TESSERA_TRY(args_.check());
  if (!vocab_from_.empty() && n_vocab_ != 0)
    return fail(ErrorCode::invalid_argument, "--vocab-from and --vocab-size: give one of them");
  std::vector<std::string>& controls = tokenizer_.control_tokens;
  if (!vocab_from_.empty() && !controls.empty())
    return fail(ErrorCode::invalid_argument, "--vocab-from and --control-token: give one of them");
  TESSERA_TRY(template_.check());
  if (!end_token_.empty() && vocab_from_.empty() && std::ranges::find(controls, end_token_) == controls.end())
    controls.push_back(end_token_);
  args_.special = args_.special || !controls.empty() || !end_token_.empty();
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

Result<> TrainCommand::set_end_token(GgufBuilder& vocab, const text::Vocab& tokens) const {
  if (end_token_.empty()) return {};
  const auto id = tokens.find(end_token_);
  if (!id) return fail(ErrorCode::not_found, "--end-token {}: not in the vocabulary", text::quote_text(end_token_));
  vocab.set(keys::kEotId, static_cast<uint32_t>(*id));
  return {};
}

// Adds the end token and the chat template, which must parse.
Result<> TrainCommand::set_conversation(GgufBuilder& vocab, Context& process) const {
  const bool has_template = !template_.name.empty() || !template_.file.empty();
  if (end_token_.empty() && !has_template) return {};
  TESSERA_ASSIGN(const auto bytes, vocab.header());
  TESSERA_ASSIGN(const auto file, GgufFile::parse(bytes, "the new vocabulary"));
  TESSERA_ASSIGN(text::VocabData data, load_vocab_data(file->metadata()));
  TESSERA_ASSIGN(const auto tokens, text::Vocab::create(std::move(data)));
  TESSERA_TRY(set_end_token(vocab, *tokens));
  if (!has_template) return {};
  TESSERA_ASSIGN(std::string source, template_.source(nullptr, false, process));
  TESSERA_TRY(create_chat_template(source, chat_tokens(*tokens), process));
  vocab.set(keys::kChatTemplate, std::move(source));
  return {};
}

// Returns the vocabulary of the checkpoint if the run resumes.
Result<GgufBuilder> TrainCommand::vocab(Context& process) const {
  const std::string& from = args_.resume ? args_.checkpoint : vocab_from_;
  if (from.empty()) {
    TESSERA_ASSIGN(GgufBuilder builder, trained_vocab(process));
    TESSERA_TRY(set_conversation(builder, process));
    return builder;
  }
  TESSERA_ASSIGN(const auto files, ModelFiles::open(from));
  if (files->metadata().find(keys::kTokenizerModel) == nullptr)
    return fail(ErrorCode::not_found, "{}: has no vocabulary", from);
  GgufBuilder builder;
  for (const Metadata::Entry& entry : files->metadata().entries())
    if (entry.key.starts_with("tokenizer.")) TESSERA_TRY(builder.set_value(entry.key, entry.value));
  if (!args_.resume) TESSERA_TRY(set_conversation(builder, process));
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
