// A model without vocabulary still loads and runs on token ids. Only text is refused.
#include "tessera/text/no_vocab.h"

#include <utility>

namespace tessera::text {
namespace {

class NoVocabTokenizer final : public Tokenizer {
 public:
  explicit NoVocabTokenizer(std::shared_ptr<const Vocab> vocab) : Tokenizer(std::move(vocab)) {}

  void append_piece(int32_t, std::string&) const override {}

 protected:
  Result<> encode(std::string_view, bool, std::vector<int32_t>&) const override {
    return fail(ErrorCode::not_found, "this model has no vocabulary (tokenizer.ggml.model \"{}\"): give token ids",
                vocab().model());
  }
};

}  // namespace

Result<std::unique_ptr<const Tokenizer>> make_no_vocab_tokenizer(std::shared_ptr<const Vocab> vocab) {
  return std::make_unique<NoVocabTokenizer>(std::move(vocab));
}

}  // namespace tessera::text
