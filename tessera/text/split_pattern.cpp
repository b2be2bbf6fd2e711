#include "tessera/text/split_pattern.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::text {
namespace {

constexpr uint16_t kAccept = 0x8000;  // the match may end before the code point of this transition
constexpr uint16_t kDead = 0;
constexpr uint16_t kStart = 1;
constexpr size_t kMaxSets = 64;
constexpr size_t kMaxClasses = 255;
constexpr size_t kNBlocks = (kMaxCodePoint + 1) / 256;

using Steps = std::vector<uint32_t>;  // indices of set, look and match steps, in order of precedence

/// Appends all steps reachable from `from` without reading a code point, except for those already seen.
void follow(const PatternProgram& program, uint32_t from, Steps& out, std::vector<bool>& seen) {
  Steps stack{from};
  while (!stack.empty()) {
    const uint32_t at = stack.back();
    stack.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const PatternStep& step = program.steps[at];
    if (step.kind == PatternStep::Kind::fork) {
      stack.push_back(step.b);
      stack.push_back(step.a);
    } else {
      out.push_back(at);
    }
  }
}

}  // namespace

Result<SplitPattern> SplitPattern::compile(std::string_view pattern) {
  TESSERA_ASSIGN(const PatternProgram program, parse_pattern(pattern));
  SplitPattern out;
  TESSERA_TRY(out.build_classes(program));
  TESSERA_TRY(out.build_states(program));
  return out;
}

Result<> SplitPattern::build_classes(const PatternProgram& program) {
  if (program.sets.size() > kMaxSets)
    return fail(ErrorCode::limit, "pattern: {} sets, limit {}", program.sets.size(), kMaxSets);
  // Bit i flips wherever set i starts or ends.
  std::map<uint32_t, uint64_t> flips{{0, 0}, {kMaxCodePoint + 1, 0}};
  for (size_t i = 0; i < program.sets.size(); ++i) {
    for (const CodePointRange& range : program.sets[i].ranges()) {
      flips[range.first] ^= uint64_t{1} << i;
      flips[range.last + 1] ^= uint64_t{1} << i;
    }
  }
  std::map<uint64_t, uint8_t> class_by_signature;
  std::vector<uint8_t> class_by_code_point(kMaxCodePoint + 1);
  uint64_t signature = 0;
  for (auto flip = flips.begin(); flip->first <= kMaxCodePoint; ++flip) {
    signature ^= flip->second;
    const auto [found, is_new] = class_by_signature.try_emplace(signature, static_cast<uint8_t>(signatures_.size()));
    if (is_new) signatures_.push_back(signature);
    if (signatures_.size() > kMaxClasses) return fail(ErrorCode::limit, "pattern: over {} classes", kMaxClasses);
    std::fill(class_by_code_point.begin() + flip->first, class_by_code_point.begin() + std::next(flip)->first,
              found->second);
  }
  std::map<std::string_view, uint16_t> known;
  const std::string_view all(reinterpret_cast<const char*>(class_by_code_point.data()), class_by_code_point.size());
  blocks_.reserve(kNBlocks);
  for (size_t i = 0; i < kNBlocks; ++i) {
    const std::string_view block = all.substr(i * 256, 256);
    const auto [found, is_new] = known.try_emplace(block, static_cast<uint16_t>(known.size()));
    if (is_new) classes_.insert(classes_.end(), block.begin(), block.end());
    blocks_.push_back(found->second);
  }
  return {};
}

Result<> SplitPattern::build_states(const PatternProgram& program) {
  using Kind = PatternStep::Kind;
  const size_t n_symbols = signatures_.size() + 1;
  std::map<Steps, uint16_t> numbers;
  std::vector<Steps> states;
  const auto number_of = [&](Steps steps) {
    const auto [found, is_new] = numbers.try_emplace(std::move(steps), static_cast<uint16_t>(states.size()));
    if (is_new) states.push_back(found->first);
    return found->second;
  };
  std::vector<bool> seen(program.steps.size());
  Steps start;
  follow(program, 0, start, seen);
  number_of({});
  number_of(start);
  for (size_t state = 0; state < states.size(); ++state) {
    if (states.size() >= kAccept) return fail(ErrorCode::limit, "pattern: over {} states", kAccept - 1);
    for (size_t symbol = 0; symbol < n_symbols; ++symbol) {
      const bool is_end = symbol == signatures_.size();
      Steps next;
      uint16_t accept = 0;
      seen.assign(program.steps.size(), false);
      for (const uint32_t at : states[state]) {
        const PatternStep& step = program.steps[at];
        const bool is_in = !is_end && (signatures_[symbol] >> step.a & 1) != 0;
        if (step.kind == Kind::match || (step.kind == Kind::look && is_in) || (step.kind == Kind::look_not && !is_in)) {
          accept = kAccept;
          break;
        }
        if (step.kind == Kind::set && is_in) follow(program, at + 1, next, seen);
      }
      next_.push_back(static_cast<uint16_t>(number_of(std::move(next)) | accept));
    }
  }
  return {};
}

size_t SplitPattern::match(std::string_view text) const {
  const size_t n_symbols = signatures_.size() + 1;
  size_t longest = 0;
  size_t at = 0;
  uint16_t state = kStart;
  while (at < text.size()) {
    const CodePointStep step = next_code_point(text.substr(at));
    const uint16_t next = next_[state * n_symbols + class_of(step.code_point)];
    if ((next & kAccept) != 0) longest = at;
    state = next & ~kAccept;
    if (state == kDead) return longest;
    at += step.n_bytes;
  }
  return (next_[state * n_symbols + n_symbols - 1] & kAccept) != 0 ? at : longest;
}

bool SplitPattern::may_start(std::string_view text) const {
  return (next_[kStart * (signatures_.size() + 1) + class_of(next_code_point(text).code_point)] & ~kAccept) != kDead;
}

}  // namespace tessera::text
