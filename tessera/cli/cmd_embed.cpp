// tessera embed: converts texts to vectors, or to the scores of a ranking model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/text_args.h"
#include "tessera/engine/embedding.h"

namespace tessera::cli {

namespace {

enum class Format : uint8_t { json, array, raw };

Setter set_format(Format& target) {
  return [&target](std::string_view text) -> Result<> {
    constexpr std::pair<std::string_view, Format> kNames[] = {
        {"json", Format::json}, {"array", Format::array}, {"raw", Format::raw}};
    for (const auto& [name, format] : kNames)
      if (name == text) {
        target = format;
        return {};
      }
    return fail(ErrorCode::invalid_argument, "'{}' is not one of json, array, raw", text);
  };
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The tokens of a text, or of "QUERY<tab>DOCUMENT" for a ranking model.
Result<std::vector<int32_t>> tokens_of(const Engine& engine, std::string_view text, nn::Pooling pooling) {
  const size_t tab = pooling == nn::Pooling::rank ? text.find('\t') : std::string_view::npos;
  if (tab == std::string_view::npos) return engine.tokenizer().tokenize(text, {.add_special = true});
  return rank_tokens(engine, text.substr(0, tab), text.substr(tab + 1));
}

class EmbedCommand final : public Command {
 public:
  FlagTable flags() override;
  Result<> check() override;
  Result<> run(Context& process) override;

 private:
  Result<std::vector<std::vector<int32_t>>> read_tokens(const Engine& engine, nn::Pooling pooling,
                                                        const Context& process) const;
  // Formats the result of text i as one item of the output.
  std::string item(size_t i, nn::Pooling pooling, std::span<const float> values, size_t n_embd) const;

  ModelArgs model_;
  ContextArgs context_;
  TextArgs text_;
  std::optional<nn::Pooling> pooling_;
  int32_t norm_ = 2;
  Format format_ = Format::json;
};

FlagTable EmbedCommand::flags() {
  FlagTable table;
  model_.add_to(table);
  text_.add_to(table);
  table.flags.back().help = "file with one text per line; default without -p: stdin";
  table.common(
      "--pooling", "KIND",
      "pooling: none (a vector per token), mean, cls (first token), last, rank (scores of QUERY<tab>DOCUMENT)",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(pooling_, nn::pooling_from_name(text));
        return {};
      },
      "the model's, or mean");
  table.common("--embd-normalize", "N",
               "normalization of vectors: -1: none; 0: largest magnitude 32760; 1: taxicab; 2: Euclidean; N: p-norm",
               set_integer(norm_, -1, 1024));
  table.common("--embd-output-format", "KIND",
               "json (OpenAI's format), array (of arrays), raw (a line of numbers per vector)", set_format(format_),
               "json");
  context_.add_to(table);
  return table;
}

Result<> EmbedCommand::check() {
  TESSERA_TRY(model_.check());
  TESSERA_TRY(text_.check());
  return context_.check();
}

Result<std::vector<std::vector<int32_t>>> EmbedCommand::read_tokens(const Engine& engine, nn::Pooling pooling,
                                                                    const Context& process) const {
  TESSERA_ASSIGN(const std::string text, text_.read(process));
  const std::vector<std::string_view> texts = text_.text ? std::vector<std::string_view>{text} : lines_of(text);
  std::vector<std::vector<int32_t>> lists;
  for (size_t i = 0; i < texts.size(); ++i) {
    auto tokens = tokens_of(engine, texts[i], pooling);
    if (!tokens) return forward_error(tokens, fmt::format("text {}", i));
    lists.push_back(std::move(*tokens));
  }
  return lists;
}

Result<> EmbedCommand::run(Context& process) {
  TESSERA_ASSIGN(LoadedModel model, open_model(model_, context_));
  TESSERA_ASSIGN(const nn::Pooling pooling, embedding_pooling(*model.engine, pooling_));
  TESSERA_ASSIGN(const auto texts, read_tokens(*model.engine, pooling, process));
  TESSERA_ASSIGN(context_.session, embedding_session(*model.engine, texts, pooling, context_.session));
  TESSERA_TRY(load_session(model, context_, process));
  const auto n_embd = to_size(model.engine->model().info().n_embd);
  std::vector<float> vectors;
  Output out;
  if (format_ == Format::json) TESSERA_TRY(out.append("{\"object\": \"list\", \"data\": [\n"));
  if (format_ == Format::array) TESSERA_TRY(out.append("["));
  const auto print_one = [&](size_t i, std::span<const float> values) -> Result<> {
    vectors.assign(values.begin(), values.end());
    if (pooling != nn::Pooling::rank)
      for (size_t begin = 0; begin < vectors.size(); begin += n_embd)
        normalize(std::span(vectors).subspan(begin, n_embd), norm_);
    if (i > 0 && format_ != Format::raw) TESSERA_TRY(out.append(",\n"));
    return out.append(item(i, pooling, vectors, n_embd));
  };
  TESSERA_TRY(embed(*model.session, texts, pooling, print_one, &process.interrupt));
  if (format_ != Format::raw) TESSERA_TRY(out.append(format_ == Format::json ? "\n]}\n" : "]\n"));
  return out.finish();
}

std::string EmbedCommand::item(size_t i, nn::Pooling pooling, std::span<const float> values, size_t n_embd) const {
  std::string text;
  if (pooling == nn::Pooling::none) {
    for (size_t begin = 0; begin < values.size(); begin += n_embd) {
      const auto row = values.subspan(begin, n_embd);
      if (format_ == Format::raw)
        text += fmt::format("{}\n", fmt::join(row, " "));
      else
        text += fmt::format("{}[{}]", begin == 0 ? "" : ", ", fmt::join(row, ", "));
    }
  } else {
    text = format_ == Format::raw ? fmt::format("{}\n", fmt::join(values, " "))
                                  : fmt::format("{}", fmt::join(values, ", "));
  }
  if (format_ == Format::raw) return text;
  if (format_ == Format::array) return fmt::format("[{}]", text);
  const bool is_rank = pooling == nn::Pooling::rank;
  return fmt::format("{{\"object\": \"{}\", \"index\": {}, \"{}\": [{}]}}", is_rank ? "rank" : "embedding", i,
                     is_rank ? "scores" : "embedding", text);
}

}  // namespace

std::unique_ptr<Command> create_embed_command() { return std::make_unique<EmbedCommand>(); }

}  // namespace tessera::cli
