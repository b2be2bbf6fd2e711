#include "tessera/text/chat/reply_marks.h"

namespace tessera::text {
namespace {

constexpr std::string_view kHarmonyEnds[] = {"<|end|>", "<|return|>", "<|call|>"};

void add_all(ReplyMarks& marks, const Marks& texts, ReplyMark mark, const CallStart& start = {CallStart::At::call}) {
  for (const std::string& text : texts) marks.add(text, mark, start);
}

void add_recipients(ReplyMarks& marks, std::string_view prefix, const ReplyFamily& family, const ToolSet& tools) {
  const auto mark_of = [&](std::string_view name) { return std::string(prefix) + std::string(name) + family.name_end; };
  marks.add(mark_of(kContentRecipient), ReplyMark::message_begin);
  const std::vector<std::string> names = tools.names();
  for (const std::string& name : names) marks.add(mark_of(name), ReplyMark::call, {CallStart::At::arguments, name});
}

void add_call_marks(ReplyMarks& marks, const ReplyFamily& family, const ToolSet& tools) {
  if (tools.is_empty() || family.shape == ReplyShape::harmony) return;
  if (family.has_recipients) return add_recipients(marks, family.call_begin, family, tools);
  add_all(marks, family.section_begin, ReplyMark::call, {CallStart::At::section});
  marks.add(family.call_begin, ReplyMark::call);
  marks.add(family.code_begin, ReplyMark::call, {CallStart::At::code});
}

void add_harmony_marks(ReplyMarks& marks) {
  marks.add(kHarmonyStart, ReplyMark::header);
  marks.add(kHarmonyChannel, ReplyMark::channel);
  for (const std::string_view end : kHarmonyEnds) marks.add(end, ReplyMark::end_of_message);
}

}  // namespace

ReplyMarkTables::ReplyMarkTables(const ReplyFamily& family, const ToolSet& tools, ReasoningEnds ends) {
  const bool is_harmony = family.shape == ReplyShape::harmony;
  if (!is_harmony) start.add(family.reasoning_begin, ReplyMark::open_reasoning);
  if (!is_harmony && family.has_many_reasonings) content.add(family.reasoning_begin, ReplyMark::open_reasoning);
  if (!is_harmony) reasoning.add(family.reasoning_end, ReplyMark::close_reasoning);
  add_all(content, family.content_end, ReplyMark::content_end);
  if (!tools.is_empty()) add_all(start, family.bare_begin, ReplyMark::call, {CallStart::At::bare});
  for (ReplyMarks* marks : {&start, &content}) {
    add_all(*marks, family.content_begin, ReplyMark::content_begin);
    if (!is_harmony && ends == ReasoningEnds::marked) marks->add(family.reasoning_end, ReplyMark::close_reasoning);
    add_all(*marks, family.stray_marks, ReplyMark::stray);
    if (family.has_citations) marks->add("<co>", ReplyMark::citation);
    if (family.has_citations) marks->add("</co:", ReplyMark::citation_end);
    add_call_marks(*marks, family, tools);
  }
  if (!is_harmony) return;
  for (ReplyMarks* marks : {&start, &content, &reasoning}) add_harmony_marks(*marks);
  header.add(kHarmonyMessage, ReplyMark::message_begin);
  header.add("<|start|>", ReplyMark::stray);
  for (const std::string_view end : kHarmonyEnds) header.add(end, ReplyMark::stray);
}

void ReplyMarkTables::add_recipients_at_start(const ReplyFamily& family, const ToolSet& tools) {
  add_recipients(start, "", family, tools);
}

}  // namespace tessera::text
