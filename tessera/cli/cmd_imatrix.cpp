// tessera imatrix: measures how strongly a text drives each column of a model's weights, for `tessera quantize`. Also
// merges, converts and describes such files.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "tessera/base/file.h"
#include "tessera/cli/chunk_args.h"
#include "tessera/cli/console.h"
#include "tessera/cli/count_progress.h"
#include "tessera/convert/imatrix_statistics.h"
#include "tessera/eval/imatrix_collector.h"

namespace tessera::cli {

namespace {

enum class Form : uint8_t { gguf, dat };

Result<Form> form_from_name(std::string_view name) {
  if (name == "gguf") return Form::gguf;
  if (name == "dat") return Form::dat;
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

  Result<> read_inputs();
  Result<> resume();
  Result<> collect(Context& process);
  Result<> compute(ChunkWork& work, const eval::ImatrixCollector& collector, Context& process);
  int64_t end_of_group(int64_t begin, const ChunkWork& work) const;
  Result<> save(const std::string& path) const;
  Result<convert::Imatrix> total() const;

  ChunkArgs args_;
  std::string output_;
  std::vector<std::string> inputs_;
  std::optional<Form> given_form_;
  Form form_ = Form::gguf;
  int64_t output_every_ = 10, snapshot_every_ = 0;
  bool process_output_ = false, resumes_ = false, shows_statistics_ = false, has_ppl_ = true;
  std::optional<convert::Imatrix> merged_;  // sum of the files of --in-file
  convert::Imatrix collected_;
};

FlagTable ImatrixCommand::flags() {
  FlagTable table;
  args_.add_to(table);
  table.common("--output -o", "FILE", "file to write", set_string(output_), "imatrix.gguf");
  table.common(
      "--output-format", "FORMAT", "gguf, dat",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(given_form_, form_from_name(text));
        return {};
      },
      "by the file's suffix");
  table.rare("--output-frequency -ofreq", "N", "save after every N chunks", set_integer(output_every_, 1, INT64_MAX));
  table.common("--save-frequency", "N", "also write FILE.at_N after every N chunks; 0: never",
               set_integer(snapshot_every_, 0, INT64_MAX));
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
  if (output_.empty() && (collects() || !shows_statistics_)) output_ = "imatrix.gguf";
  form_ = given_form_.value_or(output_.ends_with(".dat") ? Form::dat : Form::gguf);
  if (resumes_ && form_ == Form::dat)
    return fail(ErrorCode::invalid_argument, "--resume: the dat format does not record the progress: want gguf");
  return {};
}

Result<> ImatrixCommand::run(Context& process) {
  TESSERA_TRY(read_inputs());
  // Checks that the output can be written before hours of work.
  if (!output_.empty()) TESSERA_TRY(AtomicFile::create(output_));
  if (collects()) TESSERA_TRY(collect(process));
  if (!output_.empty()) {
    TESSERA_TRY(save(output_));
    if (!process.quiet) log("saved " + output_);
  }
  if (!shows_statistics_) return {};
  TESSERA_ASSIGN(const convert::Imatrix all, total());
  return print(format_statistics(all));
}

Result<> ImatrixCommand::read_inputs() {
  for (const std::string& path : inputs_) {
    TESSERA_ASSIGN(convert::Imatrix imatrix, convert::Imatrix::load(path));
    if (!merged_) {
      merged_ = std::move(imatrix);
    } else if (auto added = merged_->add(imatrix); !added) {
      return forward_error(added, path);
    }
  }
  return {};
}

Result<> ImatrixCommand::resume() {
  if (!resumes_ || !std::filesystem::exists(output_)) return {};
  TESSERA_ASSIGN(convert::Imatrix before, convert::Imatrix::load(output_));
  if (before.chunk_size != collected_.chunk_size || before.datasets != collected_.datasets)
    return fail(ErrorCode::mismatch, "{}: chunks of {} tokens of {}, cannot continue with {} of {}", output_,
                before.chunk_size, fmt::join(before.datasets, ", "), collected_.chunk_size, text_name());
  collected_ = std::move(before);
  return {};
}

Result<> ImatrixCommand::collect(Context& process) {
  collected_.datasets = {text_name()};
  collected_.chunk_size = static_cast<uint32_t>(args_.chunks.n_ctx);
  TESSERA_TRY(resume());
  eval::ImatrixCollector collector(
      collected_, process_output_ ? eval::ImatrixCollector::Output::collect : eval::ImatrixCollector::Output::skip);
  args_.context.session.observer = [&](std::string_view weight, std::span<const float> sums, int64_t n_tokens) {
    collector.observe(weight, sums, n_tokens);
  };
  // The last layer computes only tokens with logits, so all tokens need them.
  TESSERA_ASSIGN(ChunkWork work, args_.open({0, args_.chunks.n_ctx}, process));
  return compute(work, collector, process);
}

Result<> ImatrixCommand::compute(ChunkWork& work, const eval::ImatrixCollector& collector, Context& process) {
  const eval::Chunks& chunks = work.chunks;
  const bool is_whole = collected_.n_chunks == 0;
  eval::Perplexity perplexity;
  {
    CountProgress progress("chunk", chunks.size(), collected_.n_chunks, process);
    for (int64_t begin = collected_.n_chunks; begin < chunks.size();) {
      const int64_t end = end_of_group(begin, work);
      TESSERA_TRY(eval::decode_chunks(
          *work.model.session, chunks, {begin, end}, work.run,
          [&](std::span<const eval::ChunkRow> rows) -> Result<> {
            TESSERA_TRY(collector.status());  // checked first: names the first weight with bad values
            if (!has_ppl_) return {};
            return eval::score(perplexity, chunks, rows, *work.threads);
          },
          &process.interrupt));
      collected_.n_chunks = static_cast<uint32_t>(end);
      progress.update(end, running_ppl(perplexity.estimate()));
      if (end % output_every_ == 0) TESSERA_TRY(save(output_));
      if (snapshot_every_ > 0 && end % snapshot_every_ == 0) TESSERA_TRY(save(fmt::format("{}.at_{}", output_, end)));
      begin = end;
    }
  }
  if (const auto estimate = perplexity.estimate(); is_whole && estimate.n_tokens > 0 && !process.quiet)
    log(fmt::format("Final estimate: PPL = {:.4f} +/- {:.5f}", estimate.ppl, estimate.error));
  return {};
}

// A group of chunks computed together ends at each save.
int64_t ImatrixCommand::end_of_group(int64_t begin, const ChunkWork& work) const {
  int64_t n = std::min(work.run.n_parallel(work.chunks.n_ctx()), work.chunks.size() - begin);
  n = std::min(n, output_every_ - begin % output_every_);
  if (snapshot_every_ > 0) n = std::min(n, snapshot_every_ - begin % snapshot_every_);
  return begin + n;
}

Result<convert::Imatrix> ImatrixCommand::total() const {
  if (!merged_) return collected_;
  convert::Imatrix all = *merged_;
  if (collects()) TESSERA_TRY(all.add(collected_));
  return all;
}

Result<> ImatrixCommand::save(const std::string& path) const {
  TESSERA_ASSIGN(const convert::Imatrix all, total());
  return form_ == Form::dat ? all.save_legacy(path) : all.save(path);
}

}  // namespace

std::unique_ptr<Command> create_imatrix_command() { return std::make_unique<ImatrixCommand>(); }

}  // namespace tessera::cli
