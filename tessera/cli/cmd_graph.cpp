// tessera graph: shows a prefill step and a decode step as they ran on this machine: the device of each node and the
// reason, the memory of each value, and the time of each node. Writes a page for a browser, DOT or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tessera/base/file.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/observe/graph_report.h"

namespace tessera::cli {

namespace {

constexpr int64_t kUsualPrefill = 512;
constexpr int kRounds = 3;  // the fastest one is shown

enum class GraphFormat : uint8_t { page, dot, json };

Result<GraphFormat> format_of(std::string_view path) {
  if (path.empty() || path.ends_with(".dot") || path.ends_with(".gv")) return GraphFormat::dot;
  if (path.ends_with(".html") || path.ends_with(".htm")) return GraphFormat::page;
  if (path.ends_with(".json")) return GraphFormat::json;
  return fail(ErrorCode::invalid_argument, "-o {}: want a name that ends in .html, .dot, .gv or .json", path);
}

// Stores the step as steps[i] unless a faster run of the same step is already there.
void keep_faster(std::vector<observe::GraphStep>& steps, size_t i, observe::GraphStep step) {
  if (i == steps.size())
    steps.push_back(std::move(step));
  else if (step.run_us < steps[i].run_us)
    steps[i] = std::move(step);
}

class GraphCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.common("--output -o", "FILE", "F.html: page for a browser; F.dot, F.gv: Graphviz; F.json: data of the page",
                 set_string(output_), "DOT on stdout");
    table.common("--n-prompt -p", "N", "tokens of the prefill step", set_integer(n_prompt_, 1, kMaxContext),
                 fmt::format("{}, or as many as fit", kUsualPrefill));
    context_.add_to(table);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(model_.check());
    TESSERA_ASSIGN(format_, format_of(output_));
    return context_.check();
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(LoadedModel model, open_model(model_, context_));
    context_.session.embeddings = !model.engine->model().info().has_logits;
    TESSERA_TRY(load_session(model, context_, process));
    TESSERA_ASSIGN(const observe::GraphReport report, measure(*model.session, process.interrupt));
    const std::string text = format_ == GraphFormat::page  ? observe::graph_page(report)
                             : format_ == GraphFormat::dot ? observe::graph_dot(report)
                                                           : observe::graph_json(report) + "\n";
    if (output_.empty()) return print(text);
    TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(output_));
    TESSERA_TRY(file.write(std::as_bytes(std::span(text))));
    return file.commit();
  }

 private:
  Result<int64_t> prefill_tokens(const Session& session) const {
    const int64_t most = std::min(session.options().n_ubatch, session.n_ctx() - 1);
    if (n_prompt_ > most || most < 1)
      return fail(ErrorCode::limit, "a prefill step of {} tokens, a micro-batch of {} (-ub) in a context of {} (-c)",
                  std::max<int64_t>(n_prompt_, 1), session.options().n_ubatch, session.n_ctx());
    return n_prompt_ > 0 ? n_prompt_ : std::min(kUsualPrefill, most);
  }

  Result<observe::GraphReport> measure(Session& session, const CancelToken& cancel) const {
    const Engine& engine = session.engine();
    observe::GraphReport report{.model = std::filesystem::path(engine.files().name()).filename().string(),
                                .architecture = engine.model().info().architecture,
                                .devices = session.executor().devices(),
                                .memories = session.executor().memories(),
                                .reserved_bytes = session.executor().reserved_bytes(),
                                .buffers = session.allocated_memory(),
                                .steps = {}};
    if (const auto name = engine.files().metadata().get<std::string_view>("general.name"); name && !name->empty())
      report.model = fmt::format("{} ({})", *name, report.model);
    TESSERA_ASSIGN(const int64_t n_tokens, prefill_tokens(session));
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n_tokens; ++i)  // arbitrary ids
      tokens.push_back(static_cast<int32_t>((i * 7919 + 13) % engine.model().info().n_vocab));
    for (int round = 0; round < kRounds; ++round) {
      size_t n_steps = 0;
      std::string title;
      session.observe_steps(
          [&](const StepView& view) { keep_faster(report.steps, n_steps++, observe::copy_step(view, title)); });
      TESSERA_TRY(session.clear());
      title = "encode";
      if (session.has_encoder()) TESSERA_TRY(session.encode(0, tokens, &cancel));
      title = "prefill";
      TESSERA_TRY(session.decode(Batch::prompt(tokens, 0, 0), &cancel));
      title = "decode";
      const auto next = static_cast<int32_t>(n_tokens);
      if (!session.options().embeddings)
        TESSERA_TRY(session.decode(Batch::prompt(std::span(tokens).first(1), next, 0), &cancel));
    }
    session.observe_steps({});
    return report;
  }

  ModelArgs model_{.may_be_bundled = true};
  ContextArgs context_;
  std::string output_;
  GraphFormat format_ = GraphFormat::dot;
  int64_t n_prompt_ = 0;  // 0: not given
};

}  // namespace

std::unique_ptr<Command> create_graph_command() { return std::make_unique<GraphCommand>(); }

}  // namespace tessera::cli
