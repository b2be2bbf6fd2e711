// The speed of a session: it prefills and generates arbitrary tokens, repeatedly, at the same depth of the KV cache.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/engine/session.h"
#include "tessera/observe/time_account.h"

namespace tessera::observe {

/// The work of one repetition.
struct BenchLoad {
  int64_t n_prompt = 0, n_gen = 0;  // tokens to prefill, then to generate one by one
  int64_t n_depth = 0;              // tokens in the KV cache before
  int64_t n_batch = 2048;           // most tokens of a call that prefills

  /// The context that a session needs for it.
  int64_t n_ctx() const { return n_depth + n_prompt + n_gen; }
};

struct BenchSeconds {
  double prefill = 0, decode = 0;

  double total() const { return prefill + decode; }
};

/// The time of a phase of a repetition by kind of work.
struct ExplainedPhase {
  std::string name;  // "prefill" or "decode"
  int64_t n_tokens = 0;
  TimeAccount account;
};

class SessionBench {
 public:
  /// The session has one sequence and load.n_ctx() positions. It must outlive this, as must `cancel`.
  SessionBench(Session& session, const BenchLoad& load, const CancelToken& cancel)
      : session_(session), load_(load), cancel_(cancel) {}

  /// Each function returns errors of Session::decode().
  /// Puts the n_depth positions into the cache that all repetitions share. Call it first.
  Result<> fill();
  /// Runs one repetition.
  Result<BenchSeconds> run();
  /// Runs a few repetitions and returns the fastest run of each phase. peaks: of each device of the session.
  Result<std::vector<ExplainedPhase>> explain(const std::vector<DevicePeaks>& peaks);

 private:
  Result<> restart();
  Result<> prefill(int64_t begin, int64_t end);
  Result<> generate(int64_t begin, int64_t end);
  Result<TimeAccount> account_for(const std::vector<DevicePeaks>& peaks, int64_t first_position,
                                  FunctionRef<Result<>()> work);
  int32_t token_at(int64_t position) const;

  Session& session_;
  const BenchLoad load_;
  const CancelToken& cancel_;
};

}  // namespace tessera::observe
