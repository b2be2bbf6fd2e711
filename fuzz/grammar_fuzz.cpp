// libFuzzer target for the readers of grammars. Any bytes are a grammar, or give an error with a place, within the
// limits. A grammar has a matcher that knows at once whether a text can begin. grammar_input.h has the form of the
// input, and fuzz/CMakeLists.txt explains how to run it.
#include "fuzz/grammar_input.h"
#include "tessera/text/grammar/matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  using namespace tessera::fuzz;
  const auto input = GrammarInput::parse({reinterpret_cast<const char*>(data), n});
  if (!input) return 0;
  const auto grammar = input->compile();
  if (!grammar) {
    require_error(grammar.error(), *input);
    return 0;
  }
  tessera::text::grammar::Matcher matcher(*grammar);
  require(matcher.overflowed() || matcher.is_complete() || matcher.goes_on());
  return 0;
}
