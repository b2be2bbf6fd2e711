// tessera reply --batch: parses replies of models into content, reasoning and tool calls. For tests of templates, and
// to see what a parser makes of a text.
#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/json_row.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/reply_parser.h"

namespace tessera::cli {

namespace {

struct FormatName {
  std::string_view name;
  text::ReasoningFormat format;
};

constexpr FormatName kReasoningFormats[] = {{"auto", text::ReasoningFormat::separate},
                                            {"deepseek", text::ReasoningFormat::separate},
                                            {"none", text::ReasoningFormat::none},
                                            {"deepseek-legacy", text::ReasoningFormat::deepseek_legacy}};

Result<text::ReplyFamily> read_family(const JsonRow& row) {
  if (row.has("family") == row.has("source")) return fail(ErrorCode::format, "family and source: give one of them");
  if (row.has("source")) {
    TESSERA_ASSIGN(const std::string source, row.text("source"));
    const auto chat_template = text::ChatTemplate::create(source, {});
    return chat_template ? chat_template->reply_family() : text::reply_family_of_source(source);
  }
  TESSERA_ASSIGN(const std::string name, row.text("family"));
  return text::find_reply_family(name);
}

Result<text::ReplyOptions> read_options(const JsonRow& row) {
  text::ReplyOptions options;
  TESSERA_ASSIGN(options.parallel_calls, row.boolean("parallel_tool_calls", true));
  TESSERA_ASSIGN(options.seed, row.integer("seed"));
  if (!row.has("reasoning_format")) return options;
  TESSERA_ASSIGN(const std::string name, row.text("reasoning_format"));
  const auto found = std::ranges::find(kReasoningFormats, name, &FormatName::name);
  if (found == std::end(kReasoningFormats)) return fail(ErrorCode::format, "reasoning_format: '{}' is not known", name);
  options.reasoning = found->format;
  return options;
}

RowJson to_json(const text::Reply& reply) {
  RowJson calls = RowJson::array();
  for (const text::ToolCall& call : reply.calls)
    calls.push_back({{"name", call.name}, {"arguments", call.arguments}, {"id", call.id}});
  return {{"content", reply.content},
          {"reasoning", reply.reasoning},
          {"tool_calls", std::move(calls)},
          {"warnings", reply.warnings}};
}

class ReplyCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--batch", "", "read a JSON object per line, and print one per line", set_switch(is_batch_));
    table.common("--split", "N", "give the parser N bytes of a reply at a time",
                 set_integer(split_bytes_, 1, INT32_MAX), "the whole reply");
    table.common("--file -f", "FILE", "file with the lines; default: stdin", set_string(file_));
    return table;
  }

  Result<> check() override {
    if (!is_batch_) return fail(ErrorCode::invalid_argument, "no form of input: give --batch");
    return {};
  }

  Result<> run(Context& process) override {
    return answer_rows(file_, process.interrupt, [this](std::string_view line) { return answer_line(line); });
  }

 private:
  Result<RowJson> answer_line(std::string_view line) {
    TESSERA_ASSIGN(const RowJson json, parse_row(line));
    const JsonRow row(json);
    if (!row.has("raw")) return set_tools(row);
    TESSERA_ASSIGN(const auto family, read_family(row));
    TESSERA_ASSIGN(const auto tools, tools_of(row));
    TESSERA_ASSIGN(const auto options, read_options(row));
    TESSERA_ASSIGN(const auto prompt_tail, row.text("generation_prompt"));
    TESSERA_ASSIGN(const auto raw, row.text("raw"));
    TESSERA_ASSIGN(const auto finish, row.text("finish"));
    TESSERA_ASSIGN(const bool is_partial, row.boolean("partial", false));
    auto parser = text::ReplyParser::create(family, tools, prompt_tail, options);
    text::Reply so_far;
    const size_t n_piece = split_bytes_ == 0 ? raw.size() + 1 : static_cast<size_t>(split_bytes_);
    for (size_t i = 0; i < raw.size(); i += n_piece)
      join(so_far, parser.feed(std::string_view(raw).substr(i, n_piece)));
    if (is_partial) return to_json(so_far);
    return to_json(parser.finish(finish == "length" ? text::ReplyEnd::length : text::ReplyEnd::stop));
  }

  // A line with tools alone gives the tools of later lines with "tools": true.
  Result<RowJson> set_tools(const JsonRow& row) {
    if (!row.has("tools")) return fail(ErrorCode::format, "raw: is missing");
    TESSERA_ASSIGN(tools_, text::parse_reply_tools(row.at("tools").dump()));
    return RowJson{{"tools", tools_.size()}};
  }

  Result<std::vector<text::ReplyTool>> tools_of(const JsonRow& row) const {
    if (row.has("tools") && !row.at("tools").is_boolean()) return text::parse_reply_tools(row.at("tools").dump());
    TESSERA_ASSIGN(const bool has_tools, row.boolean("tools", false));
    return has_tools ? tools_ : std::vector<text::ReplyTool>();
  }

  bool is_batch_ = false;
  int32_t split_bytes_ = 0;
  std::string file_;
  std::vector<text::ReplyTool> tools_;
};

}  // namespace

std::unique_ptr<Command> create_reply_command() { return std::make_unique<ReplyCommand>(); }

}  // namespace tessera::cli
