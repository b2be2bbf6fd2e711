// llama.cpp's grammars beside ours: recognises texts, and times masks. Built and run by bench/masks_vs_llamacpp.py and
// scripts/sampled_grammars.py.
//
//   c++ -std=c++20 -O2 -o peer_grammar peer_grammar.cpp -ldl
//   peer_grammar LIBDIR VOCAB.gguf check < rows     rows and answers as of tessera grammar --batch
//   peer_grammar LIBDIR VOCAB.gguf masks < rows     rows {"schema", "tests": [{"data", "valid"}]} as of tessera bench
//                                                   --masks; prints the times of each row and text, and whether it is
//                                                   accepted
//
// LIBDIR holds the libraries of the npm package @node-llama-cpp/linux-x64, here of llama.cpp v0.5.0. The functions of
// llama.h have C linkage. Those of llama.cpp's common library are C++ and are found by their mangled names. Each row
// has a process of its own, because some grammars end or hang the library.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

constexpr unsigned kSecondsPerRow = 120;
constexpr size_t kVocabOnlyOffset = 72;  // of vocab_only in llama_model_params

// The types of llama.h that these functions pass.
using Token = int32_t;
struct Params {
  alignas(16) unsigned char bytes[2048];
};
struct Candidate {
  Token id;
  float logit, p;
};
struct Candidates {
  Candidate* data;
  size_t size;
  int64_t selected;
  bool sorted;
};

/// Room for llama.cpp's common_json, which is returned and passed by address. It is never destroyed.
struct CommonJson {
  CommonJson() = default;
  CommonJson(const CommonJson&) = delete;
  ~CommonJson() {}
  alignas(16) unsigned char bytes[256];
};

[[noreturn]] void stop(const std::string& message) {
  std::cerr << "peer_grammar: " << message << "\n";
  std::exit(1);
}

void* open_library(const std::string& folder, const std::string& prefix) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    if (void* library = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    stop(dlerror());
  }
  stop("no " + prefix + "* in " + folder);
}

template <typename F>
F* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) stop(std::string("no function ") + name);
  return reinterpret_cast<F*>(found);
}

void quiet(int, const char*, void*) {}

/// The library with a vocabulary.
struct Peer {
  Peer(const std::string& folder, const char* model) {
    open_library(folder, "libggml-base");
    void* ggml = open_library(folder, "libggml.");
    void* llama = open_library(folder, "libllama.");
    void* common = open_library(folder, "libllama-common");
    symbol<void(const char*)>(ggml, "ggml_backend_load_all_from_path")(folder.c_str());
    symbol<void(void (*)(int, const char*, void*), void*)>(llama, "llama_log_set")(quiet, nullptr);
    symbol<void()>(llama, "llama_backend_init")();
    Params params = symbol<Params()>(llama, "llama_model_default_params")();
    params.bytes[kVocabOnlyOffset] = 1;
    void* loaded = symbol<void*(const char*, Params)>(llama, "llama_model_load_from_file")(model, params);
    if (!loaded) stop(std::string("cannot load ") + model);
    vocab = symbol<void*(void*)>(llama, "llama_model_get_vocab")(loaded);
    n_tokens = symbol<int32_t(void*)>(llama, "llama_vocab_n_tokens")(vocab);
    end_token = symbol<Token(void*)>(llama, "llama_vocab_eos")(vocab);
    init_grammar = symbol<void*(void*, const char*, const char*)>(llama, "llama_sampler_init_grammar");
    apply = symbol<void(void*, Candidates*)>(llama, "llama_sampler_apply");
    accept = symbol<void(void*, Token)>(llama, "llama_sampler_accept");
    tokenize_text = symbol<int32_t(void*, const char*, int32_t, Token*, int32_t, bool, bool)>(llama, "llama_tokenize");
    text_of = symbol<const char*(void*, Token)>(llama, "llama_vocab_get_text");
    clone = symbol<void*(void*)>(llama, "llama_sampler_clone");
    release = symbol<void(void*)>(llama, "llama_sampler_free");
    parse_json = symbol<CommonJson(const std::string&)>(
        common, "_ZN11common_json5parseERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
    schema_to_grammar =
        symbol<std::string(const CommonJson&, bool)>(common, "_Z22json_schema_to_grammarB5cxx11RK11common_jsonb");
  }

  std::vector<Token> tokenize(const std::string& text) const {
    std::vector<Token> tokens(text.size() + 8);
    const auto length = static_cast<int32_t>(text.size());
    const int32_t n =
        tokenize_text(vocab, text.data(), length, tokens.data(), static_cast<int32_t>(tokens.size()), false, false);
    tokens.resize(static_cast<size_t>(std::max(n, 0)));
    return tokens;
  }

  std::string grammar_of_schema(const std::string& schema) const {
    const CommonJson json = parse_json(schema);
    return schema_to_grammar(json, true);
  }

  void* vocab;
  int32_t n_tokens;
  Token end_token;
  void* (*init_grammar)(void*, const char*, const char*);
  void (*apply)(void*, Candidates*);
  void (*accept)(void*, Token);
  int32_t (*tokenize_text)(void*, const char*, int32_t, Token*, int32_t, bool, bool);
  const char* (*text_of)(void*, Token);
  void* (*clone)(void*);
  void (*release)(void*);
  CommonJson (*parse_json)(const std::string&);
  std::string (*schema_to_grammar)(const CommonJson&, bool);
};

/// The token <0xXX> of each byte.
std::vector<Token> byte_tokens(const Peer& peer) {
  std::vector<Token> tokens(256, -1);
  for (Token id = 0; id < peer.n_tokens; ++id) {
    unsigned byte = 0;
    if (std::sscanf(peer.text_of(peer.vocab, id), "<0x%2X>", &byte) == 1) tokens[byte] = id;
  }
  if (std::ranges::count(tokens, -1) > 0) stop("the vocabulary has no token for some byte");
  return tokens;
}

bool allows(const Peer& peer, void* sampler, Token token) {
  Candidate candidate{token, 0, 0};
  Candidates candidates{&candidate, 1, -1, false};
  peer.apply(sampler, &candidates);
  return candidate.logit == 0;
}

/// Reads each text byte by byte.
Json check(const Peer& peer, const std::vector<Token>& bytes, const Json& row) {
  const std::string grammar =
      row.contains("gbnf") ? row["gbnf"].get<std::string>() : peer.grammar_of_schema(row["schema"].dump());
  void* start = peer.init_grammar(peer.vocab, grammar.c_str(), "root");
  if (!start) return {{"error", "not a grammar"}};
  Json accepted = Json::array(), prefix = Json::array();
  for (const Json& text : row["texts"]) {
    void* sampler = peer.clone(start);
    size_t n_read = 0;
    const std::string all = text;
    for (; n_read < all.size(); ++n_read) {
      const Token token = bytes[static_cast<unsigned char>(all[n_read])];
      if (!allows(peer, sampler, token)) break;
      peer.accept(sampler, token);
    }
    accepted.push_back(n_read == all.size() && allows(peer, sampler, peer.end_token));
    prefix.push_back(n_read);
    peer.release(sampler);
  }
  return {{"accepted", accepted}, {"prefix", prefix}};
}

class Stopwatch {
 public:
  double microseconds() const { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// The mask of a place: a candidate for each token of the vocabulary, as a sampler would get them.
struct Mask {
  explicit Mask(const Peer& peer) : candidates(static_cast<size_t>(peer.n_tokens)) { fill(); }
  void fill() {
    for (size_t i = 0; i < candidates.size(); ++i) candidates[i] = {static_cast<Token>(i), 0, 0};
  }
  void find(const Peer& peer, void* sampler) {
    Candidates all{candidates.data(), candidates.size(), -1, false};
    peer.apply(sampler, &all);
  }
  bool allows(Token token) const { return candidates[static_cast<size_t>(token)].logit == 0; }

  std::vector<Candidate> candidates;
};

/// Times the masks of the texts of a row, each with the token accepted before it. A text is read up to its end, or to
/// the token that is refused.
Json masks(const Peer& peer, const Json& row) {
  const std::string schema = row["schema"].dump();
  Mask first(peer);
  const Stopwatch watch;
  const std::string grammar = peer.grammar_of_schema(schema);
  void* start = peer.init_grammar(peer.vocab, grammar.c_str(), "root");
  if (!start) return {{"error", "its own grammar is refused"}};
  first.find(peer, start);
  const double first_mask = watch.microseconds();
  Json times = Json::array(), accepted = Json::array();
  for (const Json& test : row["tests"]) {
    void* sampler = peer.clone(start);
    Mask mask = first;
    bool is_allowed = true;
    Json times_of_text = Json::array();
    for (const Token token : peer.tokenize(test["data"].dump())) {
      is_allowed = mask.allows(token);
      if (!is_allowed) break;
      mask.fill();
      const Stopwatch one;
      peer.accept(sampler, token);
      mask.find(peer, sampler);
      times_of_text.push_back(one.microseconds());
    }
    times.push_back(times_of_text);
    accepted.push_back(is_allowed && mask.allows(peer.end_token));
    peer.release(sampler);
  }
  return {{"first_mask_us", first_mask}, {"masks_us", times}, {"accepted", accepted}};
}

/// Prints the answer for a row, from a process of its own.
template <typename Answer>
void answer_row(const std::string& line, const Answer& answer) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsPerRow);
    Json result;
    try {
      result = answer(Json::parse(line));
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    std::cout << Json({{"error", WTERMSIG(status) == SIGALRM ? "out of time" : "ended by a signal"}}).dump()
              << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 4 ? argv[3] : "";
  if (mode != "check" && mode != "masks") stop("usage: peer_grammar LIBDIR VOCAB.gguf check|masks < rows");
  const Peer peer(argv[1], argv[2]);
  const std::vector<Token> bytes = mode == "check" ? byte_tokens(peer) : std::vector<Token>();
  for (std::string line; std::getline(std::cin, line);)
    answer_row(line, [&](const Json& row) { return mode == "check" ? check(peer, bytes, row) : masks(peer, row); });
}
