// tessera download: brings a model of a hub, or the file of a URL, into the cache, and prints its path.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/cli/cached_models.h"
#include "tessera/cli/console.h"
#include "tessera/cli/hub_args.h"
#include "tessera/cli/progress.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

// Prints progress as lines of JSON, at most one a second.
class JsonProgress {
 public:
  hub::Events events() {
    return {.on_progress = [this](const hub::DownloadProgress& state) { show(state); },
            .on_note = [](const std::string& note) { log(note); }};
  }

 private:
  using Clock = std::chrono::steady_clock;

  void show(const hub::DownloadProgress& state) {
    const auto now = Clock::now();
    if (state.n_bytes < state.size && now - shown_at_ < std::chrono::seconds(1)) return;
    shown_at_ = now;
    const auto left = time_left(progress_of(state), now - start_);
    // A closed pipe is noticed when the result is printed.
    static_cast<void>(print(fmt::format(
        "{{\"file\": {}, \"part\": {}, \"parts\": {}, \"bytes\": {}, \"size\": {}, \"all_bytes\": {}, \"all_size\": "
        "{}, "
        "\"received\": {}, \"seconds_left\": {}}}\n",
        text::json_quoted(state.name), state.number, state.count, state.n_bytes, state.size, state.n_all_bytes,
        state.all_size, state.n_received, left ? std::to_string(left->count()) : "null")));
  }

  Clock::time_point start_ = Clock::now(), shown_at_{};
};

class DownloadCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_file_flag(table);
    args_.add_access_flags(table);
    for (Flag& flag : table.flags) flag.shown = Shown::always;
    table.common("--list", "", "list the models of the cache, or those of one repository", set_switch(lists_));
    table.common("--remove", "", "remove the model from the cache", set_switch(removes_));
    table.common("--json", "", "print lines of JSON: progress, then the result", set_switch(json_));
    table.positional = "USER/REPO[:TAG][@REVISION]|URL";
    table.add_positional = [this](std::string_view text) -> Result<> {
      if (!args_.name.empty() || !args_.url.empty())
        return fail(ErrorCode::invalid_argument, "unexpected argument '{}': one model at a time", text);
      const bool is_url = text.contains("://");
      if (is_url)
        TESSERA_TRY(hub::parse_url(text));
      else
        TESSERA_TRY(hub::parse_model_name(text));
      (is_url ? args_.url : args_.name) = text;
      return {};
    };
    return table;
  }

  Result<> check() override {
    if (lists_ && removes_) return fail(ErrorCode::invalid_argument, "--list and --remove: give one of them");
    if (!lists_ && !args_.is_given())
      return fail(ErrorCode::invalid_argument, "no model: give a name, such as user/repo:Q4_K_M, or a URL");
    if (!args_.file.empty() && args_.name.empty())
      return fail(ErrorCode::invalid_argument, "--hf-file: name its repository");
    return {};
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(hub::Settings settings, args_.settings());
    const std::string name = args_.url.empty() ? args_.name : args_.url;
    if (removes_) return remove_cached_model(settings.cache_dir, name, json_);
    if (lists_) {
      TESSERA_ASSIGN(const std::string only, repository());
      return print_cached_models(settings.cache_dir, only, json_);
    }
    TESSERA_ASSIGN(const auto result, download(std::move(settings), process));
    const auto& [found, fetched] = result;
    if (json_) return print(json_of_result(found, fetched));
    if (found.selection.kind != hub::SelectionKind::checkpoint) return print(fetched.paths.front() + "\n");
    if (!process.quiet) log("a checkpoint: `tessera convert` makes a GGUF file of it");
    return print(fetched.folder + "\n");
  }

 private:
  Result<std::string> repository() const {
    if (!args_.url.empty()) {
      TESSERA_ASSIGN(const hub::Url url, hub::parse_url(args_.url));
      return hub::repository_of_url(url);
    }
    if (args_.name.empty()) return std::string();
    TESSERA_ASSIGN(const hub::ModelName name, hub::parse_model_name(args_.name));
    return name.repository;
  }

  Result<std::pair<hub::Found, hub::Fetched>> download(hub::Settings settings, const Context& process) const {
    DownloadDisplay display(process);
    JsonProgress lines;
    hub::Hub hub(std::move(settings), json_ ? lines.events() : display.events(), process.interrupt);
    TESSERA_ASSIGN(hub::Found found, args_.find(hub));
    TESSERA_ASSIGN(hub::Fetched fetched, hub.fetch(found));
    return std::pair(std::move(found), std::move(fetched));
  }

  static std::string json_of_result(const hub::Found& found, const hub::Fetched& fetched) {
    std::vector<std::string> paths;
    for (const std::string& path : fetched.paths) paths.push_back(text::json_quoted(path));
    return fmt::format(
        "{{\"repository\": {}, \"commit\": \"{}\", \"folder\": {}, \"paths\": [{}], \"received\": {}}}\n",
        text::json_quoted(found.repository), found.commit, text::json_quoted(fetched.folder), fmt::join(paths, ", "),
        fetched.n_received);
  }

  HubArgs args_;
  bool lists_ = false, removes_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_download_command() { return std::make_unique<DownloadCommand>(); }

}  // namespace tessera::cli
