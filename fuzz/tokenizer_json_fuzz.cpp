// libFuzzer target for tokenizer.json: its JSON, pre-tokenizers, patterns, merges and added tokens. Any bytes give a
// vocabulary whose tokens have one id each, or a refusal. fuzz/CMakeLists.txt explains how to run it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/convert/vocabulary/tokenizer_json_vocabulary.h"
#include "tessera/json/reader.h"

namespace {

using namespace tessera;
using namespace tessera::convert;

// libFuzzer reports the input of a violation.
void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  const auto json = read_json({reinterpret_cast<const char*>(data), n}, {.max_depth = 64});
  if (!json) return 0;
  std::vector<std::string> warnings;
  const HubConfig config = HubConfig::of(Json::object(), "config.json").value();
  const auto folder = TokenizerFolder::open("/nowhere", config, {}, warnings).value();
  const auto draft = tokenizer_json_draft(*json, folder);
  if (!draft) {
    require(!draft.error().message().empty());
    return 0;
  }
  require(draft->tokens.n_ids() <= kMaxVocabularyTokens && !draft->vocabulary.model.empty());
  for (const std::string& merge : draft->vocabulary.merges) require(merge.find(' ', 1) != std::string::npos);
  return 0;
}
