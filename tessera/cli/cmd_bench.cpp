// tessera bench: prefill and decode speed, or single operations (--ops). Lists of values give a cross product of tests.
// Each row is printed as soon as it is measured, with its share of the machine's measured peaks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/cli/bench_report.h"
#include "tessera/cli/console.h"
#include "tessera/cli/mask_bench.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/replay_bench.h"
#include "tessera/cli/tuning.h"
#include "tessera/observe/bench_ops.h"

namespace tessera::cli {

namespace {

// Replaces the list with the items of "1,2,3".
template <class T, class Parse>
Setter set_list(std::vector<T>& list, Parse parse) {
  return [&list, parse](std::string_view text) -> Result<> {
    list.clear();
    while (true) {
      const size_t comma = text.find(',');
      TESSERA_ASSIGN(const T value, parse(text.substr(0, comma)));
      list.push_back(value);
      if (comma == std::string_view::npos) return {};
      text.remove_prefix(comma + 1);
    }
  };
}

Setter set_integers(std::vector<int64_t>& list, int64_t min, int64_t max) {
  Setter setter = set_list(list, [min, max](std::string_view text) { return parse_integer(text, min, max); });
  setter.default_text = fmt::format("{}", fmt::join(list, ","));
  return setter;
}

Setter set_types(std::vector<DType>& list) { return set_list(list, cache_type_from_name); }

// Accepts all types of weights. The device reports the types that it multiplies.
Setter set_weight_types(std::vector<DType>& list) {
  return set_list(list, [](std::string_view text) -> Result<DType> {
    const auto dtype = dtype_from_name(text);
    if (!dtype) return fail(ErrorCode::invalid_argument, "'{}' is not a type of weights (q4_0, q4_K, f16, ...)", text);
    return *dtype;
  });
}

Result<observe::OpSizes> op_sizes_from_name(std::string_view name) {
  if (name == "model") return observe::OpSizes::model;
  if (name == "small") return observe::OpSizes::small;
  return fail(ErrorCode::invalid_argument, "'{}' is not one of model, small", name);
}

Result<BenchFormat> format_from_name(std::string_view name) {
  if (name == "md") return BenchFormat::md;
  if (name == "csv") return BenchFormat::csv;
  if (name == "json") return BenchFormat::json;
  if (name == "jsonl") return BenchFormat::jsonl;
  return fail(ErrorCode::invalid_argument, "'{}' is not a format (md, csv, json, jsonl)", name);
}

// Changes a shared flag to accept a list in this command.
void take_list(FlagTable& table, std::string_view name, Setter setter) {
  Flag& flag = table.at(name);
  flag.value += ",...";
  flag.set = std::move(setter.set);
  flag.shown = Shown::always;
}

struct Test {
  SessionOptions session;
  observe::BenchLoad load;
};

class BenchCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.flags.front().value += ",...";
    table.common("--n-prompt -p", "N,...", "prefill tests of N tokens; 0: none",
                 set_integers(n_prompt_, 0, kMaxContext));
    table.common("--n-gen -n", "N,...", "generation tests of N tokens; 0: none", set_integers(n_gen_, 0, kMaxContext));
    table.common("--prompt-gen -pg", "P,G", "test that prefills P tokens and then generates G; may be repeated",
                 [this](std::string_view text) { return add_prompt_gen(text); });
    table.common("--n-depth -d", "N,...", "tokens in the KV cache before a test begins",
                 set_integers(n_depth_, 0, kMaxContext));
    table.common("--repetitions -r", "N", "number of measurements of each test", set_integer(n_repetitions_, 1, 10000));
    table.common(
        "--output -o", "FORMAT", "output format: md, csv, json, jsonl",
        [this](std::string_view text) -> Result<> {
          TESSERA_ASSIGN(format_, format_from_name(text));
          return {};
        },
        "md");
    table.rare("--no-warmup", "", "skip the warm-up run", set_switch(warm_up_, false));
    table.common("--explain", "", "show the time of each phase by kind of work, and what holds it back",
                 set_switch(explain_));
    table.common("--ops", "REGEX",
                 "measure single operations instead of a model: all with a matching name, such as 'mul_mat q4_K "
                 "2048x2048 t512'; '.': all",
                 [this](std::string_view text) -> Result<> {
                   TESSERA_ASSIGN(ops_.pattern, TensorPattern::compile(text));
                   return {};
                 });
    table.rare("--ops-types", "TYPE,...", "weight types for --ops", set_weight_types(ops_.types), "all");
    table.rare(
        "--ops-size", "SIZE", "sizes for --ops: model (a 1b model), small (smoke test)",
        [this](std::string_view text) -> Result<> {
          TESSERA_ASSIGN(ops_.sizes, op_sizes_from_name(text));
          return {};
        },
        "model");
    table.common("--masks", "FILE",
                 "measure masks instead of a model: JSON lines with schema and tests, which have data and valid",
                 set_string(masks_.path));
    table.common("--replay", "FILE",
                 "measure speculation: the model writes the second half of the text in FILE, in turns without and with "
                 "the guesses of --spec-type",
                 set_string(replay_.path));
    table.rare("--replay-tokens", "N", "tokens at the end of the text that the model writes",
               set_integer(replay_.n_written, 1, kMaxContext), "half");
    replay_.speculation.add_to(table);
    context_.add_to(table);
    add_tuning_flag(table, context_);
    // Each test determines the context size.
    std::erase_if(table.flags, [](const Flag& flag) { return flag.name == "--ctx-size"; });
    take_list(table, "--threads", set_integers(n_threads_, 1, ThreadPool::kMaxThreads));
    take_list(table, "--ubatch-size", noting(has_ubatches_, set_integers(n_ubatch_, 1, 1 << 16)));
    take_list(table, "--cache-type-k", set_types(type_k_));
    take_list(table, "--cache-type-v", set_types(type_v_));
    return table;
  }

  Result<> check() override {
    context_.has_threads = !n_threads_.empty();
    TESSERA_TRY(context_.check());
    if (!context_.has_threads) n_threads_ = {context_.session.threads.n_threads};
    if (ops_.pattern) {
      ops_.n_repetitions = n_repetitions_;
      return {};
    }
    TESSERA_TRY(model_.check());
    if (!masks_.path.empty() || !replay_.path.empty()) return {};
    TESSERA_TRY(
        set_list(models_, [](std::string_view text) { return Result<std::string>(text); }).set(model_.options.path));
    for (const int64_t n : n_prompt_)
      if (n > 0) loads_.push_back({.n_prompt = n});
    for (const int64_t n : n_gen_)
      if (n > 0) loads_.push_back({.n_gen = n});
    loads_.insert(loads_.end(), prompt_gen_.begin(), prompt_gen_.end());
    if (loads_.empty()) return fail(ErrorCode::invalid_argument, "nothing to measure: give -p, -n or -pg");
    for (const Test& test : tests())
      if (test.session.n_ctx > kMaxContext)
        return fail(ErrorCode::invalid_argument, "a test of {} tokens, limit {}", test.session.n_ctx, kMaxContext);
    return {};
  }

  Result<> run(Context& process) override {
    if (!masks_.path.empty()) {
      masks_.model = model_.options.path;
      masks_.is_json = format_ == BenchFormat::json || format_ == BenchFormat::jsonl;
      return masks_.run(process);
    }
    if (!replay_.path.empty()) {
      replay_.n_repetitions = n_repetitions_;
      replay_.is_json = format_ == BenchFormat::json || format_ == BenchFormat::jsonl;
      ContextArgs context = context_;
      context.session.threads.n_threads = static_cast<int>(n_threads_.front());
      return replay_.run(model_, context, process);
    }
    if (!ops_.pattern && models_.size() == 1) use_tuning_of_model(process);
    TESSERA_ASSIGN(const auto registry, open_registry());
    TESSERA_ASSIGN(const auto devices, ModelPlacement::find_devices(*registry, model_.options.engine.placement));
    const Device* device = devices.front();
    TESSERA_ASSIGN(BenchMachine machine, measure_machine(*device));
    BenchReport report(ops_.pattern ? BenchTable::ops : BenchTable::models, format_, machine);
    TESSERA_TRY(report.begin());
    if (ops_.pattern) {
      for (const int64_t n : n_threads_)
        TESSERA_TRY(observe::bench_ops(*device, ops_, backend_options(n), process.interrupt,
                                       [&](const observe::BenchOpRow& row) { return report.add(row); }));
      return report.end();
    }
    for (const std::string& path : models_) {
      TESSERA_ASSIGN(const LoadedModel model, load(registry, path, process));
      for (const Test& test : tests(model.adapters)) {
        TESSERA_ASSIGN(const BenchRow row, measure(model.engine, test, machine, process));
        TESSERA_TRY(report.add(row));
      }
    }
    return report.end();
  }

 private:
  void use_tuning_of_model(const Context& process) {
    const SpeculationArgs no_guesses{.is_given = true};
    ContextArgs tuned = context_;
    tuned.has_ubatch = has_ubatches_;
    use_tuning(model_, tuned, no_guesses, process);
    context_.session.threads = tuned.session.threads;
    if (!context_.has_threads) n_threads_ = {tuned.session.threads.n_threads};
    if (!has_ubatches_) n_ubatch_ = {tuned.session.n_ubatch};
  }

  Result<> add_prompt_gen(std::string_view text) {
    std::vector<int64_t> both;
    TESSERA_TRY(set_integers(both, 1, kMaxContext).set(text));
    if (both.size() != 2) return fail(ErrorCode::invalid_argument, "'{}', want two numbers P,G", text);
    prompt_gen_.push_back({.n_prompt = both[0], .n_gen = both[1]});
    return {};
  }

  // Returns all tests of a model, in the order in which they run.
  std::vector<Test> tests(const std::vector<SessionAdapter>& adapters = {}) const {
    std::vector<Test> tests;
    for (const DType type_k : type_k_)
      for (const DType type_v : type_v_)
        for (const int64_t n_ubatch : n_ubatch_)
          for (const int64_t n_threads : n_threads_)
            for (const int64_t n_depth : n_depth_)
              for (const observe::BenchLoad& load : loads_) {
                Test test{.session = context_.session, .load = load};
                test.load.n_depth = n_depth;
                test.load.n_batch = context_.n_batch;
                test.session.n_ctx = test.load.n_ctx();
                test.session.n_ubatch = n_ubatch;
                test.session.adapters = adapters;
                test.session.type_k = type_k;
                test.session.type_v = type_v;
                test.session.threads.n_threads = static_cast<int>(n_threads);
                tests.push_back(test);
              }
    return tests;
  }

  Result<BenchMachine> measure_machine(const Device& device) const {
    BenchMachine machine{.device = &device, .isa = "", .peaks = {}};
    for (const auto& [key, value] : device.properties())
      if (key == "isa") machine.isa = value;
    for (const int64_t n : n_threads_) {
      if (machine.peaks.contains(static_cast<int>(n))) continue;
      TESSERA_ASSIGN(machine.peaks[static_cast<int>(n)], device.measure_peaks(backend_options(n)));
    }
    return machine;
  }

  BackendOptions backend_options(int64_t n_threads) const {
    BackendOptions options{.threads = context_.session.threads, .activations = context_.session.activations};
    options.threads.n_threads = static_cast<int>(n_threads);
    return options;
  }

  // Loads a model after checking that the memory holds it and every test.
  Result<LoadedModel> load(std::shared_ptr<const Registry> registry, const std::string& path,
                           const Context& process) const {
    ModelOptions options = model_options(model_, context_);
    options.path = path;
    options.engine.threads.n_threads = static_cast<int>(std::ranges::max(n_threads_));
    TESSERA_ASSIGN(LoadedModel model, tessera::open_model(std::move(registry), options));
    LoadDisplay display(process);
    const LoadEvents events = display.events();
    TESSERA_TRY(fit_largest(model, events));
    TESSERA_TRY(load_weights(model, events));
    return model;
  }

  // Places the model so that the largest test fits, then checks that the other tests fit as well.
  Result<> fit_largest(const LoadedModel& model, const LoadEvents& events) const {
    const std::vector<Test> all = tests(model.adapters);
    const Test* largest = nullptr;
    uint64_t most = 0;
    for (const Test& test : all) {
      TESSERA_ASSIGN(const MemoryReport report, Session::plan(*model.engine, test.session));
      if (largest == nullptr || report.total() > most) std::tie(largest, most) = std::pair(&test, report.total());
    }
    TESSERA_ASSIGN(const Fitted fitted, fit(*model.engine, model.adapters, largest->session, model_.options.fit));
    if (!fitted.choice.empty()) events.on_choice(fitted.choice);
    for (const Test& test : all) {
      TESSERA_ASSIGN(const MemoryReport report, Session::plan(*model.engine, test.session));
      TESSERA_TRY(require_memory(*model.engine, report));
    }
    return {};
  }

  Result<BenchRow> measure(const std::shared_ptr<Engine>& engine, const Test& test, const BenchMachine& machine,
                           Context& process) const {
    TESSERA_ASSIGN(const auto session, Session::create(engine, test.session));
    TESSERA_TRY(context_.log_schedules(*session));
    BenchRow row = describe(*engine, test);
    TESSERA_TRY(add_cost(row, *session, machine.peaks.at(row.n_threads)));
    observe::SessionBench bench(*session, test.load, process.interrupt);
    TESSERA_TRY(bench.fill());
    for (int64_t i = warm_up_ ? -1 : 0; i < n_repetitions_; ++i) {
      const std::optional<StreamCounts> before = engine->stream_counts();
      TESSERA_ASSIGN(const observe::BenchSeconds seconds, bench.run());
      if (i < 0) continue;
      row.seconds.push_back(seconds.total());
      if (before) row.experts = row.experts.value_or(StreamCounts{}).plus(engine->stream_counts()->since(*before));
    }
    if (!explain_) return row;
    std::vector<DevicePeaks> peaks;
    for (const Device* device : session->executor().devices()) {
      if (device == machine.device) {
        peaks.push_back(machine.peaks.at(row.n_threads));
        continue;
      }
      TESSERA_ASSIGN(const DevicePeaks of_device, device->measure_peaks(backend_options(row.n_threads)));
      peaks.push_back(of_device);
    }
    TESSERA_ASSIGN(row.phases, bench.explain(peaks));
    return row;
  }

  BenchRow describe(const Engine& engine, const Test& test) const {
    std::map<DType, uint64_t> bytes_of_type;
    BenchRow row;
    for (const ModelFiles::Tensor& tensor : engine.files().tensors()) {
      row.model_size += tensor.info.n_bytes;
      row.model_n_params += static_cast<uint64_t>(tensor.info.shape.n_elements());
      bytes_of_type[tensor.info.dtype] += tensor.info.n_bytes;
    }
    const auto most = std::ranges::max_element(bytes_of_type, {}, [](const auto& entry) { return entry.second; });
    row.model_format = info(most->first).name;
    row.model_type =
        fmt::format("{} {:.3g} {} {}", engine.model().info().architecture,
                    static_cast<double>(row.model_n_params) * (row.model_n_params < 1'000'000'000 ? 1e-6 : 1e-9),
                    row.model_n_params < 1'000'000'000 ? "M" : "B", row.model_format);
    row.model_filename = engine.files().name();
    row.n_batch = context_.n_batch;
    row.n_ubatch = test.session.n_ubatch;
    row.n_threads = test.session.threads.n_threads;
    row.type_k = info(test.session.type_k).name;
    row.type_v = info(test.session.type_v).name;
    row.n_prompt = test.load.n_prompt;
    row.n_gen = test.load.n_gen;
    row.n_depth = test.load.n_depth;
    return row;
  }

  // Adds the work and the bytes read of one repetition, step by step as Measurement and the session split it.
  Result<> add_cost(BenchRow& row, const Session& session, const DevicePeaks& peaks) const {
    std::map<std::pair<int64_t, int64_t>, StepCost> costs;
    const auto add_step = [&](int64_t begin, int64_t end, int64_t n_outputs) -> Result<> {
      const auto [entry, is_new] = costs.try_emplace({end - begin, n_outputs});
      StepCost& cost = entry->second;
      if (is_new) {
        TESSERA_ASSIGN(cost, session.step_cost(end - begin, n_outputs));
      }
      const double macs = cost.macs_at(begin, end - begin);
      const double bytes = cost.bytes_at(begin, end - begin);
      row.macs += macs;
      row.bytes += bytes;
      row.bound_seconds += end <= row.n_depth + row.n_prompt
                               ? macs * 1e-9 / peaks.gmacs(cost.arithmetic(context_.session.activations))
                               : bytes * 1e-9 / peaks.read_gbps;
      return {};
    };
    const int64_t first = row.n_depth, end_of_prompt = first + row.n_prompt;
    for (int64_t call = first; call < end_of_prompt; call += row.n_batch) {
      const int64_t end_of_call = std::min(call + row.n_batch, end_of_prompt);
      for (int64_t begin = call; begin < end_of_call; begin += row.n_ubatch) {
        const int64_t end = std::min(begin + row.n_ubatch, end_of_call);
        TESSERA_TRY(add_step(begin, end, end == end_of_call ? 1 : 0));
      }
    }
    for (int64_t i = end_of_prompt; i < end_of_prompt + row.n_gen; ++i) TESSERA_TRY(add_step(i, i + 1, 1));
    return {};
  }

  ModelArgs model_;
  ContextArgs context_;
  std::vector<int64_t> n_prompt_ = {512}, n_gen_ = {128}, n_depth_ = {0}, n_ubatch_ = {context_.session.n_ubatch},
                       n_threads_;  // empty: check() sets the default
  std::vector<DType> type_k_ = {context_.session.type_k}, type_v_ = {context_.session.type_v};
  std::vector<observe::BenchLoad> prompt_gen_;
  int64_t n_repetitions_ = 5;
  BenchFormat format_ = BenchFormat::md;
  MaskBenchArgs masks_;
  ReplayBenchArgs replay_;
  observe::OpBenchOptions ops_;
  bool warm_up_ = true, explain_ = false, has_ubatches_ = false;
  std::vector<std::string> models_;  // set by check(), like loads_
  std::vector<observe::BenchLoad> loads_;
};

}  // namespace

std::unique_ptr<Command> create_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace tessera::cli
