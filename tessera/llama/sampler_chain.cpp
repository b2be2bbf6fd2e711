// llama.h: chains of samplers.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "tessera/llama/sampler.h"

namespace tessera::llama {
namespace {

struct FreeSampler {
  void operator()(llama_sampler* sampler) const { tessera_llama_sampler_free(sampler); }
};
using OwnedSampler = std::unique_ptr<llama_sampler, FreeSampler>;

class SamplerChain final : public SamplerObject {
 public:
  explicit SamplerChain(bool measures) : measures_(measures) {}

  const char* name() const override { return "chain"; }

  Result<> accept(llama_token token) override {
    for (const OwnedSampler& one : samplers_) tessera_llama_sampler_accept(one.get(), token);
    return {};
  }

  Result<> apply(CandidateView& view) override {
    const int64_t begin = measures_ ? tessera_llama_time_us() : 0;
    for (const OwnedSampler& one : samplers_) TESSERA_TRY(apply_to(*one, view));
    if (measures_) {
      time_us_ += tessera_llama_time_us() - begin;
      ++n_samples_;
    }
    return {};
  }

  void reset() override {
    for (const OwnedSampler& one : samplers_) tessera_llama_sampler_reset(one.get());
  }

  Result<std::unique_ptr<SamplerObject>> clone() const override {
    auto copy = std::make_unique<SamplerChain>(measures_);
    for (const OwnedSampler& one : samplers_) {
      OwnedSampler cloned(tessera_llama_sampler_clone(one.get()));
      if (!cloned) return fail(ErrorCode::unsupported, "a sampler of the chain cannot be cloned");
      copy->samplers_.push_back(std::move(cloned));
    }
    return copy;
  }

  // The seed of the last sampler that has one.
  std::optional<uint32_t> seed() const override {
    for (auto one = samplers_.rbegin(); one != samplers_.rend(); ++one)
      if (const SamplerObject* object = object_of(one->get()); object != nullptr && object->seed())
        return object->seed();
    return std::nullopt;
  }

  void add(llama_sampler* sampler) { samplers_.emplace_back(sampler); }
  size_t size() const { return samplers_.size(); }
  llama_sampler* at(size_t i) const { return samplers_[i].get(); }
  llama_sampler* take(size_t i) {
    llama_sampler* taken = samplers_[i].release();
    samplers_.erase(samplers_.begin() + static_cast<ptrdiff_t>(i));
    return taken;
  }

  llama_perf_sampler_data times() const {
    return {.t_sample_ms = static_cast<double>(time_us_) * 1e-3, .n_sample = n_samples_};
  }
  void reset_times() { time_us_ = n_samples_ = 0; }

 private:
  std::vector<OwnedSampler> samplers_;
  bool measures_;
  int64_t time_us_ = 0;
  int32_t n_samples_ = 0;
};

// Calls a function for a chain.
template <class T, class Function>
T of_chain(const char* function, const llama_sampler* sampler, T failed, Function&& body) {
  return guarded<T>(function, failed, [&]() -> Result<T> {
    auto* const chain = dynamic_cast<SamplerChain*>(object_of(sampler));
    if (chain == nullptr) return fail(ErrorCode::invalid_argument, "chain: is no chain of samplers");
    return body(*chain);
  });
}

bool is_place(const SamplerChain& chain, int32_t i) { return i >= 0 && std::cmp_less(i, chain.size()); }

}  // namespace
}  // namespace tessera::llama

using namespace tessera;
using namespace tessera::llama;

llama_sampler_chain_params tessera_llama_sampler_chain_default_params() { return {.no_perf = true}; }

llama_sampler* tessera_llama_sampler_chain_init(llama_sampler_chain_params params) {
  return guarded<llama_sampler*>("llama_sampler_chain_init", nullptr, [&]() -> Result<llama_sampler*> {
    return to_handle(std::make_unique<SamplerChain>(!params.no_perf));
  });
}

void tessera_llama_sampler_chain_add(llama_sampler* chain, llama_sampler* smpl) {
  of_chain("llama_sampler_chain_add", chain, false, [&](SamplerChain& of) -> Result<bool> {
    if (smpl == nullptr) return fail(ErrorCode::invalid_argument, "smpl: is NULL");
    if (smpl == chain) return fail(ErrorCode::invalid_argument, "smpl: is the chain itself");
    of.add(smpl);
    return true;
  });
}

// -1 stands for the chain itself.
llama_sampler* tessera_llama_sampler_chain_get(llama_sampler* chain, int32_t i) {
  return of_chain<llama_sampler*>("llama_sampler_chain_get", chain, nullptr,
                                  [&](SamplerChain& of) -> Result<llama_sampler*> {
                                    if (i == -1) return chain;
                                    return is_place(of, i) ? of.at(static_cast<size_t>(i)) : nullptr;
                                  });
}

int32_t tessera_llama_sampler_chain_n(const llama_sampler* chain) {
  return of_chain<int32_t>("llama_sampler_chain_n", chain, 0,
                           [](const SamplerChain& of) { return static_cast<int32_t>(of.size()); });
}

llama_sampler* tessera_llama_sampler_chain_remove(llama_sampler* chain, int32_t i) {
  return of_chain<llama_sampler*>("llama_sampler_chain_remove", chain, nullptr,
                                  [&](SamplerChain& of) -> Result<llama_sampler*> {
                                    return is_place(of, i) ? of.take(static_cast<size_t>(i)) : nullptr;
                                  });
}

llama_perf_sampler_data tessera_llama_perf_sampler(const llama_sampler* chain) {
  return of_chain<llama_perf_sampler_data>("llama_perf_sampler", chain, {},
                                           [](const SamplerChain& of) { return of.times(); });
}

void tessera_llama_perf_sampler_print(const llama_sampler* chain) {
  of_chain("llama_perf_sampler_print", chain, false, [](const SamplerChain& of) {
    log_line(LogLevel::info, "llama_perf_sampler_print",
             fmt::format("{:.2f} ms for {} samples", of.times().t_sample_ms, of.times().n_sample));
    return true;
  });
}

void tessera_llama_perf_sampler_reset(llama_sampler* chain) {
  of_chain("llama_perf_sampler_reset", chain, false, [](SamplerChain& of) {
    of.reset_times();
    return true;
  });
}
