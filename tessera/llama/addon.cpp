// The functions behind layouts/addon_symbols.cpp.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "tessera/llama/context.h"
#include "tessera/llama/grammar_text.h"
#include "tessera/text/grammar/matcher.h"
#include "tessera/text/unicode.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr std::array kArchitectures = {
#define TESSERA_MODEL(function, name) name,
#define TESSERA_TRAITS(name, ...) name,
#include "tessera/models/models.def"
#undef TESSERA_TRAITS
#undef TESSERA_MODEL
};
constexpr const char* kUnknownArchitecture = "(unknown)";
constexpr std::array<std::string_view, 6> kRecurrentArchitectures = {"mamba",      "mamba2", "rwkv6",
                                                                     "rwkv6qwen2", "rwkv7",  "arwkv7"};
constexpr std::array<std::string_view, 12> kHybridArchitectures = {
    "lfm2",       "lfm2moe",        "jamba",     "granitehybrid", "falcon-h1", "kimi-linear",
    "nemotron_h", "nemotron_h_moe", "qwen3next", "qwen35",        "qwen35moe", "plamo2"};

// A text of a grammar, by code points.
struct GrownText {
  text::grammar::Matcher matcher;
  bool fits = true;
};

size_t bytes_of(const std::vector<MemoryPart>& parts, MemoryPart::Kind kind) { return MemoryReport{parts}.bytes(kind); }

}  // namespace

int32_t tessera_llama_layout_n_architectures() { return static_cast<int32_t>(kArchitectures.size()); }

const char* tessera_llama_layout_architecture(int32_t i) {
  const bool is_known = i >= 0 && std::cmp_less(i, kArchitectures.size());
  return is_known ? kArchitectures[static_cast<size_t>(i)] : kUnknownArchitecture;
}

int32_t tessera_llama_layout_find_architecture(const char* name) {
  const auto found = std::ranges::find(kArchitectures, std::string_view(name == nullptr ? "" : name));
  return static_cast<int32_t>(found - kArchitectures.begin());
}

int32_t tessera_llama_layout_architecture_kind(int32_t i) {
  const std::string_view name = tessera_llama_layout_architecture(i);
  if (std::ranges::find(kRecurrentArchitectures, name) != kRecurrentArchitectures.end())
    return kArchitectureIsRecurrent;
  const bool is_hybrid = std::ranges::find(kHybridArchitectures, name) != kHybridArchitectures.end();
  return is_hybrid ? kArchitectureIsHybrid : 0;
}

void* tessera_llama_layout_grammar_create(const llama_vocab* vocab, const char* source, const char* root) {
  return guarded<void*>("llama_grammar_init_impl", nullptr, [&]() -> Result<void*> {
    if (vocab != nullptr) TESSERA_TRY(require(vocab, "vocab"));
    TESSERA_ASSIGN(GrammarPointer grammar, compile_grammar(vocab, source, root));
    return std::make_unique<GrownText>(GrownText{text::grammar::Matcher(std::move(grammar))}).release();
  });
}

void tessera_llama_layout_grammar_free(void* grammar) { delete static_cast<GrownText*>(grammar); }

void tessera_llama_layout_grammar_accept(void* grammar, uint32_t code_point) {
  guarded("llama_grammar_accept", [&]() -> Result<> {
    if (grammar == nullptr) return fail(ErrorCode::invalid_argument, "grammar: is NULL");
    GrownText& grown = *static_cast<GrownText*>(grammar);
    std::string bytes;
    text::append_utf8(code_point, bytes);
    grown.fits = grown.fits && grown.matcher.accept(bytes) == bytes.size();
    return {};
  });
}

int32_t tessera_llama_layout_grammar_state(const void* grammar) {
  return guarded<int32_t>("llama_grammar_get_stacks", 0, [&]() -> Result<int32_t> {
    if (grammar == nullptr) return fail(ErrorCode::invalid_argument, "grammar: is NULL");
    const GrownText& grown = *static_cast<const GrownText*>(grammar);
    if (!grown.fits) return 0;
    return (grown.matcher.is_complete() ? kGrammarIsComplete : 0) | (grown.matcher.goes_on() ? kGrammarGoesOn : 0);
  });
}

size_t tessera_llama_layout_code_points(const char* text, size_t n_bytes, uint32_t* to) {
  return guarded<size_t>("unicode_cpts_from_utf8", 0, [&]() -> Result<size_t> {
    const std::string_view bytes(text, n_bytes);
    size_t n = 0;
    for (size_t at = 0; at < bytes.size(); ++n) {
      const text::CodePointStep step = text::next_code_point(bytes.substr(at));
      to[n] = step.code_point;
      at += step.n_bytes;
    }
    return n;
  });
}

size_t tessera_llama_layout_model_bytes(const llama_model* model) {
  return guarded<size_t>("llama_model::memory_breakdown", 0, [&]() -> Result<size_t> {
    TESSERA_TRY(require(model, "model"));
    if (!model->engine) return 0;
    return bytes_of(model->engine->planned_memory(), MemoryPart::Kind::weights);
  });
}

void tessera_llama_layout_context_bytes(const llama_context* ctx, size_t* model, size_t* context, size_t* compute) {
  guarded("llama_context::memory_breakdown", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    const std::vector<MemoryPart> parts = ctx->session->allocated_memory().parts;
    *model = bytes_of(parts, MemoryPart::Kind::weights);
    *context = bytes_of(parts, MemoryPart::Kind::cache);
    *compute = bytes_of(parts, MemoryPart::Kind::compute) + bytes_of(parts, MemoryPart::Kind::output);
    return {};
  });
}
