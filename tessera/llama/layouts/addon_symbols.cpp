// C++ functions of libllama that the addon of node-llama-cpp 3.22.1 imports beside those of llama.h v0.5.0. Their
// types are those of the symbols: classes of llama.h, containers of the standard library, and an enumeration whose
// numbers are the places in our table of architectures.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/llama/api.h"

#define TESSERA_ADDON_API __attribute__((visibility("default")))

enum llm_arch : int32_t {};
struct llama_grammar_element;
struct ggml_backend_buffer_type;

struct llama_grammar {
  void* grammar = nullptr;
  // No stack: the text is not of the grammar. An empty one: it is complete. One with an element: it can go on.
  std::vector<std::vector<const llama_grammar_element*>> stacks;
};

struct llama_memory_breakdown_data {
  size_t model = 0;
  size_t context = 0;
  size_t compute = 0;
};

struct llama_model {
  TESSERA_ADDON_API std::map<ggml_backend_buffer_type*, size_t> memory_breakdown() const;
};
struct llama_context {
  TESSERA_ADDON_API std::map<ggml_backend_buffer_type*, llama_memory_breakdown_data> memory_breakdown() const;
};

// The ggml library of the program, which is asked about the types of buffers.
extern "C" __attribute__((weak)) ggml_backend_buffer_type* ggml_backend_cpu_buffer_type();

namespace {

ggml_backend_buffer_type* cpu_buffers() {
  return ggml_backend_cpu_buffer_type == nullptr ? nullptr : ggml_backend_cpu_buffer_type();
}

void set_stacks(llama_grammar& grammar) {
  static const char element = 0;  // its address stands for whatever can follow
  const int32_t state = tessera_llama_layout_grammar_state(grammar.grammar);
  grammar.stacks.clear();
  if ((state & tessera::llama::kGrammarIsComplete) != 0) grammar.stacks.emplace_back();
  if ((state & tessera::llama::kGrammarGoesOn) != 0)
    grammar.stacks.push_back({reinterpret_cast<const llama_grammar_element*>(&element)});
}

}  // namespace

TESSERA_ADDON_API std::vector<llm_arch> llm_arch_all() {
  std::vector<llm_arch> all;
  for (int32_t i = 0; i < tessera_llama_layout_n_architectures(); ++i) all.push_back(static_cast<llm_arch>(i));
  return all;
}

TESSERA_ADDON_API const char* llm_arch_name(llm_arch arch) { return tessera_llama_layout_architecture(arch); }

TESSERA_ADDON_API llm_arch llm_arch_from_string(const std::string& name) {
  return static_cast<llm_arch>(tessera_llama_layout_find_architecture(name.c_str()));
}

TESSERA_ADDON_API bool llm_arch_is_recurrent(const llm_arch& arch) {
  return tessera_llama_layout_architecture_kind(arch) == tessera::llama::kArchitectureIsRecurrent;
}
TESSERA_ADDON_API bool llm_arch_is_hybrid(const llm_arch& arch) {
  return tessera_llama_layout_architecture_kind(arch) == tessera::llama::kArchitectureIsHybrid;
}

TESSERA_ADDON_API llama_grammar* llama_grammar_init_impl(const llama_vocab* vocab, const char* grammar_str,
                                                         const char* grammar_root, bool /*lazy*/,
                                                         const char** /*trigger_patterns*/,
                                                         size_t /*num_trigger_patterns*/,
                                                         const llama_token* /*trigger_tokens*/,
                                                         size_t /*num_trigger_tokens*/) {
  void* const made = tessera_llama_layout_grammar_create(vocab, grammar_str, grammar_root);
  if (made == nullptr) return nullptr;
  auto* const grammar = new llama_grammar;
  grammar->grammar = made;
  set_stacks(*grammar);
  return grammar;
}

TESSERA_ADDON_API void llama_grammar_free_impl(llama_grammar* grammar) {
  if (grammar == nullptr) return;
  tessera_llama_layout_grammar_free(grammar->grammar);
  delete grammar;
}

TESSERA_ADDON_API void llama_grammar_accept(llama_grammar* grammar, uint32_t chr) {
  tessera_llama_layout_grammar_accept(grammar->grammar, chr);
  set_stacks(*grammar);
}

TESSERA_ADDON_API std::vector<std::vector<const llama_grammar_element*>>& llama_grammar_get_stacks(
    llama_grammar* grammar) {
  return grammar->stacks;
}

TESSERA_ADDON_API std::vector<uint32_t> unicode_cpts_from_utf8(const std::string& utf8) {
  std::vector<uint32_t> points(utf8.size());
  points.resize(tessera_llama_layout_code_points(utf8.data(), utf8.size(), points.data()));
  return points;
}

std::map<ggml_backend_buffer_type*, size_t> llama_model::memory_breakdown() const {
  return {{cpu_buffers(), tessera_llama_layout_model_bytes(this)}};
}

std::map<ggml_backend_buffer_type*, llama_memory_breakdown_data> llama_context::memory_breakdown() const {
  llama_memory_breakdown_data bytes;
  tessera_llama_layout_context_bytes(this, &bytes.model, &bytes.context, &bytes.compute);
  return {{cpu_buffers(), bytes}};
}
