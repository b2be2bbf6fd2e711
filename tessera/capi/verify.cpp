// tessera.h: checks of model files.
#include "tessera/convert/verify.h"

#include "tessera/capi/call_support.h"
#include "tessera/eval/verify_model.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_verify_options kVerifyDefaults = {};
constexpr double kUsualNmse = 0.01;

// A file to check, and the threads for it.
struct Verification {
  std::string path;
  std::string reference;  // "": none
  double max_nmse = kUsualNmse;
  int n_threads = 1;
};

Result<Verification> read_verification(const char* path, const tessera_verify_options* options,
                                       const tessera_runtime& runtime) {
  Verification wanted;
  TESSERA_ASSIGN(wanted.path, capi::require_text(path, "path"));
  TESSERA_ASSIGN(const auto given, capi::read_sized(options, kVerifyDefaults, "options"));
  TESSERA_ASSIGN(const int64_t n_threads,
                 capi::count_or(given.n_threads, runtime.thread_options.n_threads, "n_threads"));
  if (!(given.max_nmse >= 0)) return fail(ErrorCode::invalid_argument, "max_nmse: {}, want 0 or more", given.max_nmse);
  wanted.n_threads = static_cast<int>(n_threads);
  wanted.reference = capi::text_or_empty(given.reference);
  if (given.max_nmse > 0) wanted.max_nmse = double{given.max_nmse};
  return wanted;
}

Result<> verify_logits(const tessera_runtime& runtime, const Verification& wanted, const capi::Progress& progress,
                       tessera_verify_info& found) {
  TESSERA_ASSIGN(eval::ReferenceLogits reference, eval::ReferenceLogits::open(wanted.reference));
  EngineOptions options;
  options.threads.n_threads = wanted.n_threads;
  TESSERA_ASSIGN(const std::shared_ptr<Engine> engine, Engine::open(*runtime.registry, wanted.path, options));
  const CancelToken* const cancel = progress.cancel();
  TESSERA_TRY(engine->load([&](float) { return cancel == nullptr || !cancel->cancelled(); }));
  SessionOptions session_options;
  session_options.threads.n_threads = wanted.n_threads;
  eval::fit_to_logits(session_options, reference.ids().size());
  TESSERA_ASSIGN(const auto session, Session::create(engine, session_options));
  const CancelToken never;
  TESSERA_TRY(eval::check_logits(*session, reference, wanted.max_nmse, cancel == nullptr ? never : *cancel));
  found.n_reference_tokens = reference.ids().size();
  found.nmse = reference.nmse();
  return {};
}

Result<tessera_verify_info> verify_file(tessera_runtime& runtime, const Verification& wanted,
                                        const capi::Progress& progress) {
  TESSERA_ASSIGN(const auto files, ModelFiles::open(wanted.path));
  TESSERA_ASSIGN(const auto threads, capi::create_threads(wanted.n_threads, runtime));
  TESSERA_TRY(convert::check_values(*files, *threads, progress));
  tessera_verify_info found{};
  found.n_tensors = files->tensors().size();
  found.n_bytes = files->n_tensor_bytes();
  found.n_blocks = convert::count_blocks(*files);
  std::string warning;
  TESSERA_ASSIGN(const auto tokenizer, eval::check_tokenizer(*files, warning));
  if (!warning.empty()) runtime.log(TESSERA_LOG_WARNING, warning);
  if (tokenizer) {
    found.n_tokens = tokenizer->n_tokens;
    found.n_round_trips = tokenizer->n_round_trips;
    capi::copy_text(tokenizer->model, found.tokenizer);
  }
  if (!wanted.reference.empty()) TESSERA_TRY(verify_logits(runtime, wanted, progress, found));
  return found;
}

}  // namespace

void tessera_verify_options_init(tessera_verify_options* options, size_t size) {
  capi::write_sized(options, size, kVerifyDefaults);
}

tessera_status tessera_verify(tessera_runtime* runtime, const char* path, const tessera_verify_options* options,
                              tessera_progress_function progress, void* user, tessera_cancel* cancel,
                              tessera_verify_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_ASSIGN(const Verification wanted, read_verification(path, options, *runtime));
    TESSERA_ASSIGN(const auto shown, capi::progress_of(progress, user, cancel));
    TESSERA_TRY(capi::require_info(info));
    TESSERA_ASSIGN(const auto found, verify_file(*runtime, wanted, shown));
    capi::write_info(info, found);
    return {};
  });
}
