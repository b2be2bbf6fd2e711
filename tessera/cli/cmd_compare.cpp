// tessera compare: runs one model's steps on two devices, or in two ways on the CPU, and prints the differences between
// the values of each node, the largest first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/app/app.h"
#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/observe/compare_run.h"

namespace tessera::cli {

namespace {

constexpr int64_t kUsualTokens = 16;
constexpr std::string_view kCpu = "cpu:";

// The value of --with or --device: a device, or the CPU with an instruction set or a precision of activations.
struct SideChoice {
  std::string device = "cpu", isa;
  std::optional<ActivationPrecision> activations;
};

SideChoice parse_side(std::string_view text) {
  if (!text.starts_with(kCpu)) return {.device = std::string(text), .isa = {}, .activations = {}};
  const std::string_view way = text.substr(kCpu.size());
  if (const auto activations = activations_from_name(way)) return {.isa = {}, .activations = activations};
  return {.isa = std::string(way), .activations = {}};
}

class CompareCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.common("--with", "NAME",
                 "the other side: a device, cpu:ISA (cpu:scalar, ...), or cpu:ACTIVATIONS (cpu:f32, cpu:int8-32, ...)",
                 set_string(with_), "another device, else cpu:scalar");
    table.common("--prompt -p", "TEXT", "prompt to compute", set_string(prompt_),
                 fmt::format("{} arbitrary tokens", kUsualTokens));
    table.common("--each", "", "run each node on the first side's operands: errors of single operations",
                 [this](std::string_view) -> Result<> {
                   mode_ = observe::CompareMode::each;
                   return {};
                 });
    table.common("--top", "N", "nodes to print; 0: all", set_integer(n_top_, 0, INT64_MAX));
    table.common("--limit", "X", "exit with status 1 if an NMSE is above X", [this](std::string_view text) -> Result<> {
      TESSERA_ASSIGN(limit_, parse_real(text, 0, 1e30f));
      return {};
    });
    table.common("--json", "", "print all nodes as JSON", set_switch(json_));
    context_.add_to(table);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(model_.check());
    if (model_.options.engine.placement.devices.empty()) model_.options.engine.placement.devices = {"cpu"};
    return context_.check();
  }

  Result<> run(Context& process) override {
    observe::StepRecorder wants, gets;
    TESSERA_ASSIGN(LoadedModel reference, open_model(model_, context_));
    if (with_.empty()) with_ = other_side(*reference.registry);
    const SideChoice choice = parse_side(with_);
    TESSERA_ASSIGN(const std::vector<int32_t> tokens, tokens_for(*reference.engine));
    if (context_.session.n_ctx == 0) context_.session.n_ctx = static_cast<int64_t>(tokens.size()) + 1;
    context_.session.embeddings = !reference.engine->model().info().has_logits;
    TESSERA_TRY(load(reference, context_, wants, process));
    TESSERA_ASSIGN(LoadedModel other, open_other(choice));
    ContextArgs context = context_;
    if (choice.activations) context.session.activations = *choice.activations;
    TESSERA_TRY(load(other, context, gets, process));

    TESSERA_ASSIGN(const int32_t next, run_steps(*reference.session, tokens, {}, wants, process.interrupt));
    // --each needs this run too: it fills the cache tables for these tokens.
    TESSERA_TRY(run_steps(*other.session, tokens, next, gets, process.interrupt));
    std::vector<observe::ComparedNode> nodes;
    for (size_t i = 0; i < wants.steps().size(); ++i) {
      TESSERA_ASSIGN(auto of_step, compare(i, tokens, wants, gets, *other.session, context));
      std::ranges::move(of_step, std::back_inserter(nodes));
    }
    std::ranges::stable_sort(nodes, std::ranges::greater(), &observe::ComparedNode::nmse);
    TESSERA_TRY(json_ ? print_json(nodes) : print_table(nodes));
    if (limit_ && !nodes.empty() && !(nodes.front().nmse <= static_cast<double>(*limit_)))
      return fail(ErrorCode::mismatch, "NMSE of {:.3g} in the {} step at node {}, {}: limit {:.3g}", nodes.front().nmse,
                  nodes.front().step, nodes.front().node, nodes.front().operation, *limit_);
    return {};
  }

 private:
  std::string first_side() const { return fmt::format("{}", fmt::join(model_.options.engine.placement.devices, ",")); }

  std::string other_side(const Registry& registry) const {
    for (const auto& device : registry.devices())
      if (device->name() != first_side()) return std::string(device->name());
    return "cpu:scalar";
  }

  Result<LoadedModel> open_other(const SideChoice& choice) const {
    ModelArgs model = model_;
    model.options.engine.placement.devices = {choice.device};
    if (choice.isa.empty()) return open_model(model, context_);
    auto registry = create_registry(choice.isa);
    if (!registry) return forward_error(registry, "--with");
    return tessera::open_model(std::move(*registry), model_options(model, context_));
  }

  static Result<> load(LoadedModel& model, ContextArgs context, observe::StepRecorder& recorder, Context& process) {
    context.session.watch = recorder.watch();
    return load_session(model, context, process);
  }

  Result<std::vector<int32_t>> tokens_for(const Engine& engine) const {
    const int64_t n_vocab = engine.model().info().n_vocab;
    std::vector<int32_t> tokens;
    if (prompt_.empty()) {
      for (int64_t i = 0; i < kUsualTokens; ++i)  // arbitrary ids
        tokens.push_back(static_cast<int32_t>((i * 7919 + 13) % n_vocab));
      return tokens;
    }
    auto made = engine.tokenizer().tokenize(prompt_, {.add_special = true, .parse_special = false});
    if (!made) return forward_error(made, "prompt");
    if (static_cast<int64_t>(made->size()) > context_.session.n_ubatch)
      return fail(ErrorCode::limit, "a prompt of {} tokens, micro-batch of {} (-ub)", made->size(),
                  context_.session.n_ubatch);
    return std::move(*made);
  }

  // Runs the encoder's step if there is one, the prompt, and one more token: `next`, or else the token that the session
  // chooses. Returns that token.
  static Result<int32_t> run_steps(Session& session, std::span<const int32_t> tokens, std::optional<int32_t> next,
                                   observe::StepRecorder& recorder, const CancelToken& cancel) {
    recorder.clear();
    if (session.has_encoder()) {
      recorder.begin_step();
      TESSERA_TRY(session.encode(0, tokens, &cancel));
    }
    recorder.begin_step();
    TESSERA_TRY(session.decode(Batch::prompt(tokens, 0, 0), &cancel));
    if (session.options().embeddings) return 0;
    const std::span<const float> logits = session.logits(0);
    const auto chosen = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    const int32_t token = next.value_or(chosen);
    recorder.begin_step();
    TESSERA_TRY(session.decode(Batch::prompt(std::span(&token, 1), static_cast<int32_t>(tokens.size()), 0), &cancel));
    return token;
  }

  Result<std::vector<observe::ComparedNode>> compare(size_t i, std::span<const int32_t> tokens,
                                                     const observe::StepRecorder& wants,
                                                     const observe::StepRecorder& gets, const Session& other,
                                                     const ContextArgs& context) const {
    const size_t n_decoder_steps = wants.steps().size() - (other.has_encoder() ? 1 : 0);
    const size_t first = wants.steps().size() - n_decoder_steps;
    const std::string name = i < first ? "encode" : i == first ? "prefill" : "decode";
    if (mode_ == observe::CompareMode::whole) return observe::compare_recorded(wants.steps()[i], gets.steps()[i], name);
    if (i < first) return std::vector<observe::ComparedNode>{};
    std::vector<std::unique_ptr<Backend>> backends;
    for (const Device* device : other.executor().devices()) {
      TESSERA_ASSIGN(auto backend, device->create_backend({.threads = context.session.threads,
                                                           .activations = context.session.activations}));
      backends.push_back(std::move(backend));
    }
    TESSERA_ASSIGN(const Schedule schedule,
                   other.step_schedule(i == first ? static_cast<int64_t>(tokens.size()) : 1, 1));
    return observe::compare_each(wants.steps()[i], other, schedule, backends, name);
  }

  Result<> print_table(std::span<const observe::ComparedNode> nodes) const {
    std::vector<std::vector<std::string>> rows = {{"nmse", "largest", "step", "node", "layer", "operation"}};
    const size_t n = n_top_ == 0 ? nodes.size() : std::min(nodes.size(), to_size(n_top_));
    for (const observe::ComparedNode& node : nodes.first(n))
      rows.push_back({fmt::format("{:.2e}", node.nmse), fmt::format("{:.2e}", node.largest_difference), node.step,
                      std::to_string(node.node), node.layer < 0 ? "" : std::to_string(node.layer), node.operation});
    const auto n_same = std::ranges::count_if(nodes, [](const auto& node) { return node.nmse == 0; });
    return print(format_table(rows, "rrlrrl") + fmt::format("{} with {}: {} nodes, {} with the same values\n",
                                                            first_side(), with_, nodes.size(), n_same));
  }

  Result<> print_json(std::span<const observe::ComparedNode> nodes) const {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const observe::ComparedNode& node : nodes)  // JSON has null for an infinite error
      list.push_back({{"step", node.step},
                      {"node", node.node},
                      {"op", node.op},
                      {"label", node.label},
                      {"operation", node.operation},
                      {"layer", node.layer < 0 ? Json() : Json(node.layer)},
                      {"nmse", node.nmse},
                      {"largest_difference", node.largest_difference}});
    const Json all = {{"device", first_side()}, {"with", with_}, {"nodes", std::move(list)}};
    return print(all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  ModelArgs model_{.may_be_bundled = true};
  ContextArgs context_;
  std::string with_, prompt_;
  observe::CompareMode mode_ = observe::CompareMode::whole;
  int64_t n_top_ = 20;
  std::optional<float> limit_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace tessera::cli
