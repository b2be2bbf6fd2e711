// tessera.h: generation from a text, and generation in one call.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"

using namespace tessera;
using capi::guarded;

namespace {

using OwnedGeneration = std::unique_ptr<tessera_generation, decltype(&tessera_generation_release)>;

Result<text::TokenizeOptions> prompt_options(uint32_t flags) {
  constexpr uint32_t kKnown = TESSERA_TOKENIZE_SPECIAL | TESSERA_TOKENIZE_PARSE_SPECIAL;
  TESSERA_TRY(capi::require_flags(flags, kKnown));
  return text::TokenizeOptions{.add_special = (flags & TESSERA_TOKENIZE_SPECIAL) != 0,
                               .parse_special = (flags & TESSERA_TOKENIZE_PARSE_SPECIAL) != 0};
}

// Generates a text in a generation of its own, which `start` gives a prompt.
template <class Start>
tessera_status generate_all(tessera_session* session, tessera_sampler* sampler, int32_t sequence,
                            const tessera_generation_options* options, Start&& start,
                            tessera_generated_function function, void* user, tessera_cancel* cancel,
                            tessera_error* error) {
  if (function == nullptr) return capi::report(TESSERA_INVALID_ARGUMENT, "function: is NULL", error);
  tessera_generation* created = nullptr;
  tessera_status status = tessera_generation_create(session, sampler, sequence, options, &created, error);
  const OwnedGeneration generation(created, tessera_generation_release);
  if (status == TESSERA_OK) status = start(created);
  tessera_generated next{};
  while (status == TESSERA_OK && next.token >= 0) {
    status = tessera_generation_next(created, &next, cancel, error);
    if (status == TESSERA_OK && function(user, &next) != 0)
      status = capi::report(TESSERA_CANCELLED, "the function of the caller stopped the generation", error);
  }
  return status;
}

}  // namespace

tessera_status tessera_generation_start_text(tessera_generation* generation, const char* text, int64_t length,
                                             uint32_t flags, tessera_cancel* cancel, tessera_error* error) {
  std::vector<int32_t> tokens;
  const tessera_status status = guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(generation, "generation"));
    TESSERA_ASSIGN(const std::string_view given, capi::read_text(text, length, "text"));
    TESSERA_ASSIGN(const text::TokenizeOptions options, prompt_options(flags));
    TESSERA_ASSIGN(tokens, generation->session->model->engine->tokenizer().tokenize(given, options));
    return {};
  });
  if (status != TESSERA_OK) return status;
  return tessera_generation_start(generation, tokens.data(), tokens.size(), cancel, error);
}

tessera_generation* tessera_generation_retain(tessera_generation* generation) { return capi::retain(generation); }

tessera_status tessera_generate(tessera_session* session, tessera_sampler* sampler, int32_t sequence,
                                const tessera_generation_options* options, const int32_t* tokens, uint64_t count,
                                tessera_generated_function function, void* user, tessera_cancel* cancel,
                                tessera_error* error) {
  const auto start = [&](tessera_generation* generation) {
    return tessera_generation_start(generation, tokens, count, cancel, error);
  };
  return generate_all(session, sampler, sequence, options, start, function, user, cancel, error);
}

tessera_status tessera_generate_text(tessera_session* session, tessera_sampler* sampler, int32_t sequence,
                                     const tessera_generation_options* options, const char* text, int64_t length,
                                     uint32_t flags, tessera_generated_function function, void* user,
                                     tessera_cancel* cancel, tessera_error* error) {
  const auto start = [&](tessera_generation* generation) {
    return tessera_generation_start_text(generation, text, length, flags, cancel, error);
  };
  return generate_all(session, sampler, sequence, options, start, function, user, cancel, error);
}
