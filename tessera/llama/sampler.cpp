// llama.h: the functions of all samplers.
#include "tessera/llama/sampler.h"

#include <utility>

#include "tessera/llama/context.h"

namespace tessera::llama {
namespace {

constexpr llama_token kNoTokenChosen = -1;
constexpr uint32_t kNoSeed = 0xffffffff;

const char* own_name(const llama_sampler* sampler) { return object_of(sampler)->name(); }

void own_accept(llama_sampler* sampler, llama_token token) {
  guarded("llama_sampler_accept", [&] { return object_of(sampler)->accept(token); });
}

void own_apply(llama_sampler* sampler, llama_token_data_array* candidates) {
  guarded("llama_sampler_apply", [&]() -> Result<> {
    TESSERA_ASSIGN(CandidateView view, CandidateView::of_array(candidates));
    TESSERA_TRY(object_of(sampler)->apply(view));
    view.write_back();
    return {};
  });
}

void own_reset(llama_sampler* sampler) {
  guarded("llama_sampler_reset", [&]() -> Result<> {
    object_of(sampler)->reset();
    return {};
  });
}

llama_sampler* own_clone(const llama_sampler* sampler) {
  return guarded<llama_sampler*>("llama_sampler_clone", nullptr, [&]() -> Result<llama_sampler*> {
    TESSERA_ASSIGN(auto copy, object_of(sampler)->clone());
    return to_handle(std::move(copy));
  });
}

void own_free(llama_sampler* sampler) { delete object_of(sampler); }

// Programs call these functions by the table as well. Nothing writes to it.
llama_sampler_i own_functions = {.name = own_name,
                                 .accept = own_accept,
                                 .apply = own_apply,
                                 .reset = own_reset,
                                 .clone = own_clone,
                                 .free = own_free,
                                 .experimental = {}};

}  // namespace

llama_sampler* to_handle(std::unique_ptr<SamplerObject> object) {
  auto handle = std::make_unique<llama_sampler>(llama_sampler{.iface = &own_functions, .ctx = nullptr});
  handle->ctx = object.release();
  return handle.release();
}

SamplerObject* object_of(const llama_sampler* sampler) {
  const bool is_own = sampler != nullptr && sampler->iface == &own_functions;
  return is_own ? static_cast<SamplerObject*>(sampler->ctx) : nullptr;
}

Result<> apply_to(llama_sampler& sampler, CandidateView& view) {
  if (SamplerObject* own = object_of(&sampler)) return own->apply(view);
  if (sampler.iface == nullptr || sampler.iface->apply == nullptr)
    return fail(ErrorCode::invalid_argument, "smpl: has no function to apply it");
  view.apply_foreign(sampler);
  return {};
}

}  // namespace tessera::llama

using namespace tessera;
using namespace tessera::llama;

namespace {

// Calls a function for a sampler of ours or of a program.
template <class T, class Function>
T of_sampler(const char* function, const llama_sampler* sampler, T failed, Function&& body) {
  return guarded<T>(function, failed, [&]() -> Result<T> {
    if (sampler == nullptr || sampler->iface == nullptr) return fail(ErrorCode::invalid_argument, "smpl: is NULL");
    return body(*sampler->iface);
  });
}

Result<llama_sampler*> clone_foreign(const llama_sampler& sampler) {
  if (sampler.iface->clone != nullptr) return sampler.iface->clone(&sampler);
  if (sampler.ctx == nullptr) return tessera_llama_sampler_init(sampler.iface, nullptr);
  return fail(ErrorCode::unsupported, "smpl: has no function to clone it");
}

Result<llama_token> sample_token(llama_sampler& sampler, llama_context& context, int32_t idx) {
  if (context.options.embeddings) return fail(ErrorCode::invalid_argument, "ctx: computes embeddings, not logits");
  TESSERA_ASSIGN(const float* row, context.outputs.row(idx));
  CandidateView view(std::span(row, context.outputs.width()));
  TESSERA_TRY(apply_to(sampler, view));
  const std::optional<int32_t> token = view.selected();
  if (!token) return fail(ErrorCode::invalid_argument, "smpl: chose no token; a chain ends with one that does");
  tessera_llama_sampler_accept(&sampler, *token);
  return *token;
}

}  // namespace

llama_sampler* tessera_llama_sampler_init(llama_sampler_i* iface, void* ctx) {
  return guarded<llama_sampler*>("llama_sampler_init", nullptr, [&]() -> Result<llama_sampler*> {
    if (iface == nullptr) return fail(ErrorCode::invalid_argument, "iface: is NULL");
    return new llama_sampler{.iface = iface, .ctx = ctx};
  });
}

const char* tessera_llama_sampler_name(const llama_sampler* smpl) {
  return of_sampler<const char*>("llama_sampler_name", smpl, "(null)", [&](const llama_sampler_i& functions) {
    return functions.name == nullptr ? "(null)" : functions.name(smpl);
  });
}

void tessera_llama_sampler_accept(llama_sampler* smpl, llama_token token) {
  of_sampler("llama_sampler_accept", smpl, false, [&](const llama_sampler_i& functions) {
    if (functions.accept != nullptr) functions.accept(smpl, token);
    return true;
  });
}

void tessera_llama_sampler_apply(llama_sampler* smpl, llama_token_data_array* cur_p) {
  of_sampler("llama_sampler_apply", smpl, false, [&](const llama_sampler_i& functions) -> Result<bool> {
    if (functions.apply == nullptr) return fail(ErrorCode::invalid_argument, "smpl: has no function to apply it");
    functions.apply(smpl, cur_p);
    return true;
  });
}

void tessera_llama_sampler_reset(llama_sampler* smpl) {
  of_sampler("llama_sampler_reset", smpl, false, [&](const llama_sampler_i& functions) {
    if (functions.reset != nullptr) functions.reset(smpl);
    return true;
  });
}

llama_sampler* tessera_llama_sampler_clone(const llama_sampler* smpl) {
  return of_sampler<llama_sampler*>("llama_sampler_clone", smpl, nullptr,
                                    [&](const llama_sampler_i&) { return clone_foreign(*smpl); });
}

void tessera_llama_sampler_copy(const llama_sampler* src, llama_sampler* dst) {
  guarded("llama_sampler_copy", [&]() -> Result<> {
    const SamplerObject* from = object_of(src);
    const SamplerObject* to = object_of(dst);
    if (from == nullptr || to == nullptr)
      return fail(ErrorCode::unsupported, "src and dst: both must be samplers of this library");
    if (std::string_view(from->name()) != to->name())
      return fail(ErrorCode::mismatch, "dst: is {}, src is {}", to->name(), from->name());
    if (from == to) return {};
    TESSERA_ASSIGN(auto copy, from->clone());
    delete to;
    dst->ctx = copy.release();
    return {};
  });
}

void tessera_llama_sampler_free(llama_sampler* smpl) {
  if (smpl == nullptr) return;
  of_sampler("llama_sampler_free", smpl, false, [&](const llama_sampler_i& functions) {
    if (functions.free != nullptr) functions.free(smpl);
    delete smpl;
    return true;
  });
}

uint32_t tessera_llama_sampler_get_seed(const llama_sampler* smpl) {
  const SamplerObject* object = object_of(smpl);
  return object == nullptr ? kNoSeed : object->seed().value_or(kNoSeed);
}

llama_token tessera_llama_sampler_sample(llama_sampler* smpl, llama_context* ctx, int32_t idx) {
  return of_context("llama_sampler_sample", ctx, kNoTokenChosen, [&](llama_context& of) -> Result<llama_token> {
    if (smpl == nullptr) return fail(ErrorCode::invalid_argument, "smpl: is NULL");
    return sample_token(*smpl, of, idx);
  });
}
