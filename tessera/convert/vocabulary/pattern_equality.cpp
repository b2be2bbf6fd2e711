// Patterns of strangers are compared, so a scan refuses those that would nest deeply or grow by their repeats before
// they are parsed. The comparison runs both programs side by side over the classes of code points that either
// distinguishes, as SplitPattern does for one.
#include "tessera/convert/vocabulary/pattern_equality.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/text/pattern_parser.h"

namespace tessera::convert {

namespace {

constexpr size_t kMaxPatternBytes = 4096, kMaxGroups = 64, kMaxRepeats = 64, kMaxRepeatedBytes = 8192;
constexpr size_t kMaxPatternSteps = 2048, kMaxPatternSets = 64, kMaxWork = size_t{1} << 23;
constexpr uint32_t kLongS = 0x17F;

/// Looks for syntax that the parser would read otherwise than the hub's regular expressions do, and for patterns that
/// would become large.
class PatternScan {
 public:
  explicit PatternScan(std::string_view pattern) : pattern_(pattern) {}

  bool is_comparable() {
    if (pattern_.size() > kMaxPatternBytes) return false;
    for (at_ = 0; at_ < pattern_.size(); ++at_) {
      const bool was_repeat = std::exchange(is_repeat_, false);
      if (pattern_[at_] == '\\') {
        skip_escape();
      } else if (!(in_class_ ? read_in_class() : read_outside(was_repeat))) {
        return false;
      }
    }
    return !in_class_ && n_groups_ <= kMaxGroups && pattern_.size() * n_repeats_ <= kMaxRepeatedBytes;
  }

 private:
  // A property or code point in braces is one escape.
  void skip_escape() {
    ++at_;
    const bool has_braces = at_ < pattern_.size() && std::string_view("pPx").find(pattern_[at_]) != std::string::npos;
    if (!has_braces || !pattern_.substr(at_ + 1).starts_with('{')) return;
    at_ = std::min(pattern_.find('}', at_), pattern_.size());
  }

  // A class within a class is known after && only.
  bool read_in_class() {
    if (pattern_[at_] == '[') {
      ++n_groups_;
      return pattern_.substr(0, at_).ends_with("&&");
    }
    in_class_ = pattern_[at_] != ']';
    return true;
  }

  bool read_outside(bool was_repeat) {
    const std::string_view rest = pattern_.substr(at_);
    switch (pattern_[at_]) {
      case '.':
      case '^':
        return false;
      case '[':
        in_class_ = true;
        ++n_groups_;
        if (rest.starts_with("[^")) ++at_;
        return true;
      case '(':
        ++n_groups_;
        return is_known_group(rest);
      case '{':
        is_repeat_ = true;
        return count_repeats(rest);
      case '?':
      case '*':
        is_repeat_ = true;
        return !was_repeat;  // a second sign makes a repeat lazy
      case '+':
        is_repeat_ = true;
        return true;
      default:
        return true;
    }
  }

  bool is_known_group(std::string_view rest) {
    if (!rest.starts_with("(?")) return true;
    for (const std::string_view known : {"(?:", "(?i:", "(?!", "(?="}) {
      if (!rest.starts_with(known)) continue;
      at_ += known.size() - 1;
      return rest.size() > known.size();
    }
    return false;
  }

  bool count_repeats(std::string_view rest) {
    const size_t end = std::min(rest.find('}'), rest.size());
    const size_t comma = rest.substr(0, end).rfind(',');
    const size_t begin = comma == std::string_view::npos ? 1 : comma + 1;
    size_t count = 0;
    if (std::from_chars(rest.data() + begin, rest.data() + end, count).ec != std::errc{} || count == 0) return false;
    if (count > kMaxRepeats / n_repeats_) return false;
    n_repeats_ *= count;
    at_ += end;
    return true;
  }

  std::string_view pattern_;
  size_t at_ = 0, n_groups_ = 0, n_repeats_ = 1;
  bool in_class_ = false;
  bool is_repeat_ = false;  // the sign before was a repeat
};

std::optional<text::PatternProgram> parse_comparable(std::string_view pattern) {
  if (!PatternScan(pattern).is_comparable()) return std::nullopt;
  auto program = text::parse_pattern(pattern);
  if (!program || program->steps.size() > kMaxPatternSteps || program->sets.size() > kMaxPatternSets)
    return std::nullopt;
  return std::move(*program);
}

/// One program, and lists of its steps in order of precedence as its states.
class PatternRun {
 public:
  using Steps = std::vector<uint32_t>;
  struct Move {
    Steps next{};
    bool accepts = false;
  };

  explicit PatternRun(const text::PatternProgram& program) : program_(program), seen_(program.steps.size()) {}

  Steps start() {
    Steps steps;
    clear_seen();
    follow(0, steps);
    return steps;
  }

  /// The state after a code point that is in the sets of `sets`. Nothing: the end of the text.
  Move move(const Steps& state, std::optional<uint64_t> sets) {
    using Kind = text::PatternStep::Kind;
    Move result;
    clear_seen();
    for (const uint32_t at : state) {
      const text::PatternStep& step = program_.steps[at];
      const bool is_in = sets && (*sets >> step.a & 1) != 0;
      if (step.kind == Kind::match || (step.kind == Kind::look && is_in) || (step.kind == Kind::look_not && !is_in)) {
        result.accepts = true;
        break;
      }
      if (step.kind == Kind::set && is_in) follow(at + 1, result.next);
    }
    return result;
  }

 private:
  void clear_seen() { std::fill(seen_.begin(), seen_.end(), false); }

  void follow(uint32_t from, Steps& out) {
    Steps stack{from};
    while (!stack.empty()) {
      const uint32_t at = stack.back();
      stack.pop_back();
      if (seen_[at]) continue;
      seen_[at] = true;
      const text::PatternStep& step = program_.steps[at];
      if (step.kind == text::PatternStep::Kind::fork) {
        stack.push_back(step.b);
        stack.push_back(step.a);
      } else {
        out.push_back(at);
      }
    }
  }

  const text::PatternProgram& program_;
  std::vector<bool> seen_;
};

using SetPair = std::pair<uint64_t, uint64_t>;  // the sets of each program that contain a code point, as bits

void flip_bounds(const text::PatternProgram& program, std::map<uint32_t, SetPair>& flips, uint64_t SetPair::*which) {
  for (size_t i = 0; i < program.sets.size(); ++i) {
    for (const text::CodePointRange& range : program.sets[i].ranges()) {
      flips[range.first].*which ^= uint64_t{1} << i;
      flips[range.last + 1].*which ^= uint64_t{1} << i;
    }
  }
}

/// The different pairs of sets that code points are in.
std::set<SetPair> classes_of(const text::PatternProgram& a, const text::PatternProgram& b) {
  std::map<uint32_t, SetPair> flips{{0, {}}};
  flip_bounds(a, flips, &SetPair::first);
  flip_bounds(b, flips, &SetPair::second);
  std::set<SetPair> classes;
  SetPair now;
  for (auto flip = flips.begin(); flip != flips.end() && flip->first <= text::kMaxCodePoint; ++flip) {
    now.first ^= flip->second.first;
    now.second ^= flip->second.second;
    const auto next = std::next(flip);
    const bool is_long_s = flip->first == kLongS && next != flips.end() && next->first == kLongS + 1;
    if (!is_long_s) classes.insert(now);
  }
  return classes;
}

bool same_programs(const text::PatternProgram& a, const text::PatternProgram& b) {
  const std::set<SetPair> classes = classes_of(a, b);
  PatternRun run_a(a), run_b(b);
  std::set<std::pair<PatternRun::Steps, PatternRun::Steps>> known;
  std::vector<std::pair<PatternRun::Steps, PatternRun::Steps>> open{{run_a.start(), run_b.start()}};
  known.insert(open.back());
  const size_t move_work = a.steps.size() + b.steps.size();
  size_t work = 0;
  while (!open.empty()) {
    const auto [at_a, at_b] = std::move(open.back());
    open.pop_back();
    if (run_a.move(at_a, std::nullopt).accepts != run_b.move(at_b, std::nullopt).accepts) return false;
    work += classes.size() * move_work;
    if (work > kMaxWork) return false;
    for (const SetPair& sets : classes) {
      PatternRun::Move to_a = run_a.move(at_a, sets.first), to_b = run_b.move(at_b, sets.second);
      if (to_a.accepts != to_b.accepts || to_a.next.empty() != to_b.next.empty()) return false;
      const auto [pair, is_new] = known.emplace(std::move(to_a.next), std::move(to_b.next));
      if (is_new) open.push_back(*pair);
    }
  }
  return true;
}

}  // namespace

ComparedPattern::ComparedPattern(std::string_view pattern) : pattern_(pattern), program_(parse_comparable(pattern)) {}

bool ComparedPattern::same_as(std::string_view other) const {
  if (pattern_ == other) return true;
  if (!program_) return false;
  const auto other_program = parse_comparable(other);
  return other_program && same_programs(*program_, *other_program);
}

}  // namespace tessera::convert
