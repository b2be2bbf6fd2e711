#include "tessera/cli/train_args.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/cpu_info.h"
#include "tessera/base/file.h"
#include "tessera/cli/model_args.h"

namespace tessera::cli {

namespace {

constexpr int64_t kMaxWindows = int64_t{1} << 20;
constexpr int64_t kMaxSteps = int64_t{1} << 40;

}  // namespace

TrainArgs::TrainArgs(float default_learning_rate) : learning_rate(default_learning_rate) {
  n_threads = default_thread_count();
}

// A flag a line, as a table.
// clang-format off
void TrainArgs::add_to(FlagTable& table) {
  auto& f = table.flags;
  f.push_back({"--text", {"-f"}, "FILE", "text to train on; may be repeated", "", true,
               [this](std::string_view text) -> Result<> {
                 texts.emplace_back(text);
                 return {};
               }});
  f.push_back({"--separator", {}, "TEXT", "what stands between two documents of a file", separator, false, set_string(separator)});
  f.push_back({"--separate-documents", {}, "", "windows of one document each, filled up where it ends", "", false,
               set_switch(separate_documents)});
  f.push_back({"--output", {"-o"}, "FILE", "what was trained, as a GGUF file", "", true, set_string(output)});
  f.push_back({"--ctx-size", {"-c", "--ctx"}, "N", "tokens of a window", "the model's context", true, set_integer(n_ctx, 1, kMaxContext)});
  f.push_back({"--batch-windows", {"-b", "--batch"}, "N", "windows of a step", "8", true, set_integer(n_batch, 1, kMaxWindows)});
  f.push_back({"--micro-batch", {"-ub"}, "N", "windows that are computed at once", "those of 1024 tokens", true,
               set_integer(n_micro, 1, kMaxWindows)});
  f.push_back({"--steps", {}, "N", "steps", "as --epochs says", true, set_integer(n_steps, 1, kMaxSteps)});
  f.push_back({"--epochs", {}, "X", "how often all windows are seen", "1", true, set_real(n_epochs, 1e-6f, 1e6f)});
  f.push_back({"--learning-rate", {"--lr"}, "X", "learning rate after the warm-up", fmt::format("{}", learning_rate), true,
               set_real(learning_rate, 0.0f, 1e6f)});
  f.push_back({"--warmup", {}, "N", "steps in which the learning rate rises", "5% of the steps", true,
               set_integer(n_warmup, 0, kMaxSteps)});
  f.push_back({"--schedule", {}, "SHAPE", "constant, linear, cosine: what it does then", "cosine", true,
               [this](std::string_view text) -> Result<> {
                 const auto found = train::schedule_shape_from_name(text);
                 if (!found) return fail(ErrorCode::invalid_argument, "'{}': want constant, linear or cosine", text);
                 shape = *found;
                 return {};
               }});
  f.push_back({"--lr-floor", {}, "X", "the last learning rate, as a share of the highest", "0.1", false, set_real(floor, 0.0f, 1.0f)});
  f.push_back({"--optimizer", {}, "NAME", "adamw, sgd, muon (matrices of layers; the rest adamw)", "adamw", true,
               [this](std::string_view text) -> Result<> {
                 const auto found = train::optimizer_from_name(text);
                 if (!found) return fail(ErrorCode::invalid_argument, "'{}': want adamw, sgd or muon", text);
                 optimizer.kind = *found;
                 return {};
               }});
  f.push_back({"--beta1", {}, "X", "decay of adamw's first moment", "0.9", false, set_real(optimizer.beta1, 0.0f, 0.9999999f)});
  f.push_back({"--beta2", {}, "X", "decay of adamw's second moment", "0.95", false, set_real(optimizer.beta2, 0.0f, 0.9999999f)});
  f.push_back({"--momentum", {}, "X", "momentum of sgd and muon", "0.95", false, set_real(optimizer.momentum, 0.0f, 0.9999999f)});
  f.push_back({"--weight-decay", {}, "X", "decay of matrices", "0.1", true, set_real(optimizer.weight_decay, 0.0f, 1e3f)});
  f.push_back({"--clip", {}, "X", "most that the norm of the gradients may be; 0: any", "1", true, set_real(clip, 0.0f, 1e9f)});
  f.push_back({"--seed", {"-s"}, "N", "of first weights and of the order of windows", "1", true, set_integer(seed, 0, INT64_MAX)});
  f.push_back({"--eval-share", {}, "X", "share of the windows that is set apart for evaluation", "0", true, set_real(eval_share, 0.0f, 0.5f)});
  f.push_back({"--eval-every", {}, "N", "steps between evaluations; 0: at the end", "0", true, set_integer(eval_every, 0, kMaxSteps)});
  f.push_back({"--checkpoint", {}, "FILE", "where to keep all that --resume needs", "", true, set_string(checkpoint)});
  f.push_back({"--save-every", {}, "N", "steps between checkpoints; 0: at the end, and on Ctrl-C", "0", true, set_integer(save_every, 0, kMaxSteps)});
  f.push_back({"--keep", {}, "N", "earlier checkpoints that stay, as FILE.1, FILE.2 ...", "0", false, set_integer(n_keep, 0, 1000)});
  f.push_back({"--resume", {}, "", "go on from the checkpoint, to the same bits", "", true, set_switch(resume)});
  f.push_back({"--recompute", {}, "", "less memory: compute layers anew on the way back", "", true, set_switch(recomputes)});
  f.push_back({"--type", {}, "TYPE", "f32, or bf16: matrices as they are multiplied and written (learned in f32)", "f32", true,
               [this](std::string_view text) -> Result<> {
                 if (text != "f32" && text != "bf16") return fail(ErrorCode::invalid_argument, "'{}': want f32 or bf16", text);
                 type = text == "f32" ? DType::f32 : DType::bf16;
                 return {};
               }});
  f.push_back({"--loss-svg", {}, "FILE", "the curve of the loss as a picture", "", true, set_string(svg)});
  f.push_back({"--log", {}, "FILE", "losses as lines of JSON", "", true, set_string(log_path)});
  f.push_back({"--threads", {"-t"}, "N", "threads", fmt::format("{} here", n_threads), true,
               set_integer(n_threads, 1, ThreadPool::kMaxThreads)});
  add_numa_flag(table, numa);
}
// clang-format on

Result<> TrainArgs::check() const {
  if (texts.empty()) return fail(ErrorCode::invalid_argument, "no text: give one with --text FILE");
  if (output.empty()) return fail(ErrorCode::invalid_argument, "no output: give one with -o FILE");
  if (checkpoint.empty() && (resume || save_every > 0 || n_keep > 0))
    return fail(ErrorCode::invalid_argument, "{} goes with --checkpoint FILE",
                resume           ? "--resume"
                : save_every > 0 ? "--save-every"
                                 : "--keep");
  if (eval_every > 0 && eval_share == 0.0f)
    return fail(ErrorCode::invalid_argument, "--eval-every goes with --eval-share X");
  if (n_steps > 0 && n_warmup > n_steps)
    return fail(ErrorCode::invalid_argument, "--warmup {}: there are {} steps", n_warmup, n_steps);
  return {};
}

Result<> want_writable(const std::string& path) {
  if (path.empty()) return {};
  TESSERA_TRY(AtomicFile::create(path));
  return {};
}

}  // namespace tessera::cli
