// tessera graph: shows a prefill step and a decode step, or a step of diffusion, as they ran on this machine: the
// device of each node and the reason, the memory of each value, and the time of each node. Writes a page for a browser,
// DOT or JSON.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/file.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/engine/diffusion.h"
#include "tessera/observe/graph_report.h"

namespace tessera::cli {

namespace {

enum class GraphFormat : uint8_t { page, dot, json };

Result<GraphFormat> format_of(std::string_view path) {
  if (path.empty() || path.ends_with(".dot") || path.ends_with(".gv")) return GraphFormat::dot;
  if (path.ends_with(".html") || path.ends_with(".htm")) return GraphFormat::page;
  if (path.ends_with(".json")) return GraphFormat::json;
  return fail(ErrorCode::invalid_argument, "-o {}: want a name that ends in .html, .dot, .gv or .json", path);
}

class GraphCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.common("--output -o", "FILE", "F.html: page for a browser; F.dot, F.gv: Graphviz; F.json: data of the page",
                 set_string(output_), "DOT on stdout");
    table.common("--n-prompt -p", "N", "tokens of the prefill step, or of the text of a diffusion model",
                 set_integer(n_prompt_, 1, kMaxContext), "512, or as many as fit");
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
    TESSERA_ASSIGN(const SessionOptions session, session_of(*model.engine));
    TESSERA_TRY(load_session(model, context_, session, process));
    TESSERA_ASSIGN(const observe::GraphReport report,
                   observe::measure_steps(*model.session, n_prompt_, &process.interrupt));
    const std::string text = format_ == GraphFormat::page  ? observe::graph_page(report)
                             : format_ == GraphFormat::dot ? observe::graph_dot(report)
                                                           : observe::graph_json(report) + "\n";
    if (output_.empty()) return print(text);
    TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(output_));
    TESSERA_TRY(file.write(std::as_bytes(std::span(text))));
    return file.commit();
  }

 private:
  // A step of diffusion is the first one of a text with the default schedule: after a prompt, it has up to 128 masks.
  Result<SessionOptions> session_of(const Engine& engine) const {
    const ModelInfo& info = engine.model().info();
    SessionOptions session = context_.session;
    session.embeddings = !info.has_logits;
    if (!generates_by_diffusion(info)) return session;
    TESSERA_ASSIGN(const DiffusionFacts facts, diffusion_facts(engine));
    const int64_t n_ctx = session.n_ctx > 0 ? session.n_ctx : info.n_ctx_train;
    const int64_t n_most = std::min(session.n_ubatch, n_ctx);
    const int64_t n_tokens = n_prompt_ > 0 ? n_prompt_ : std::min(observe::kUsualStepTokens, n_most);
    if (n_tokens > n_most)
      return fail(ErrorCode::limit, "a text of {} tokens, micro-batch of {} (-ub) in a context of {} (-c)", n_tokens,
                  session.n_ubatch, n_ctx);
    const DiffusionOptions options =
        with_default_schedule({.n_predict = default_diffusion_length(n_tokens, 0)}, facts.shifts_logits);
    return diffusion_session(engine, options, n_tokens - options.n_predict, session);
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
