#include "tessera/convert/vocabulary_keys.h"

#include "tessera/convert/vocabulary/read_vocabulary.h"

namespace tessera::convert {

Result<> add_vocabulary(const Checkpoint& checkpoint, const HubConfig& config, GgufBuilder& builder,
                        std::vector<std::string>& warnings) {
  auto vocabulary = read_vocabulary(checkpoint.folder(), config, {}, warnings);
  // Files without a tokenizer beside them make a model that takes token ids.
  if (!vocabulary && vocabulary.error().code() == ErrorCode::not_found) {
    warnings.push_back(vocabulary.error().message() + ": the model has no vocabulary");
    return {};
  }
  if (!vocabulary) return forward_error(vocabulary);
  return add_vocabulary(*vocabulary, builder);
}

}  // namespace tessera::convert
