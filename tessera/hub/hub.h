// Models from a hub or a URL, through a cache on disk. The command line, and programs that want a file, use this.
//
// find() says which files a name means; fetch() brings them. A file is complete and has its hash, or is absent. Nothing
// is requested twice: what the cache has is taken from there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/hub/cache.h"
#include "tessera/hub/clock.h"
#include "tessera/hub/http.h"
#include "tessera/hub/model_name.h"
#include "tessera/hub/range_download.h"
#include "tessera/hub/selection.h"
#include "tessera/hub/settings.h"

namespace tessera::hub {

/// The state of a download.
struct DownloadProgress {
  std::string name;  // of the file
  size_t number = 1, count = 1;
  uint64_t n_bytes = 0, size = 0;          // of the file
  uint64_t n_all_bytes = 0, all_size = 0;  // of all files
  uint64_t n_received = 0;                 // of all files, in this run
  bool is_checking = false;                // the bytes of an earlier run are hashed
};

struct Events {
  std::function<void(const DownloadProgress&)> on_progress{};
  std::function<void(const std::string&)> on_note{};  // retries, and waits for another process
};

/// The files of a name.
struct Found {
  std::string repository, revision, commit;
  Selection selection;
  Listing listing;                 // of all files
  std::vector<RemoteFile> remote;  // of a URL: its files, in the order of the selection
};

struct Fetched {
  std::string folder;              // the snapshot
  std::vector<std::string> paths;  // in the order of the selection
  uint64_t n_received = 0;
};

class Hub {
 public:
  /// `cancel` must outlive the object. clock: null for the system's.
  Hub(Settings settings, Events events, const CancelToken& cancel, Clock* clock = nullptr);
  ~Hub();

  /// Finds the files of a model, or with a path the file of its repository. Needs one small request for a branch whose
  /// commit is in the cache, and none for a commit. Errors: not_found; io; format; cancelled; those of select_files().
  Result<Found> find(const ModelName& name, const std::string& path = "") {
    return find(name, FileChoice{.tag = name.tag, .path = path});
  }
  /// Finds the files of the checkpoint of a repository, also where it has GGUF files. Errors: as find().
  Result<Found> find_checkpoint(const ModelName& name) { return find(name, FileChoice{.wants_checkpoint = true}); }
  /// Finds the file of a URL. A URL of a file on the endpoint's own host is that file of its repository. Of a model in
  /// parts, all parts are found. Errors: as find(); invalid_argument.
  Result<Found> find_url(const std::string& url);

  /// Brings the files into the cache. Errors: io (also: too little space); mismatch (wrong hash or size; the file is
  /// removed); not_found (offline, and not in the cache); cancelled (the part stays).
  Result<Fetched> fetch(const Found& found);

  const Settings& settings() const { return settings_; }

 private:
  Result<TransferContext> context();
  Result<Found> find(const ModelName& name, const FileChoice& choice);
  Result<std::string> find_commit(const ModelName& name, const RepositoryCache& cache);
  Result<Listing> find_listing(const std::string& repository, const std::string& commit, const RepositoryCache& cache);
  Result<std::vector<RepositoryFile>> request_tree(const std::string& repository, const std::string& commit);
  Result<RemoteFile> probe(const Url& url);
  Result<> check_space(const Found& found, const RepositoryCache& cache) const;
  Result<> fetch_file(const Found& found, size_t i, const RepositoryCache& cache, DownloadProgress& progress);
  Result<> download(const RemoteFile& remote, const std::string& blob, DownloadProgress& progress);
  RemoteFile remote_file(const Found& found, size_t i) const;
  Url api_url(const std::string& target) const;
  void note(const std::string& text) const;

  Settings settings_;
  Events events_;
  const CancelToken& cancel_;
  std::unique_ptr<Clock> own_clock_;
  Clock& clock_;
  std::unique_ptr<HttpClient> client_;  // made for the first request
};

/// The name under which the cache has the files of a URL: "host/path", with its query's hash if there is one.
Result<std::string> repository_of_url(const Url& url);

}  // namespace tessera::hub
