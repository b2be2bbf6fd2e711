// tessera imatrix: measures how strongly a text drives each column of a model's weights, for `tessera quantize`. Also
// merges, converts and describes such files.
#include <fmt/format.h>

#include <cmath>

#include "tessera/base/file.h"
#include "tessera/cli/chunk_args.h"
#include "tessera/cli/console.h"
#include "tessera/cli/count_progress.h"
#include "tessera/convert/imatrix_statistics.h"
#include "tessera/eval/imatrix_run.h"

namespace tessera::cli {

namespace {

using eval::ImatrixForm;

Result<ImatrixForm> form_from_name(std::string_view name) {
  if (name == "gguf") return ImatrixForm::gguf;
  if (name == "dat") return ImatrixForm::dat;
  return fail(ErrorCode::invalid_argument, "'{}' is not a format (gguf, dat)", name);
}

std::string layer_name(int64_t layer) { return layer < 0 ? "-" : std::to_string(layer); }

std::string format_statistics(const convert::Imatrix& imatrix) {
  const std::vector<convert::ImatrixStatistics> all = convert::statistics_of(imatrix);
  std::vector<std::vector<std::string>> weights = {
      {"layer", "weight", "sum", "mean", "min", "max", "deviation", "active", "columns", "entropy", "of most"}};
  for (const convert::ImatrixStatistics& s : all) {
    const double most = std::log2(static_cast<double>(s.n_columns));
    weights.push_back({layer_name(s.layer), s.weight, fmt::format("{:.4g}", s.sum), fmt::format("{:.4g}", s.mean),
                       fmt::format("{:.4g}", s.min), fmt::format("{:.4g}", s.max), fmt::format("{:.4g}", s.deviation),
                       fmt::format("{:.2f}%", 100 * s.active_share), std::to_string(s.n_columns),
                       fmt::format("{:.4f}", s.entropy),
                       s.n_columns > 1 ? fmt::format("{:.2f}%", 100 * s.entropy / most) : "-"});
  }
  std::vector<std::vector<std::string>> layers = {{"layer", "weights", "sum", "mean", "active"}};
  for (const convert::LayerStatistics& s : convert::layers_of(all))
    layers.push_back({layer_name(s.layer), std::to_string(s.n_weights), fmt::format("{:.4g}", s.sum),
                      fmt::format("{:.4g}", s.mean), fmt::format("{:.2f}%", 100 * s.active_share)});
  return format_table(weights, "rlrrrrrrrrr") + "\n" + format_table(layers, "rrrrr");
}

class ImatrixCommand final : public Command {
 public:
  FlagTable flags() override;
  Result<> check() override;
  Result<> run(Context& process) override;

 private:
  // A new matrix requires a text. Without a text, the command only merges the files of --in-file.
  bool collects() const { return args_.text.text || !args_.text.file.empty() || inputs_.empty(); }
  std::string text_name() const {
    return args_.text.text ? "(prompt)" : args_.text.file.empty() ? "(stdin)" : args_.text.file;
  }

  Result<> collect(eval::ImatrixRun& run, Context& process);

  ChunkArgs args_;
  eval::ImatrixOutput output_;
  std::vector<std::string> inputs_;
  std::optional<ImatrixForm> given_form_;
  bool process_output_ = false, resumes_ = false, shows_statistics_ = false, has_ppl_ = true;
};

FlagTable ImatrixCommand::flags() {
  FlagTable table;
  args_.add_to(table);
  table.common("--output -o", "FILE", "file to write", set_string(output_.path), "imatrix.gguf");
  table.common(
      "--output-format", "FORMAT", "gguf, dat",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(given_form_, form_from_name(text));
        return {};
      },
      "by the file's suffix");
  table.rare("--output-frequency -ofreq", "N", "save after every N chunks",
             set_integer(output_.save_every, 1, INT64_MAX));
  table.common("--save-frequency", "N", "also write FILE.at_N after every N chunks; 0: never",
               set_integer(output_.snapshot_every, 0, INT64_MAX));
  table.common("--in-file", "FILE", "add this matrix to the output; may be repeated; without a text, only merge",
               [this](std::string_view text) -> Result<> {
                 inputs_.emplace_back(text);
                 return {};
               });
  table.common("--resume", "", "continue from the output file, with the same text", set_switch(resumes_));
  table.common("--chunk --from-chunk", "N", "chunks to skip at the beginning of the text",
               set_integer(args_.chunks.n_skip, 0, INT64_MAX));
  table.common("--process-output", "", "also collect output.weight", set_switch(process_output_));
  table.common("--no-ppl", "", "do not compute perplexity", set_switch(has_ppl_, false));
  table.common("--show-statistics", "", "print statistics of the matrix", set_switch(shows_statistics_));
  return table;
}

Result<> ImatrixCommand::check() {
  TESSERA_TRY(args_.check());
  if (collects()) TESSERA_TRY(args_.model.check());
  if (resumes_ && !inputs_.empty())
    return fail(ErrorCode::invalid_argument, "--resume and --in-file: give one of them");
  if (args_.chunks.n_max_chunks == 0) return fail(ErrorCode::invalid_argument, "--chunks 0: nothing to collect");
  if (output_.path.empty() && (collects() || !shows_statistics_)) output_.path = "imatrix.gguf";
  output_.form = given_form_.value_or(eval::imatrix_form_of(output_.path));
  if (resumes_ && output_.form == ImatrixForm::dat)
    return fail(ErrorCode::invalid_argument, "--resume: the dat format does not record the progress: want gguf");
  return {};
}

Result<> ImatrixCommand::run(Context& process) {
  using Output = eval::ImatrixCollector::Output;
  eval::ImatrixRun run(output_, process_output_ ? Output::collect : Output::skip);
  for (const std::string& path : inputs_) TESSERA_TRY(run.merge(path));
  // Checks that the output can be written before hours of work.
  if (!output_.path.empty()) TESSERA_TRY(AtomicFile::create(output_.path));
  if (collects()) TESSERA_TRY(collect(run, process));
  if (!output_.path.empty()) {
    TESSERA_TRY(run.save());
    if (!process.quiet) log("saved " + output_.path);
  }
  if (!shows_statistics_) return {};
  TESSERA_ASSIGN(const convert::Imatrix all, run.total());
  return print(format_statistics(all));
}

Result<> ImatrixCommand::collect(eval::ImatrixRun& run, Context& process) {
  TESSERA_TRY(run.begin(text_name(), args_.chunks.n_ctx, resumes_));
  args_.context.session.observer = run.observer();
  // The last layer computes only tokens with logits, so all tokens need them.
  TESSERA_ASSIGN(ChunkWork work, args_.open({0, args_.chunks.n_ctx}, process));
  const int64_t n_before = run.collected().n_chunks;
  {
    CountProgress progress("chunk", work.chunks.size(), n_before, process);
    const auto show = [&](int64_t n_done) {
      progress.update(n_done, running_ppl(run.perplexity()));
      return true;
    };
    ThreadPool* const scorers = has_ppl_ ? work.threads.get() : nullptr;
    TESSERA_TRY(run.collect(*work.model.session, work.chunks, work.run, scorers, show, &process.interrupt));
  }
  if (const auto estimate = run.perplexity(); n_before == 0 && estimate.n_tokens > 0 && !process.quiet)
    log(fmt::format("Final estimate: PPL = {:.4f} +/- {:.5f}", estimate.ppl, estimate.error));
  return {};
}

}  // namespace

std::unique_ptr<Command> create_imatrix_command() { return std::make_unique<ImatrixCommand>(); }

}  // namespace tessera::cli
