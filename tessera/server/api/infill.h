// Text between two texts (fill in the middle): the prompt for models whose vocabulary has marks for it, and
// POST /infill of llama-server. The other dialects ask for it by a field "suffix".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/api/context.h"

namespace tessera::server {

struct InfillFile {
  std::string name;
  std::string text;
};

struct InfillCall {
  std::string_view prefix{}, suffix{};
  std::string_view begin{};         // of the text to fill in
  std::vector<InfillFile> files{};  // further context, the most useful one last
  int64_t n_predict = -1;
};

/// Whether the vocabulary has the marks.
bool can_infill(const ServedModel& model);

/// The tokens of a prompt: files, prefix, suffix, begin, each after its mark. Of a long prefix and a long suffix it has
/// the tokens next to the gap: at most 3/4 and 1/4 of a batch. The files fill what is left of the context beside the
/// answer. Texts have no special tokens. Requires can_infill(). Errors: 400 for a text that the vocabulary cannot
/// spell.
FieldResult<std::vector<int32_t>> infill_tokens(const ServedModel& model, const InfillCall& call);

/// Reads the request of POST /infill and starts the generation. Runs on a worker. Errors: also 501 without marks.
FieldResult<> start_infill(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
