// The compiled grammars of a model's requests. A client that sends the same schema with each request pays for compiling
// once. All functions may be called from any thread; the lock is not held while a grammar is compiled.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "tessera/server/metrics.h"
#include "tessera/server/sha256.h"
#include "tessera/text/grammar/grammar.h"

namespace tessera::server {

class GrammarCache {
 public:
  static constexpr size_t kDefaultBytes = size_t{64} << 20;

  /// metrics: where compilations, hits and bytes are counted. They must outlive the cache.
  explicit GrammarCache(ModelMetrics& metrics, size_t limit_bytes = kDefaultBytes)
      : metrics_(metrics), limit_bytes_(limit_bytes) {}

  enum class Kind : uint8_t { json_schema, gbnf };
  /// The grammar of a text, or that of compile(), which is kept if it succeeds. The least recently used ones go when
  /// there is no room, and a grammar larger than all of the room is not kept. Errors: those of compile().
  text::grammar::GrammarResult get(Kind kind, std::string_view text,
                                   const std::function<text::grammar::GrammarResult()>& compile);

  size_t n_bytes() const;

  /// An upper estimate of the memory of a compiled grammar.
  static size_t bytes_of(const text::grammar::Grammar& grammar);

 private:
  struct Entry {
    Digest key{};
    std::shared_ptr<const text::grammar::Grammar> grammar{};
    size_t n_bytes = 0;
  };

  std::shared_ptr<const text::grammar::Grammar> find(const Digest& key);
  void keep(const Digest& key, const std::shared_ptr<const text::grammar::Grammar>& grammar);

  ModelMetrics& metrics_;
  const size_t limit_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the most recently used one first
  std::map<Digest, std::list<Entry>::iterator> places_;
  size_t n_bytes_ = 0;
};

}  // namespace tessera::server
