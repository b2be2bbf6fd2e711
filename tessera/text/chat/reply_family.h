// Reply families: the ways in which models write reasoning and tool calls. A family is a row of families.def, found by
// its name or by marks in a chat template, or a value that probe_reply_family() or a caller fills in. ReplyParser and
// write_calls() read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::text {

/// The syntax of a call.
enum class ReplyShape : uint8_t {
  text,         // no calls
  json,         // {"name": NAME, "arguments": {...}}, or a list of these
  key_json,     // {NAME: {...}}, or a list of these
  tagged_json,  // marks and the name, then a JSON object
  tagged_args,  // marks and the name, then marks, name and value of each argument
  python,       // NAME(key="value", other=1), or a list of these
  gemma,        // NAME{key:<|"|>value<|"|>,other:1}
  harmony,      // messages with a header that names the channel and the recipient
};

using Marks = std::vector<std::string>;

/// The type of an argument that a call states as text.
enum class ArgumentTyping : uint8_t {
  schema,  // by the schema of the tool
  text,    // a string
  json,    // JSON
};

/// A mark after the name of an argument, and the typing that it chooses.
struct ArgumentNameEnd {
  std::string mark;
  ArgumentTyping typing = ArgumentTyping::schema;
};

/// All that the parser knows of a family. The value owns its strings. An empty mark means that the family has no such
/// mark. If a mark that begins calls ends with '[' or '{', then this byte is also the first byte of the JSON text.
struct ReplyFamily {
  std::string name;
  Marks source_marks{};       // a template whose source has all of them is of this family; empty: by name only
  std::string suffix_mark{};  // text in the source before the suffix that replaces each {} in the marks, up to a quote
  ReplyShape shape = ReplyShape::text;

  // Reasoning.
  std::string reasoning_begin{};
  std::string reasoning_end{};
  bool has_many_reasonings = false;  // blocks may follow the first one

  // Content.
  Marks content_begin{};       // before the content; dropped
  Marks content_end{};         // after content that began with a mark of content_begin, if there are any; dropped
  Marks stray_marks{};         // dropped at the start and the end of the content
  bool has_citations = false;  // <co>text</co: sources> is text

  // Marks around calls.
  Marks section_begin{};     // before the first call; the writer uses the first of them, and a reply may lack it
  Marks section_end{};       // after the last call
  std::string call_begin{};  // before each call
  std::string call_end{};    // after each call; optional at the end of a reply
  Marks bare_begin{};        // begins calls at the start of the content only; such calls must name known tools
  std::string code_begin{};  // the rest of the reply is a call of a built-in tool, code, or a bare call
  std::string separator{};   // may stand between two bare calls

  // The form in which write_calls() writes calls. The parser reads all forms.
  bool writes_breaks = false;    // line breaks between marks
  bool writes_list = false;      // all calls in one list
  bool writes_sections = false;  // a section for each call

  // Shapes json and key_json.
  std::string list_key{};  // of an object around the list of calls
  Marks name_keys = {"name"};
  std::string arguments_key = "arguments";
  std::string id_key{};
  Marks known_keys{};          // further keys of a bare call; any other key makes it text
  std::string ignored_name{};  // a call of this tool means "no call"

  // Shapes tagged_json and tagged_args.
  std::string name_end{};       // empty: a line break, or the mark that follows
  std::string id_end{};         // before the name: an id ends here
  std::string id_begin{};       // after the name: an id follows, up to name_end
  bool name_is_in_id = false;   // the name is an id of the form functions.NAME:0
  bool has_recipients = false;  // call_begin counts only before the name of a known tool, or before "all" for content
  std::string arguments_end{};  // optional, before call_end
  std::string argument_begin{};
  std::vector<ArgumentNameEnd> argument_name_ends{};
  std::string value_begin{};       // optional, after the name of an argument
  std::string argument_end{};      // {} stands for the argument's name
  bool cuts_value_breaks = false;  // one line break at each end of a value is not part of it
  bool has_cdata = false;          // a value may be <![CDATA[text]]>
  std::string nested_mark{};       // before the tags of values that are objects and lists
};

/// Name of the family of templates that show no other.
inline constexpr std::string_view kGenericFamily = "generic";

/// All rows of families.def.
std::span<const ReplyFamily> reply_families();

/// Finds a family by its name, or by another name of the same format. Errors: not_found.
Result<ReplyFamily> find_reply_family(std::string_view name);

/// Returns the first family whose marks a template's source contains; without one, the generic family. Reasoning marks
/// that the source lacks are left out.
ReplyFamily reply_family_of_source(std::string_view source);

}  // namespace tessera::text
