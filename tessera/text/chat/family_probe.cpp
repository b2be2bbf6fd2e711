// A sample is a prompt that ends with an answer: plain, with a call, with two calls, or with text and a call. The marks
// of a call are the text that these samples share, or that a plain answer lacks. The result is tried: its parser must
// read the calls of the samples.
#include "tessera/text/chat/family_probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/text/chat/json_reader.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/probe.h"
#include "tessera/text/chat/reply_parser.h"
#include "tessera/text/chat/sample_diff.h"

namespace tessera::text {
namespace {

constexpr size_t kMaxSampleBytes = size_t{64} << 10;
constexpr size_t kMaxProbedMarkBytes = 256;
constexpr size_t kMaxTriedBraces = 16;

struct Samples {
  std::string answer;  // plain
  std::string one;     // a call with two arguments
  std::string two;     // two such calls, the second with the name and id of the first
  std::string beside;  // a text and a call
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

Samples render_samples(const jinja::Template& chat_template, const ChatCapabilities& caps, std::string_view bos,
                       std::string_view eos) {
  probe::Probe probe(chat_template, bos, eos);
  probe.enable_thinking = caps.reasoning_marker;
  const auto render = [&](const auto& add_answer) {
    return probe.render([&](jinja::Heap& heap, jinja::List& messages) {
      probe::add_user(heap, messages);
      add_answer(heap, messages);
    });
  };
  const auto render_calls = [&](bool is_parallel, std::string_view content) {
    const probe::Calls calls{.form = {caps.arguments, caps.call_content},
                             .is_parallel = is_parallel,
                             .has_number = true,
                             .content = content};
    return render([&](jinja::Heap& heap, jinja::List& messages) { probe::add_calls(heap, messages, calls); });
  };
  Samples samples;
  samples.answer = render([](jinja::Heap& heap, jinja::List& messages) {
    messages.items.push_back(probe::message(heap, "assistant", heap.text(probe::kAnswer)));
  });
  samples.one = render_calls(false, "");
  if (caps.parallel) samples.two = render_calls(true, "");
  replace_all(samples.two, probe::kSecondTool, probe::kTool);
  replace_all(samples.two, probe::kSecondId, probe::kFirstId);
  samples.beside = render_calls(false, probe::kAnswer);
  return samples;
}

/// A part of a sample.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

std::string_view slice(std::string_view text, size_t begin, size_t end) { return text.substr(begin, end - begin); }

// The innermost JSON object that covers a part of the text.
std::optional<Span> object_around(std::string_view text, Span part) {
  size_t brace = part.begin + 1;
  for (size_t i = 0; i < kMaxTriedBraces && brace > 0; ++i) {
    brace = text.rfind('{', brace - 1);
    if (brace == text.npos) return {};
    JsonReader reader;
    const JsonProgress progress = reader.read(text.substr(brace));
    const size_t end = brace + progress.n_bytes;
    if (progress.state == JsonState::done && end >= part.end) return Span{brace, end};
  }
  return {};
}

/// The words of a call in a sample.
struct CallWords {
  size_t name, key, value, number_key, number;

  size_t name_end() const { return name + probe::kTool.size(); }
  size_t key_end() const { return key + probe::kKey.size(); }
  size_t value_end() const { return value + probe::kValue.size(); }
  size_t number_key_end() const { return number_key + probe::kNumberKey.size(); }
  size_t number_end() const { return number + probe::kNumber.size(); }
  bool is_in_order() const { return name < key && key < value && value < number_key && number_key < number; }
};

std::optional<CallWords> find_words(std::string_view text, size_t from) {
  CallWords words{};
  words.name = text.find(probe::kTool, from);
  words.key = text.find(probe::kKey, from);
  words.number_key = text.find(probe::kNumberKey, from);
  if (words.name == text.npos || words.key == text.npos || words.number_key == text.npos) return {};
  words.value = text.find(probe::kValue, words.key);
  words.number = text.find(probe::kNumber, words.number_key);
  if (words.value == text.npos || words.number == text.npos) return {};
  return words;
}

std::string trimmed(std::string_view text) { return std::string(trim_json(text)); }
std::string_view trimmed_front(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kJsonBlanks), text.size()));
}

// The marks of a known family that the source has.
void take_reasoning_marks(std::string_view source, ReplyFamily& family) {
  for (const ReplyFamily& row : reply_families()) {
    const bool has_marks = !row.reasoning_begin.empty() && row.shape != ReplyShape::harmony &&
                           row.suffix_mark.empty() && source.contains(row.reasoning_begin) &&
                           source.contains(row.reasoning_end);
    if (!has_marks) continue;
    family.reasoning_begin = row.reasoning_begin;
    family.reasoning_end = row.reasoning_end;
    return;
  }
}

// Reads the syntax of a call off the samples, from the inside out.
class FamilyReader {
 public:
  FamilyReader(const Samples& samples, std::string_view source) : samples_(samples) {
    take_reasoning_marks(source, family_);
  }

  std::optional<ReplyFamily> read() {
    const std::string_view one = samples_.one;
    front_ = common_front(samples_.answer, one);
    const auto words = find_words(one, front_);
    if (!words || !read_shape(one, *words)) return {};
    const auto call = find_call(one, front_);
    if (!call || call->begin < front_) return {};
    cut_front(*call);
    before_ = without_reasoning(slice(one, front_, call->begin));
    after_ = without_tail(one.substr(call->end));
    reply_ = slice(one, call->begin - before_.size(), call->end + after_.size());
    read_marks(text_between_calls());
    split_ids();
    if (!is_usable()) return {};
    return family_;
  }

  /// The replies of the samples with one call and with two; empty: no such sample.
  std::string_view reply() const { return reply_; }
  std::string_view reply_of_two() const { return reply_of_two_; }

 private:
  bool read_shape(std::string_view text, const CallWords& words) {
    const auto arguments = object_around(text, {words.key, words.number_end()});
    if (arguments) {
      const auto object = object_around(text, {std::min(words.name, arguments->begin - (arguments->begin > 0)),
                                               std::max(words.name_end(), arguments->end)});
      if (object) return read_json(slice(text, object->begin, object->end), *arguments, text);
      return words.name < arguments->begin && read_tagged_json(slice(text, words.name_end(), arguments->begin));
    }
    if (!words.is_in_order()) return false;
    return read_function(text, words) || read_tagged_args(text, words);
  }

  // The keys of an object with the name and the arguments.
  bool read_json(std::string_view object, const Span& arguments, std::string_view text) {
    const auto members = json_members(object);
    if (!members) return false;
    family_.name_keys.clear();
    family_.arguments_key.clear();
    for (const JsonMember& member : *members) {
      const auto value = json_string(member.value);
      const bool is_arguments = member.value.data() == text.data() + arguments.begin;
      if (is_arguments && member.key == probe::kTool) {
        family_.shape = ReplyShape::key_json;
        return members->size() == 1;
      }
      if (is_arguments)
        family_.arguments_key = member.key;
      else if (value == probe::kTool)
        family_.name_keys.push_back(member.key);
      else if (value == probe::kFirstId || (value && member.key.ends_with("id")))  // some count the calls
        family_.id_key = member.key;
      else
        family_.known_keys.push_back(member.key);
    }
    family_.shape = ReplyShape::json;
    return !family_.name_keys.empty() && !family_.arguments_key.empty();
  }

  bool read_tagged_json(std::string_view between) {
    family_.shape = ReplyShape::tagged_json;
    const size_t id = between.find(probe::kFirstId);
    if (id != between.npos) {
      family_.id_begin = between.substr(0, id);
      between.remove_prefix(id + probe::kFirstId.size());
    }
    family_.name_end = trimmed(between);
    if (family_.name_end.empty()) family_.name_end = between;
    return !family_.name_end.empty();
  }

  // Calls with the look of a function: name(key="value", number=1), or name{key:<|"|>value<|"|>,number:1}.
  bool read_function(std::string_view text, const CallWords& words) {
    const std::string_view open = slice(text, words.name_end(), words.key);
    const std::string_view begin = slice(text, words.key_end(), words.value);
    const std::string_view number_begin = slice(text, words.number_key_end(), words.number);
    const std::string_view close = text.substr(words.number_end(), 1);
    const bool is_python = open == "(" && number_begin == "=" && (begin == "='" || begin == "=\"") && close == ")";
    const bool is_gemma = open == "{" && number_begin == ":" && begin == ":<|\"|>" && close == "}";
    family_.shape = is_python ? ReplyShape::python : ReplyShape::gemma;
    return is_python || is_gemma;
  }

  // Marks around the names and the values of arguments.
  bool read_tagged_args(std::string_view text, const CallWords& words) {
    family_.shape = ReplyShape::tagged_args;
    std::string between(slice(text, words.value_end(), words.number_key));
    std::string tail(text.substr(words.number_end()));
    std::string_view name_end = slice(text, words.key_end(), words.value);
    std::string_view number_name_end = slice(text, words.number_key_end(), words.number);
    const bool is_json = name_end.ends_with('"') && between.starts_with('"') && !number_name_end.ends_with('"');
    if (is_json) {
      name_end.remove_suffix(1);
      between.erase(0, 1);
    }
    replace_all(between, probe::kKey, "{}");
    replace_all(tail, probe::kNumberKey, "{}");
    const std::string end = between.substr(0, common_front(between, tail));
    family_.cuts_value_breaks = name_end.ends_with('\n') && number_name_end.ends_with('\n') && end.starts_with('\n');
    family_.argument_end = family_.cuts_value_breaks ? trimmed(end) : end.substr(0, end.find_last_not_of("\n ") + 1);
    n_end_ = end.size();
    for (size_t at = end.find("{}"); at != end.npos; at = end.find("{}", at + 2))
      n_end_ += probe::kNumberKey.size() - 2;
    const std::string_view begin = trimmed_front(std::string_view(between).substr(end.size()));
    const std::string_view before = slice(text, words.name_end(), words.key);
    if (begin.empty() || end.empty() || !before.ends_with(begin)) return false;
    family_.argument_begin = begin;
    family_.name_end = trimmed(before.substr(0, before.size() - begin.size()));
    read_argument_name_ends(name_end, number_name_end, is_json);
    return true;
  }

  void read_argument_name_ends(std::string_view of_text, std::string_view of_number, bool is_json) {
    if (family_.cuts_value_breaks) {
      of_text.remove_suffix(1);
      of_number.remove_suffix(1);
    }
    const size_t line_break = of_text.find('\n');
    if (of_text == of_number && line_break != of_text.npos) {
      family_.value_begin = trim_json(of_text.substr(line_break));
      of_text = of_number = of_text.substr(0, line_break);
    }
    if (of_text == of_number) {
      const ArgumentTyping typing = is_json ? ArgumentTyping::json : ArgumentTyping::schema;
      family_.argument_name_ends = {{std::string(of_text), typing}};
    } else {
      family_.argument_name_ends = {{std::string(of_text), ArgumentTyping::text},
                                    {std::string(of_number), ArgumentTyping::json}};
    }
  }

  // The first call behind a place: its object, or all from its name to the end of its last argument.
  std::optional<Span> find_call(std::string_view text, size_t from) const {
    const auto words = find_words(text, from);
    if (!words) return {};
    const Span all{std::min(words->name, words->key), std::max(words->name_end(), words->number_end())};
    switch (family_.shape) {
      case ReplyShape::json:
      case ReplyShape::key_json:
        return object_around(text, all);
      case ReplyShape::tagged_json:
        if (const auto object = object_around(text, {words->key, words->number_end()}))
          return Span{all.begin, object->end};
        return {};
      case ReplyShape::tagged_args:
        return Span{all.begin, std::min(words->number_end() + n_end_, text.size())};
      default:
        return Span{all.begin, std::min(words->number_end() + 1, text.size())};  // with the closing bracket
    }
  }

  // The text of an answer beside a call shows where the marks of the call begin.
  void cut_front(const Span& call) {
    const std::string_view beside = samples_.beside;
    const size_t answer = beside.find(probe::kAnswer);
    if (answer == beside.npos) return;
    const size_t answer_end = answer + probe::kAnswer.size();
    const auto other = find_call(beside, answer_end);
    if (!other || other->begin < answer_end) return;
    const std::string_view before = slice(beside, answer_end, other->begin);
    front_ = std::max(front_, call.begin - common_back(std::string_view(samples_.one).substr(0, call.begin), before));
  }

  // A template may write empty reasoning before a call.
  std::string_view without_reasoning(std::string_view before) const {
    const size_t end = family_.reasoning_end.empty() ? before.npos : before.rfind(family_.reasoning_end);
    return end == before.npos ? before : before.substr(end + family_.reasoning_end.size());
  }

  // The text behind a call without the text that also ends a plain answer.
  std::string_view without_tail(std::string_view after) const {
    const std::string_view answer = samples_.answer;
    const size_t at = answer.find(probe::kAnswer);
    if (at != answer.npos) after.remove_suffix(common_back(after, answer.substr(at + probe::kAnswer.size())));
    return after;
  }

  std::optional<std::string_view> text_between_calls() {
    const std::string_view two = samples_.two;
    const auto first = find_call(two, std::min(front_, two.size()));
    if (!first || first->begin < before_.size()) return {};
    const auto second = find_call(two, first->end);
    if (!second || second->begin < first->end) return {};
    after_ = without_tail(two.substr(second->end));  // some templates end the section only here
    reply_of_two_ = slice(two, first->begin - before_.size(), second->end + after_.size());
    return slice(two, first->end, second->begin);
  }

  // Divides the text before, between and after calls into marks of the section, of the list, and of each call.
  void read_marks(std::optional<std::string_view> between) {
    family_.writes_breaks = before_.ends_with('\n') || after_.starts_with('\n');
    std::string_view before = trim_json(before_), after = trim_json(after_);
    const bool is_list = before.ends_with('[') && after.starts_with(']');
    if (is_list && (!between || trim_json(*between) == ",")) {
      family_.writes_list = true;
      before.remove_suffix(1);
      after.remove_prefix(1);
    }
    family_.call_begin = trimmed(before);
    family_.call_end = trimmed(after);
    if (!between || family_.writes_list) return read_bare();
    const std::string_view next = trim_json(*between);
    const size_t n_end = common_front(next, after);
    const size_t n_begin = common_back(next.substr(n_end), before);
    family_.call_end = trimmed(after.substr(0, n_end));
    family_.call_begin = trimmed(before.substr(before.size() - n_begin));
    family_.separator = trimmed(slice(next, n_end, next.size() - n_begin));
    const std::string section_begin = trimmed(before.substr(0, before.size() - n_begin));
    const std::string section_end = trimmed(after.substr(n_end));
    if (!section_begin.empty()) family_.section_begin = {section_begin};
    Marks& ends = section_begin.empty() ? family_.stray_marks : family_.section_end;
    if (!section_end.empty()) ends = {section_end};
    read_bare();
  }

  // Objects without a mark before them.
  void read_bare() {
    const bool is_json = family_.shape == ReplyShape::json || family_.shape == ReplyShape::key_json;
    const bool is_bare = family_.call_begin.empty() && family_.section_begin.empty();
    if (is_bare && is_json) family_.bare_begin = {family_.writes_list ? "[" : "{"};
  }

  // A mark before the name that holds the id of the call is two marks.
  void split_ids() {
    const size_t id = family_.call_begin.find(probe::kFirstId);
    if (id == std::string::npos) return;
    family_.id_end = family_.call_begin.substr(id + probe::kFirstId.size());
    family_.call_begin.erase(id);
  }

  bool is_usable() const {
    const auto is_mark = [](std::string_view mark) {
      return mark.size() <= kMaxProbedMarkBytes && !mark.contains(probe::kTool) && !mark.contains(probe::kFirstId);
    };
    const std::string_view marks[] = {family_.call_begin, family_.call_end,       family_.name_end,
                                      family_.id_begin,   family_.id_end,         family_.value_begin,
                                      family_.separator,  family_.argument_begin, family_.argument_end};
    const bool has_begin = !family_.call_begin.empty() || !family_.section_begin.empty() || !family_.bare_begin.empty();
    return has_begin && std::ranges::all_of(marks, is_mark) && std::ranges::all_of(family_.section_begin, is_mark) &&
           std::ranges::all_of(family_.section_end, is_mark) && std::ranges::all_of(family_.stray_marks, is_mark);
  }

  const Samples& samples_;
  ReplyFamily family_;
  size_t front_ = 0;  // of the reply in samples_.one
  size_t n_end_ = 0;  // bytes from the last value to the end of its argument, for tagged_args
  std::string_view reply_;
  std::string_view reply_of_two_;
  std::string_view before_;  // the call of samples_.one, in its reply
  std::string_view after_;
};

// Whether the parser of a family reads the calls of a sample.
bool reads_calls(const ReplyFamily& family, std::string_view reply, size_t n_calls) {
  const ReplyTool tool{std::string(probe::kTool),
                       fmt::format(R"({{"type": "object", "properties": {{"{}": {{"type": "string"}}, "{}": {{"type": )"
                                   R"("integer"}}}}}})",
                                   probe::kKey, probe::kNumberKey)};
  auto parser = ReplyParser::create(family, std::span(&tool, 1), "", {});
  parser.feed(reply);
  const Reply parsed = parser.finish(ReplyEnd::stop);
  return parsed.content.empty() && parsed.warnings.empty() && parsed.calls.size() == n_calls &&
         std::ranges::all_of(parsed.calls, [](const ToolCall& call) {
           return call.name == probe::kTool && json_string(json_member(call.arguments, probe::kKey)) == probe::kValue &&
                  json_member(call.arguments, probe::kNumberKey) == probe::kNumber;
         });
}

std::string_view shape_name(ReplyShape shape) {
  switch (shape) {
    case ReplyShape::json:
      return "json";
    case ReplyShape::key_json:
      return "key-json";
    case ReplyShape::tagged_json:
      return "tagged-json";
    case ReplyShape::tagged_args:
      return "tagged-args";
    case ReplyShape::python:
      return "python";
    default:
      return "gemma";
  }
}

}  // namespace

std::optional<ReplyFamily> probe_reply_family(const jinja::Template& chat_template, const ChatCapabilities& caps,
                                              std::string_view bos, std::string_view eos) {
  Samples samples = render_samples(chat_template, caps, bos, eos);
  const size_t n_longest = std::max({samples.one.size(), samples.two.size(), samples.beside.size()});
  if (n_longest > kMaxSampleBytes) return {};
  for (const bool has_two : {true, false}) {
    if (!has_two) samples.two.clear();
    FamilyReader reader(samples, chat_template.source());
    auto family = reader.read();
    const bool is_right = family && reads_calls(*family, reader.reply(), 1) &&
                          (reader.reply_of_two().empty() || reads_calls(*family, reader.reply_of_two(), 2));
    if (!is_right) continue;
    family->name = fmt::format("probed: {}", shape_name(family->shape));
    return family;
  }
  return {};
}

}  // namespace tessera::text
