#include "tessera/eval/verify_model.h"

#include <algorithm>

#include "tessera/convert/verify.h"
#include "tessera/engine/vocab_loader.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/printable.h"

namespace tessera::eval {

Result<std::optional<TokenizerCheck>> check_tokenizer(const ModelFiles& files, std::string& warning) {
  if (files.metadata().find(keys::kTokenizerModel) == nullptr) return std::nullopt;
  auto tokenizer = load_tokenizer(files);
  if (!tokenizer && tokenizer.error().code() == ErrorCode::unsupported) {
    warning = "the tokenizer is not checked: " + printable(tokenizer.error().message(), 400);
    return std::nullopt;
  }
  if (!tokenizer) return forward_error(tokenizer);
  auto n_round_trips = convert::check_round_trips(**tokenizer);
  if (!n_round_trips) return forward_error(n_round_trips, files.name());
  const text::Vocab& vocab = (*tokenizer)->vocab();
  return TokenizerCheck{.model = vocab.model(), .n_tokens = vocab.n_tokens(), .n_round_trips = *n_round_trips};
}

Result<> check_logits(Session& session, ReferenceLogits& reference, double max_nmse, const CancelToken& cancel) {
  TESSERA_TRY(for_each_logits(session, reference.ids(), cancel,
                              [&](std::span<const float> logits) { return reference.compare_next(logits); }));
  const double nmse = reference.nmse();
  if (nmse <= max_nmse) return {};
  const auto rows = reference.rows();
  const auto worst = std::ranges::max_element(rows, {}, &ReferenceLogits::RowError::nmse);
  return fail(ErrorCode::mismatch,
              "{}: the model's logits differ: normalised mean squared error {:.3g}, limit {:.3g} (worst: {:.3g} at "
              "position {})",
              reference.name(), nmse, max_nmse, worst->nmse, worst - rows.begin());
}

}  // namespace tessera::eval
