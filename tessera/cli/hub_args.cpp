#include "tessera/cli/hub_args.h"

#include <fmt/format.h>

#include <memory>

#include "tessera/cli/cluster.h"
#include "tessera/cli/console.h"
#include "tessera/cli/hub_conversion.h"
#include "tessera/gguf/printable.h"

namespace tessera::cli {

namespace {

constexpr std::chrono::milliseconds kRedraw(100);

std::string bytes_text(uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// Downloads the model of a name or URL, and returns the path of its file.
Result<std::string> fetch_model(const HubArgs& args, const Context& process) {
  TESSERA_ASSIGN(hub::Settings settings, args.settings());
  DownloadDisplay display(process);
  hub::Hub hub(std::move(settings), display.events(), process.interrupt);
  TESSERA_ASSIGN(const hub::Found found, args.find(hub));
  TESSERA_ASSIGN(const hub::Fetched fetched, hub.fetch(found));
  if (found.selection.kind != hub::SelectionKind::checkpoint) return fetched.paths.front();
  TESSERA_ASSIGN(const hub::ModelName name, hub::parse_model_name(args.name));
  return convert_fetched(found, hub.settings().cache_dir, name.tag, process);
}

Setter set_name(std::string& name) {
  return [&name](std::string_view text) -> Result<> {
    TESSERA_TRY(hub::parse_model_name(text));
    name = text;
    return {};
  };
}

Setter set_url(std::string& url) {
  return [&url](std::string_view text) -> Result<> {
    TESSERA_TRY(hub::parse_url(text));
    url = text;
    return {};
  };
}

Setter set_token(std::string& token) {
  return [&token](std::string_view text) -> Result<> {
    token = text;
    return hub::check_token(token);
  };
}

}  // namespace

void HubArgs::add_file_flag(FlagTable& table) {
  table.rare("--hf-file -hff", "PATH", "file of the repository, in place of the one that the tag means",
             set_string(file));
}

void HubArgs::add_access_flags(FlagTable& table) {
  table.rare("--hf-token -hft", "TOKEN", "token for gated and private models", set_token(token),
             "HF_TOKEN, or the token of the hub's own tools");
  table.rare("--offline", "", "use models of the cache only, without any request", set_switch(is_offline));
}

Result<hub::Settings> HubArgs::settings() const {
  TESSERA_ASSIGN(hub::Settings settings, hub::settings_from_environment());
  if (!token.empty()) settings.token = token;
  settings.is_offline |= is_offline;
  settings.user_agent = "tessera/" TESSERA_VERSION;
  return settings;
}

Result<hub::Found> HubArgs::find(hub::Hub& hub) const {
  if (!url.empty()) return hub.find_url(url);
  TESSERA_ASSIGN(const hub::ModelName parsed, hub::parse_model_name(name));
  return hub.find(parsed, file);
}

void add_hub_flags(FlagTable& table, std::string& path) {
  const auto args = std::make_shared<HubArgs>();
  // The path holds the name until the command runs, so that commands which need a model see one. A later --model or
  // positional argument replaces it.
  const auto choose = [args, &path](Setter setter) -> Setter {
    return [args, &path, set = std::move(setter.set)](std::string_view text) -> Result<> {
      args->name.clear();
      args->url.clear();
      TESSERA_TRY(set(text));
      path = text;
      return {};
    };
  };
  Flag& model = table.at("--model");
  model.set = choose({std::move(model.set)}).set;
  table.common("--hf-repo -hf -hfr", "USER/REPO[:TAG]", "model of a hub, downloaded once; TAG is a type, such as Q8_0",
               choose(set_name(args->name)), "");
  table.rare("--model-url -mu", "URL", "model file of a server, downloaded once", choose(set_url(args->url)), "");
  args->add_file_flag(table);
  args->add_access_flags(table);
  table.before_run = [args, &path](const Context& process) -> Result<> {
    const bool is_chosen = args->is_given() && path == (args->url.empty() ? args->name : args->url);
    if (!args->file.empty() && (!is_chosen || args->name.empty()))
      return fail(ErrorCode::invalid_argument, "--hf-file: name its repository with --hf-repo");
    if (!is_chosen) return {};
    TESSERA_ASSIGN(path, fetch_model(*args, process));
    return {};
  };
}

Result<std::string> fetch_checkpoint(const HubArgs& args, const Context& process) {
  TESSERA_ASSIGN(hub::Settings settings, args.settings());
  TESSERA_ASSIGN(const hub::ModelName name, hub::parse_model_name(args.name));
  DownloadDisplay display(process);
  hub::Hub hub(std::move(settings), display.events(), process.interrupt);
  TESSERA_ASSIGN(const hub::Found found, hub.find_checkpoint(name));
  TESSERA_ASSIGN(hub::Fetched fetched, hub.fetch(found));
  return std::move(fetched.folder);
}

hub::Events DownloadDisplay::events() {
  return {.on_progress = [this](const hub::DownloadProgress& state) { show(state); },
          .on_note =
              [this](const std::string& note) {
                line_.erase();
                if (!process_.quiet) log(printable(note, 1000));
              }};
}

void DownloadDisplay::show(const hub::DownloadProgress& state) {
  const bool is_from_cache = state.n_received == 0 && !state.is_checking;
  if (process_.quiet || is_from_cache) return;
  const auto now = Clock::now();
  if (stderr_is_terminal()) {
    if (now - drawn_at_ < kRedraw) return;
    line_.draw(progress_line(state, now - start_, StatusLine::max_columns()));
    drawn_at_ = now;
    return;
  }
  const uint64_t tenth = state.all_size == 0 ? 10 : state.n_all_bytes / (state.all_size / 10 + 1);
  if (state.number == shown_number_ && tenth == shown_tenth_) return;
  shown_number_ = state.number;
  shown_tenth_ = tenth;
  log(progress_line(state, now - start_));
}

ByteProgress progress_of(const hub::DownloadProgress& state) {
  return {.n_done = state.n_received, .n_left = state.all_size - state.n_all_bytes};
}

std::string progress_line(const hub::DownloadProgress& state, std::chrono::duration<double> elapsed,
                          int64_t max_columns) {
  std::string rest;
  if (state.count > 1) rest += fmt::format(" (part {} of {})", state.number, state.count);
  rest += fmt::format(": {} of {}", bytes_text(state.n_bytes), bytes_text(state.size));
  rest += state.is_checking ? ", checking the part of an earlier run" : rate_text(progress_of(state), elapsed);
  return end_within(printable(state.name), max_columns - n_columns(rest)) + rest;
}

}  // namespace tessera::cli
