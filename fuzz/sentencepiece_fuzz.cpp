// libFuzzer target for models of SentencePiece and the wire format that they are in. Any bytes give a vocabulary that
// can be loaded, or a refusal. fuzz/CMakeLists.txt explains how to run it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/vocabulary/protobuf.h"
#include "tessera/convert/vocabulary/sentencepiece.h"

namespace {

using namespace tessera;
using namespace tessera::convert;

// libFuzzer reports the input of a violation.
void require(bool holds) {
  if (!holds) std::abort();
}

// Fields are inside of the message, each behind the one before.
void read_all_fields(std::string_view message) {
  ProtobufReader reader(message);
  size_t end = 0;
  while (true) {
    const auto field = reader.next();
    if (!field) return require(!field.error().message().empty());
    if (!*field) return;
    require((*field)->offset >= end && (*field)->number > 0);
    end = (*field)->offset + 1;
    if ((*field)->bytes.empty()) continue;
    require((*field)->bytes.data() >= message.data() &&
            (*field)->bytes.data() + (*field)->bytes.size() <= message.data() + message.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  const std::string bytes(reinterpret_cast<const char*>(data), n);
  read_all_fields(bytes);
  const auto model = parse_sentencepiece(bytes);
  if (!model) {
    require(!model.error().message().empty());
    return 0;
  }
  std::vector<std::string> warnings;
  static const HubConfig config = HubConfig::of(Json::object(), "config.json").value();
  static const TokenizerFolder folder = TokenizerFolder::open("/nowhere", config, {}, warnings).value();
  const auto draft = sentencepiece_draft(*model, folder);
  require(draft.has_value() ? draft->tokens.n_ids() == model->pieces.size() : !draft.error().message().empty());
  return 0;
}
