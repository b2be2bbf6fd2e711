#include "tessera/text/grammar/dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tessera::text::grammar {
namespace {

constexpr size_t kMaxLexemeBytes = 300;

class Dump {
 public:
  explicit Dump(const Grammar& grammar)
      : arena_(grammar.expressions()), rules_(grammar.rules()), is_known_(rules_.n_states()) {}

  std::string text() {
    reach(rules_.rule(rules_.start()).start);
    for (size_t i = 0; i < open_.size(); ++i) add(open_[i]);
    return std::move(text_);
  }

 private:
  void reach(RuleState state) {
    if (is_known_[state]) return;
    is_known_[state] = true;
    open_.push_back(state);
  }

  // Returns the name of the rule for its first state, and the name with the number of the state for others.
  std::string name_of(RuleState state) const {
    const RuleId rule = rules_.rule_of(state);
    std::string name = rule == rules_.start() ? "root" : fmt::format("{}-{}", rules_.rule(rule).name, rule);
    for (char& c : name)
      if (c == ' ') c = '-';
    return rules_.rule(rule).start == state ? name : fmt::format("{}-at-{}", name, state);
  }

  void add(RuleState state) {
    const Rules::Rule& rule = rules_.rule(rules_.rule_of(state));
    if (rule.start == state && !rule.counters.empty()) {
      text_ += "# counters of the next rule:";
      for (const Counter& counter : rule.counters)
        text_ += fmt::format(" {}..{}", counter.min, counter.max == kUnbounded ? "" : std::to_string(counter.max));
      text_ += '\n';
    }
    const std::string name = name_of(state);
    const bool is_end = rules_.is_end(state);
    text_ += fmt::format("{} ::={}\n", name, is_end ? " \"\"" : "");
    bool is_first = true;
    for (const Edge& edge : rules_.edges(state)) {
      text_ += fmt::format("  {}{} {}{}\n", is_first ? "" : "| ", text_of(edge), name_of(edge.target), notes_of(edge));
      is_first = false;
      reach(edge.target);
      if (edge.kind == Edge::Kind::call) reach(rules_.rule(edge.value).start);
    }
  }

  std::string text_of(const Edge& edge) const {
    if (edge.kind == Edge::Kind::call) return name_of(rules_.rule(edge.value).start);
    if (edge.kind == Edge::Kind::lexeme) return arena_.text_of(edge.value, kMaxLexemeBytes);
    const TokenSet& set = rules_.token_set(edge.value);
    if (set.has_no_text) return fmt::format("<control tokens but [{}]>", fmt::join(set.ids, ", "));
    return fmt::format("{}<[{}]>", set.is_complement ? "!" : "", fmt::join(set.ids, ", "));
  }

  std::string notes_of(const Edge& edge) const {
    std::vector<std::string> notes;
    for (const uint32_t counter : rules_.counter_list(edge.adds))
      notes.push_back(fmt::format("adds 1 to counter {}", counter));
    if (edge.needs_min) notes.emplace_back("after all minimums");
    if (edge.needs_room) notes.emplace_back("below the first maximum");
    if (edge.capture != 0) notes.emplace_back("no value twice");
    return notes.empty() ? "" : fmt::format("  # {}", fmt::join(notes, ", "));
  }

  const ExpressionArena& arena_;
  const Rules& rules_;
  std::vector<bool> is_known_;
  std::vector<RuleState> open_;
  std::string text_;
};

}  // namespace

std::string dump(const Grammar& grammar) { return Dump(grammar).text(); }

}  // namespace tessera::text::grammar
