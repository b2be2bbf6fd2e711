#include "tessera/cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "tessera/app/job.h"
#include "tessera/base/file.h"
#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/help.h"
#include "tessera/cli/option_flags.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

CancelToken g_interrupt;  // a signal handler has no other way to reach the command

extern "C" void on_interrupt(int) {
  if (g_interrupt.cancelled()) ::_exit(kInterrupted);
  g_interrupt.cancel();
}

void write_raw(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

std::atomic<bool> g_survives_lost_files{false};

extern "C" void on_bus_error(int, siginfo_t* info, void*) {
  if (g_survives_lost_files && replace_lost_map(info->si_addr)) return;
  const char* path = find_mapped_path(info->si_addr);
  if (path == nullptr) {  // not a mapped file, so a bug: end the process with the default action
    std::signal(SIGBUS, SIG_DFL);
    return;
  }
  // Several threads can read the lost pages at once. One reports the error, the others wait for its exit.
  static std::atomic_flag reported = ATOMIC_FLAG_INIT;
  while (reported.test_and_set()) ::pause();
  write_raw("error: ");
  write_raw(path);
  write_raw(": the file changed while it was mapped\n");
  ::_exit(kRefused);
}

int report(const Error& error, int status) {
  // The line is valid text without control characters, even if a name in it has arbitrary bytes.
  std::string line = "error: " + text::to_valid_utf8(with_flag_names(error.message()));
  for (size_t i = 0; i < line.size(); ++i) {
    const auto c = static_cast<unsigned char>(line[i]);
    const bool is_c1 = c == 0xC2 && static_cast<unsigned char>(line[i + 1]) < 0xA0;  // U+0080 to U+009F
    if (is_c1) line[i + 1] = '?';
    if (is_c1 || c < 0x20 || c == 0x7f) line[i] = '?';
  }
  log(line);
  return status;
}

int run_command(const CommandInfo& command, std::span<const std::string_view> args) {
  Context context{.interrupt = g_interrupt};
  const std::unique_ptr<Command> made = command.create();
  FlagTable table = made->flags();
  HelpRequest help = HelpRequest::none;
  add_common_flags(table, context, help);
  Result<> parsed = parse(table, args);
  if (help != HelpRequest::none) {
    auto printed = print(help_text(command, table, help));
    return printed ? kDone : report(printed.error(), kRefused);
  }
  if (parsed) parsed = made->check();
  if (!parsed) return report(parsed.error(), kUsage);
  Result<> done = table.before_run ? table.before_run(context) : Result<>{};
  if (done) done = made->run(context);
  if (done) return g_interrupt.cancelled() ? kInterrupted : kDone;
  if (done.error().code() == ErrorCode::cancelled) return kInterrupted;
  return report(done.error(), kRefused);
}

// A link to the program with one of these names is "tessera serve", for scripts that start a server by its name.
bool is_server_name(std::string_view program) {
  program.remove_prefix(program.rfind('/') + 1);
  return program == "tessera-serve" || program == "llama-server";
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction bus {};
  bus.sa_sigaction = on_bus_error;
  bus.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &bus, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void survive_lost_files() { g_survives_lost_files = true; }

namespace {

int run_arguments(int argc, char** argv, std::string_view commit) {
  std::vector<std::string_view> args(argv + 1, argv + argc);
  if (is_server_name(argv[0]) && (args.empty() || args[0] != "--version")) args.insert(args.begin(), "serve");
  if (args.empty()) {
    log(overview());
    return kUsage;
  }
  if (const auto status = run_builtin(args, commit)) return *status;
  std::vector<std::string_view> names;
  for (const CommandInfo& command : all_commands()) {
    if (command.name == args[0]) return run_command(command, std::span(args).subspan(1));
    names.push_back(command.name);
  }
  const std::string_view near = nearest(args[0], names);
  return report(Error(ErrorCode::invalid_argument,
                      near.empty() ? fmt::format("unknown command '{}' (tessera help lists them)", args[0])
                                   : fmt::format("unknown command '{}'; did you mean {}?", args[0], near)),
                kUsage);
}

// A rank other than 0 of a job of mpirun does nothing but work for rank 0, whose arguments decide what is done.
int run_worker(Job& job) {
  auto served = job.serve(g_interrupt);
  if (served) served = job.leave(g_interrupt.cancelled());
  if (g_interrupt.cancelled()) return kInterrupted;
  return served ? kDone : report(std::move(served).error().within(job.name()), kRefused);
}

}  // namespace

int run_program(int argc, char** argv, std::string_view commit) try {
  auto job = Job::join(TESSERA_VERSION);
  if (!job) return report(job.error(), kRefused);
  if (*job == nullptr) return run_arguments(argc, argv, commit);
  if ((*job)->rank() != 0) return run_worker(**job);
  const int status = run_arguments(argc, argv, commit);
  // A rank that is lost keeps MPI from ending. The end of this process makes mpirun end all others.
  if (const auto left = (*job)->leave(g_interrupt.cancelled()); !left) {
    const int refused = status == kDone ? report(left.error(), kRefused) : status;
    std::fflush(nullptr);
    ::_exit(refused);
  }
  return status;
} catch (const std::bad_alloc&) {
  return report(Error(ErrorCode::out_of_memory, "out of memory"), kRefused);
} catch (const std::exception& e) {  // from a third-party library: tessera's functions return errors
  return report(Error(ErrorCode::internal, e.what()), kRefused);
}

}  // namespace tessera::cli
