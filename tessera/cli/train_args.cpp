#include "tessera/cli/train_args.h"

#include <fmt/format.h>

#include "tessera/base/cpu_info.h"
#include "tessera/base/file.h"
#include "tessera/cli/model_args.h"

namespace tessera::cli {

namespace {

constexpr int64_t kMaxWindows = int64_t{1} << 20;
constexpr int64_t kMaxSteps = int64_t{1} << 40;

}  // namespace

TrainArgs::TrainArgs(float default_learning_rate) {
  learning_rate = default_learning_rate;
  threads.n_threads = default_thread_count();
}

void TrainArgs::add_to(FlagTable& table) {
  table.common("--text -f", "FILE", "text to train on; may be repeated", [this](std::string_view text) -> Result<> {
    texts.emplace_back(text);
    return {};
  });
  table.rare("--separator", "TEXT", "text between two documents of a file", set_string(separator), separator);
  table.rare("--separate-documents", "", "windows of one document each, padded at the end of the document",
             set_switch(separate_documents));
  table.rare("--whole-documents", "", "windows of as many whole documents as fit, padded at the end",
             set_switch(whole_documents));
  table.rare("--special -sp", "", "read special tokens in the text", set_switch(special));
  table.common("--output -o", "FILE", "GGUF file for the trained model or adapter", set_string(output));
  table.common("--ctx-size -c --ctx", "N", "tokens per window", set_integer(n_ctx, 1, kMaxContext),
               "the model's context");
  table.common("--batch-windows -b --batch", "N", "windows per step", set_integer(n_batch, 1, kMaxWindows));
  table.common("--micro-batch -ub", "N", "windows computed at once", set_integer(n_micro, 1, kMaxWindows),
               "enough for 1024 tokens");
  table.common("--steps", "N", "number of steps", set_integer(n_steps, 1, kMaxSteps), "from --epochs");
  table.common("--epochs", "X", "passes over all windows", set_real(n_epochs, 1e-6f, 1e6f));
  table.common("--learning-rate --lr", "X", "learning rate after the warm-up", set_real(learning_rate, 0.0f, 1e6f),
               fmt::format("{}", learning_rate));
  table.common("--warmup", "N", "warm-up steps, in which the learning rate rises", set_integer(n_warmup, 0, kMaxSteps),
               "5% of the steps");
  table.common(
      "--schedule", "SHAPE", "learning rate after the warm-up: constant, linear, cosine",
      [this](std::string_view text) -> Result<> {
        const auto found = train::schedule_shape_from_name(text);
        if (!found) return fail(ErrorCode::invalid_argument, "'{}': want constant, linear or cosine", text);
        shape = *found;
        return {};
      },
      "cosine");
  table.rare("--lr-floor", "X", "final learning rate, as a share of the highest", set_real(floor, 0.0f, 1.0f));
  table.common(
      "--optimizer", "NAME", "adamw, sgd, muon (for matrices of layers; adamw for the rest)",
      [this](std::string_view text) -> Result<> {
        const auto found = train::optimizer_from_name(text);
        if (!found) return fail(ErrorCode::invalid_argument, "'{}': want adamw, sgd or muon", text);
        optimizer.kind = *found;
        return {};
      },
      "adamw");
  table.rare("--beta1", "X", "decay of adamw's first moment", set_real(optimizer.beta1, 0.0f, 0.9999999f));
  table.rare("--beta2", "X", "decay of adamw's second moment", set_real(optimizer.beta2, 0.0f, 0.9999999f));
  table.rare("--momentum", "X", "momentum of sgd and muon", set_real(optimizer.momentum, 0.0f, 0.9999999f));
  table.common("--weight-decay", "X", "weight decay of matrices", set_real(optimizer.weight_decay, 0.0f, 1e3f));
  table.common("--clip", "X", "largest norm of the gradients; 0: no limit", set_real(clip, 0.0f, 1e9f));
  table.common("--seed -s", "N", "random seed of initial weights and of the order of windows",
               set_integer(seed, 0, INT64_MAX));
  table.common("--eval-share", "X", "share of the windows reserved for evaluation", set_real(eval_share, 0.0f, 0.5f));
  table.common("--eval-every", "N", "steps between evaluations; 0: only at the end",
               set_integer(eval_every, 0, kMaxSteps));
  table.common("--checkpoint", "FILE", "checkpoint file, from which --resume continues", set_string(checkpoint));
  table.common("--save-every", "N", "steps between checkpoints; 0: only at the end and on Ctrl-C",
               set_integer(save_every, 0, kMaxSteps));
  table.rare("--keep", "N", "number of earlier checkpoints to keep, as FILE.1, FILE.2 ...",
             set_integer(n_keep, 0, 1000));
  table.common("--resume", "", "continue from the checkpoint, with bit-identical results", set_switch(resume));
  table.common("--recompute", "", "save memory: recompute layers in the backward pass", set_switch(recomputes));
  table.common(
      "--type", "TYPE", "type of matrices in products and in the output: f32, bf16 (trained in f32)",
      [this](std::string_view text) -> Result<> {
        if (text != "f32" && text != "bf16") return fail(ErrorCode::invalid_argument, "'{}': want f32 or bf16", text);
        type = text == "f32" ? DType::f32 : DType::bf16;
        return {};
      },
      "f32");
  table.common("--loss-svg", "FILE", "write the loss curve as an SVG picture", set_string(svg));
  table.common("--log", "FILE", "write losses as lines of JSON", set_string(log_path));
  add_threads_flag(table, threads.n_threads);
  add_numa_flag(table, threads.numa);
}

Result<> TrainArgs::check() const {
  if (texts.empty()) return fail(ErrorCode::invalid_argument, "no text: give one with --text FILE");
  if (output.empty()) return fail(ErrorCode::invalid_argument, "no output: give one with -o FILE");
  if (separate_documents && whole_documents)
    return fail(ErrorCode::invalid_argument, "--separate-documents and --whole-documents: give one of them");
  if (checkpoint.empty() && (resume || save_every > 0 || n_keep > 0))
    return fail(ErrorCode::invalid_argument, "{} requires --checkpoint FILE",
                resume           ? "--resume"
                : save_every > 0 ? "--save-every"
                                 : "--keep");
  if (eval_every > 0 && eval_share == 0.0f)
    return fail(ErrorCode::invalid_argument, "--eval-every requires --eval-share X");
  if (n_steps > 0 && n_warmup > n_steps)
    return fail(ErrorCode::invalid_argument, "--warmup {}: there are {} steps", n_warmup, n_steps);
  return {};
}

Result<> require_writable(const std::string& path) {
  if (path.empty()) return {};
  TESSERA_TRY(AtomicFile::create(path));
  return {};
}

}  // namespace tessera::cli
