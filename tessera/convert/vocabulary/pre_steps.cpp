#include "tessera/convert/vocabulary/pre_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/convert/vocabulary/pattern_equality.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/text/pre_families.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr size_t kMaxSteps = 64, kMaxShownPattern = 200;

// The stages of a family of text/pre_families.h, by their numbers.
constexpr std::string_view stage_of(std::string_view family, size_t number) {
  for (const text::FamilyStage& row : text::kFamilyStages)
    if (row.family == family && number-- == 0) return row.stage;
  return {};
}

#define TESSERA_PRE_DEEPSEEK_LETTERS stage_of("deepseek-llm", 1)
#define TESSERA_PRE_DEEPSEEK_STOPS stage_of("deepseek-llm", 2)
// A class in a class, which the program that reads the hub's patterns takes for one set.
#define TESSERA_PRE_BLOOM_HUB R"( ?[^(\s|[.,!?…。，、।۔،])]+)"
#define TESSERA_PRE_JAIS2_HUB                                                                                \
  TESSERA_PRE_CONTRACTIONS                                                                                   \
  R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S))" \
  R"(|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"

struct PreForm {
  std::string_view family;
  std::array<std::string_view, text::kMaxPreStages> steps;  // an empty one ends them
};
#define TESSERA_PRE_FORM(family, ...) PreForm{family, {__VA_ARGS__}},
constexpr PreForm kPreForms[] = {
#include "tessera/convert/vocabulary/vocabularies.def"
};

struct PreferredPre {
  std::string_view family;
  bool whole_words;
  std::string_view name;
};
#define TESSERA_PRE_NAME(family, whole_words, name) PreferredPre{family, whole_words, name},
constexpr PreferredPre kPreferredPres[] = {
#include "tessera/convert/vocabulary/vocabularies.def"
};

/// The rows of the table, and the families' own stages.
std::vector<PreForm> all_forms() {
  std::vector<PreForm> forms(std::begin(kPreForms), std::end(kPreForms));
  const size_t n_rows = forms.size();
  size_t n_steps = 0;
  for (const text::FamilyStage& row : text::kFamilyStages) {
    if (forms.size() == n_rows || forms.back().family != row.family) {
      forms.push_back({row.family, {}});
      n_steps = 0;
    }
    forms.back().steps[n_steps++] = row.stage;
  }
  return forms;
}

std::span<const std::string_view> steps_of_form(const PreForm& form) {
  const auto end = std::ranges::find(form.steps, std::string_view{});
  return {form.steps.begin(), end};
}

std::string_view family_of_steps(const std::vector<PreStep>& steps) {
  const std::vector<PreForm> forms = all_forms();
  for (const PreForm& form : forms)
    if (std::ranges::equal(steps, steps_of_form(form), {}, &PreStep::form)) return form.family;
  if (steps.size() > text::kMaxPreStages) return {};
  std::vector<ComparedPattern> patterns;
  for (const PreStep& step : steps) patterns.emplace_back(step.form);
  const auto is_same = [](const ComparedPattern& a, std::string_view b) { return a.same_as(b); };
  for (const PreForm& form : forms)
    if (std::ranges::equal(patterns, steps_of_form(form), is_same)) return form.family;
  return {};
}

std::string escape_literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-&/").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string_view text_member(const Json& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return {};
  return found->get_ref<const std::string&>();
}

bool flag_member(const Json& json, std::string_view name, bool otherwise) {
  const auto found = json.find(name);
  return found == json.end() || !found->is_boolean() ? otherwise : found->get<bool>();
}

Result<PreStep> split_step(const Json& json) {
  const auto pattern = json.find("pattern");
  if (pattern == json.end() || !pattern->is_object()) return fail(ErrorCode::format, "Split without a pattern");
  const std::string_view regex = text_member(*pattern, "Regex");
  const std::string_view literal = text_member(*pattern, "String");
  if (regex.empty() && literal.empty()) return fail(ErrorCode::format, "Split without a pattern");
  const std::string form = regex.empty() ? escape_literal(literal) : std::string(regex);
  const std::string_view behavior = text_member(json, "behavior");
  const bool inverts = flag_member(json, "invert", false);
  const std::string shown =
      fmt::format("Split {} {}{}", text::quote_text(form, kMaxShownPattern), behavior, inverts ? " inverted" : "");
  if (behavior == "Isolated" || (behavior == "Removed" && inverts)) return PreStep{form, shown};
  return PreStep{fmt::format("@Split {}{} {}", behavior, inverts ? " inverted" : "", form), shown};
}

/// Steps of the kinds that are no sequences.
class StepCollector {
 public:
  Result<> add(const Json& json) {
    const std::string_view type = text_member(json, "type");
    if (type.empty()) return fail(ErrorCode::format, "a step without a type");
    if (result_.steps.size() == kMaxSteps) return fail(ErrorCode::limit, "more than {} steps", kMaxSteps);
    if (type == "Split") {
      TESSERA_ASSIGN(PreStep step, split_step(json));
      result_.steps.push_back(std::move(step));
    } else if (type == "ByteLevel") {
      result_.has_byte_level = true;
      if (flag_member(json, "use_regex", true)) push(TESSERA_PRE_GPT2, "ByteLevel");
    } else if (type == "Digits") {
      const bool individual = flag_member(json, "individual_digits", false);
      push(individual ? "\\p{N}" : "\\p{N}+", individual ? "Digits, each by itself" : "Digits");
    } else if (type == "Punctuation") {
      const std::string_view behavior = text_member(json, "behavior");
      push("@Punctuation " + std::string(behavior.empty() ? "Isolated" : behavior), "Punctuation");
    } else {
      add_other(json, type);
    }
    return {};
  }

  PreTokenizerSteps take() { return std::move(result_); }

 private:
  void push(std::string form, std::string_view shown) {
    result_.steps.push_back({std::move(form), std::string(shown)});
  }

  void add_other(const Json& json, std::string_view type) {
    if (type == "WhitespaceSplit") result_.splits_at_spaces = true;
    if (type == "Metaspace") {
      const std::string_view scheme = text_member(json, "prepend_scheme");
      result_.adds_space = scheme.empty() ? flag_member(json, "add_prefix_space", true) : scheme != "never";
    }
    push("@" + std::string(type), type);
  }

  PreTokenizerSteps result_;
};

}  // namespace

Result<PreTokenizerSteps> flatten_pre_tokenizer(const Json& json) {
  StepCollector collector;
  std::vector<const Json*> open{&json};
  while (!open.empty()) {
    const Json& step = *open.back();
    open.pop_back();
    if (step.is_null()) continue;
    if (!step.is_object()) return fail(ErrorCode::format, "pre_tokenizer: a step that is no object");
    const auto parts = text_member(step, "type") == "Sequence" ? step.find("pretokenizers") : step.end();
    if (parts != step.end() && parts->is_array()) {
      if (parts->size() > kMaxSteps) return fail(ErrorCode::limit, "pre_tokenizer: more than {} steps", kMaxSteps);
      for (auto part = parts->rbegin(); part != parts->rend(); ++part) open.push_back(&*part);
      continue;
    }
    if (auto added = collector.add(step); !added) return forward_error(added, "pre_tokenizer");
  }
  return collector.take();
}

std::vector<PreStep> steps_of_pattern(std::string_view pattern) {
  return {{std::string(pattern), text::quote_text(pattern, kMaxShownPattern)}};
}

Result<std::string> name_pre_tokenizer(const std::vector<PreStep>& steps, bool whole_words, std::string_view class_name,
                                       std::vector<std::string>& warnings) {
  const std::string_view family = family_of_steps(steps);
  if (family.empty()) {
    std::vector<std::string_view> shown;
    for (const PreStep& step : steps) shown.push_back(step.shown);
    return fail(ErrorCode::unsupported, "the pre-tokenizer is not known (option pre names one); its steps: {}",
                shown.empty() ? "none" : fmt::format("{}", fmt::join(shown, "; ")));
  }
  std::vector<const text::PreRow*> rows, others;
  for (const text::PreRow& row : text::pre_rows())
    if (row.family == family) (((row.flags & text::kWholeWords) != 0) == whole_words ? rows : others).push_back(&row);
  if (rows.empty()) {
    warnings.push_back(fmt::format("ignore_merges is {}, but the pre-tokenizer {} is known the other way", whole_words,
                                   others.front()->name));
    rows = others;
  }
  const auto has = [&](std::string_view name) {
    return std::ranges::find(rows, name, &text::PreRow::name) != rows.end();
  };
  if (has(class_pre(class_name))) return std::string(class_pre(class_name));
  for (const PreferredPre& row : kPreferredPres)
    if (row.family == family && row.whole_words == whole_words && has(row.name)) return std::string(row.name);
  return std::string(rows.front()->name);
}

}  // namespace tessera::convert
