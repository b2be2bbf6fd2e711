// Flags for models from a hub or a URL, in place of a file, and the display of their download.
#pragma once

#include <chrono>
#include <string>

#include "tessera/cli/command.h"
#include "tessera/cli/progress.h"
#include "tessera/hub/hub.h"

namespace tessera::cli {

struct HubArgs {
  std::string name;  // user/repo[:TAG][@REVISION]
  std::string file;  // of its repository
  std::string url;
  std::string token;
  bool is_offline = false;

  /// Adds --hf-file, which refines a name.
  void add_file_flag(FlagTable& table);
  /// Adds --hf-token and --offline.
  void add_access_flags(FlagTable& table);
  bool is_given() const { return !name.empty() || !url.empty(); }
  /// The settings of the environment, with these flags. Errors: those of settings_from_environment().
  Result<hub::Settings> settings() const;
  /// Finds the files. Errors: those of Hub::find() and Hub::find_url().
  Result<hub::Found> find(hub::Hub& hub) const;
};

/// Adds --hf-repo, --model-url and the flags that refine them to a table with --model. The last one given counts.
/// Before the command runs, `path` becomes the file in the cache, which is downloaded if it is not there.
void add_hub_flags(FlagTable& table, std::string& path);

/// Downloads the checkpoint of a name unless the cache has it, and returns its folder. Errors: those of
/// hub::Hub::find_checkpoint() and hub::Hub::fetch().
Result<std::string> fetch_checkpoint(const HubArgs& args, const Context& process);

/// Shows a download on stderr. On a terminal it is one line that redraws itself and disappears at the end. Elsewhere
/// there is a line per file, and one per tenth of all bytes.
class DownloadDisplay {
 public:
  explicit DownloadDisplay(const Context& process) : process_(process) {}

  /// Events of a download that must not outlive the display.
  hub::Events events();

 private:
  using Clock = std::chrono::steady_clock;
  void show(const hub::DownloadProgress& state);

  const Context& process_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_at_{};
  StatusLine line_;
  uint64_t shown_tenth_ = 0;
  size_t shown_number_ = 0;
};

/// The bytes of all files.
ByteProgress progress_of(const hub::DownloadProgress& state);

/// "m.gguf (part 1 of 2): 1.00 GB of 4.00 GB, 50.00 MB/s, 00:01:00 left". The name is cut at its start where the line
/// would be too wide.
std::string progress_line(const hub::DownloadProgress& state, std::chrono::duration<double> elapsed,
                          int64_t max_columns = INT64_MAX);

}  // namespace tessera::cli
