#include "tessera/server/api/infill.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/generation_task.h"
#include "tessera/server/api/native_completion.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

namespace {

using Tokens = std::vector<int32_t>;
using text::SpecialToken;

constexpr size_t kMaxInfillFiles = 4096;

FieldResult<Tokens> plain_tokens(const ServedModel& model, std::string_view text, std::string field) {
  auto tokens = model.tokenizer().tokenize(text);
  if (!tokens) return std::unexpected(field_error_of(tokens.error(), std::move(field)));
  return std::move(*tokens);
}

void append_tokens(Tokens& tokens, const Tokens& more) { tokens.insert(tokens.end(), more.begin(), more.end()); }

// The files with their marks. A vocabulary without a mark of files gets a line instead.
FieldResult<Tokens> file_tokens(const ServedModel& model, const InfillCall& call) {
  const text::Vocab& vocab = model.vocab();
  const auto repo = vocab.special(SpecialToken::fim_repo), separator = vocab.special(SpecialToken::fim_separator);
  Tokens tokens;
  if (call.files.empty()) return tokens;
  const auto add_text = [&](std::string_view text) -> FieldResult<> {
    auto more = plain_tokens(model, text, "input_extra");
    if (!more) return forward_error(more);
    append_tokens(tokens, *more);
    return {};
  };
  if (repo) {
    tokens.push_back(*repo);
    TESSERA_READ(add_text("project\n"));
  }
  const auto begin_file = [&](std::string_view name) -> FieldResult<> {
    if (!separator) return add_text("\n\n--- snippet ---\n\n");
    tokens.push_back(*separator);
    return add_text(fmt::format("{}\n", name));
  };
  for (const InfillFile& file : call.files) {
    TESSERA_READ(begin_file(file.name));
    TESSERA_READ(add_text(file.text));
  }
  if (separator) TESSERA_READ(begin_file("filename"));
  return tokens;
}

FieldResult<std::vector<InfillFile>> read_files(const FieldReader& reader) {
  std::vector<InfillFile> files;
  const auto list = reader.list("input_extra", kMaxInfillFiles);
  if (!list) return std::unexpected(list.error());
  for (size_t i = 0; *list != nullptr && i < (*list)->size(); ++i) {
    auto file = FieldReader::create((**list)[i], fmt::format("input_extra[{}]", i));
    if (!file) return forward_error(file);
    const auto text = file->required_text("text");
    const auto name = file->text("filename");
    if (!text) return std::unexpected(text.error());
    if (!name) return std::unexpected(name.error());
    files.push_back({std::string(name->value_or("tmp")), std::string(*text)});
  }
  return files;
}

}  // namespace

bool can_infill(const ServedModel& model) {
  const text::Vocab& vocab = model.vocab();
  return vocab.has_text() && vocab.special(SpecialToken::fim_prefix) && vocab.special(SpecialToken::fim_suffix) &&
         vocab.special(SpecialToken::fim_middle);
}

FieldResult<Tokens> infill_tokens(const ServedModel& model, const InfillCall& call) {
  const text::Vocab& vocab = model.vocab();
  auto prefix = plain_tokens(model, call.prefix, "input_prefix"), suffix = plain_tokens(model, call.suffix, "suffix"),
       begin = plain_tokens(model, call.begin, "prompt"), files = file_tokens(model, call);
  for (auto* part : {&prefix, &suffix, &begin, &files})
    if (!*part) return forward_error(*part);
  const int64_t context = model.slot_context();
  const int64_t batch = std::min(model.options().scheduler.n_batch, context * 3 / 4);
  const int64_t n_prefix = std::min(std::ssize(*prefix), batch * 3 / 4);
  const int64_t n_suffix = std::clamp<int64_t>(batch / 4 - 2 - std::ssize(*begin), 0, std::ssize(*suffix));
  Tokens tail = {*vocab.special(SpecialToken::fim_prefix)};
  tail.insert(tail.end(), prefix->end() - n_prefix, prefix->end());
  tail.push_back(*vocab.special(SpecialToken::fim_suffix));
  tail.insert(tail.end(), suffix->begin(), suffix->begin() + n_suffix);
  tail.push_back(*vocab.special(SpecialToken::fim_middle));
  append_tokens(tail, *begin);

  const int64_t n_answer = call.n_predict < 0 ? context / 4 : std::min(call.n_predict, context / 4);
  const int64_t n_files = std::clamp<int64_t>(context - std::ssize(tail) - 1 - n_answer, 0, std::ssize(*files));
  Tokens tokens;
  const auto bos = vocab.special(SpecialToken::bos);
  if (vocab.add_bos() && bos) tokens.push_back(*bos);
  tokens.insert(tokens.end(), files->end() - n_files, files->end());
  append_tokens(tokens, tail);
  return tokens;
}

FieldResult<> start_infill(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  if (!can_infill(model))
    return std::unexpected(FieldError{.status = 501,
                                      .type = "not_supported_error",
                                      .message = "Infill is not supported by this model: its vocabulary has no marks "
                                                 "for prefix, suffix and middle"});
  constexpr std::string_view kOwn[] = {"prompt", "input_prefix", "input_suffix", "input_extra"};
  const GenerationLimits limits = generation_limits(context, model, exchange->request().client);
  auto read = read_generation_fields(reader->json(), context.defaults_of(model), limits, kOwn);
  if (!read) return forward_error(read);
  const auto prefix = reader->required_text("input_prefix"), suffix = reader->required_text("input_suffix");
  const auto begin = reader->text("prompt");
  if (!prefix) return std::unexpected(prefix.error());
  if (!suffix) return std::unexpected(suffix.error());
  if (!begin) return std::unexpected(begin.error());
  auto files = read_files(*reader);
  if (!files) return forward_error(files);
  auto tokens = infill_tokens(model, {.prefix = *prefix,
                                      .suffix = *suffix,
                                      .begin = begin->value_or(""),
                                      .files = std::move(*files),
                                      .n_predict = read->fields.n_predict});
  if (!tokens) return forward_error(tokens);
  std::vector<Tokens> prompts;
  prompts.push_back(std::move(*tokens));
  return start_native_prompts(context, model, exchange, std::move(*read), std::move(prompts));
}

}  // namespace tessera::server
