// The steps of a session as they ran on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tessera/engine/diffusion.h"
#include "tessera/observe/graph_report.h"

namespace tessera::observe {

namespace {

constexpr int kRounds = 3;  // the fastest one is shown

// Stores the step as steps[i] unless a faster run of the same step is already there.
void keep_faster(std::vector<GraphStep>& steps, size_t i, GraphStep step) {
  if (i == steps.size())
    steps.push_back(std::move(step));
  else if (step.run_us < steps[i].run_us)
    steps[i] = std::move(step);
}

// A decode step needs room for one more token.
Result<int64_t> tokens_of_first_step(const Session& session, bool is_diffusion, int64_t n_wanted) {
  const int64_t most = std::min(session.options().n_ubatch, session.n_ctx() - (is_diffusion ? 0 : 1));
  if (n_wanted > most || most < 1)
    return fail(ErrorCode::limit,
                "a {} step of {} tokens, a micro-batch of {} (option n_ubatch) in a context "
                "of {} (option n_ctx)",
                is_diffusion ? "diffusion" : "prefill", std::max<int64_t>(n_wanted, 1), session.options().n_ubatch,
                session.n_ctx());
  return n_wanted > 0 ? n_wanted : std::min(kUsualStepTokens, most);
}

bool is_diffusion_session(const Session& session) {
  return generates_by_diffusion(session.engine().model().info()) && !session.options().embeddings;
}

GraphReport report_of(const Session& session) {
  const Engine& engine = session.engine();
  GraphReport report{.model = std::filesystem::path(engine.files().name()).filename().string(),
                     .architecture = engine.model().info().architecture,
                     .devices = session.executor().devices(),
                     .memories = session.executor().memories(),
                     .reserved_bytes = session.executor().reserved_bytes(),
                     .buffers = session.allocated_memory(),
                     .steps = {}};
  if (const auto name = engine.files().metadata().get<std::string_view>("general.name"); name && !name->empty())
    report.model = fmt::format("{} ({})", *name, report.model);
  return report;
}

// A step of diffusion computes the whole text, and the logits of as many of its last tokens as the session holds.
Batch whole_text(std::span<const int32_t> tokens, int64_t n_outputs) {
  Batch batch;
  for (size_t i = 0; i < tokens.size(); ++i)
    batch.add({.token = tokens[i],
               .position = static_cast<int32_t>(i),
               .wants_logits = std::ssize(tokens) - static_cast<int64_t>(i) <= n_outputs});
  return batch;
}

// The steps of one round, with their titles.
Result<> run_round(Session& session, std::span<const int32_t> tokens, std::string& title, const CancelToken* cancel) {
  TESSERA_TRY(session.clear());
  title = "diffusion";
  if (is_diffusion_session(session)) return session.decode(whole_text(tokens, session.options().n_outputs), cancel);
  title = "encode";
  if (session.has_encoder()) TESSERA_TRY(session.encode(0, tokens, cancel));
  title = "prefill";
  TESSERA_TRY(session.decode(Batch::prompt(tokens, 0, 0), cancel));
  title = "decode";
  const auto next = static_cast<int32_t>(tokens.size());
  if (!session.options().embeddings) TESSERA_TRY(session.decode(Batch::prompt(tokens.first(1), next, 0), cancel));
  return {};
}

}  // namespace

Result<GraphReport> measure_steps(Session& session, int64_t n_tokens, const CancelToken* cancel) {
  GraphReport report = report_of(session);
  TESSERA_ASSIGN(const int64_t n_first, tokens_of_first_step(session, is_diffusion_session(session), n_tokens));
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n_first; ++i)  // arbitrary ids
    tokens.push_back(static_cast<int32_t>((i * 7919 + 13) % session.engine().model().info().n_vocab));
  Result<> done;
  for (int round = 0; round < kRounds && done; ++round) {
    size_t n_steps = 0;
    std::string title;
    session.observe_steps([&](const StepView& view) { keep_faster(report.steps, n_steps++, copy_step(view, title)); });
    done = run_round(session, tokens, title, cancel);
  }
  session.observe_steps({});
  TESSERA_TRY(std::move(done));
  return report;
}

}  // namespace tessera::observe
