#include "tessera/hub/hub.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"

namespace tessera::hub {

namespace {

constexpr uint64_t kMaxAnswerBytes = uint64_t{16} << 20;
constexpr int kMaxPages = 300;  // of a list of files

// The target of a Link: <URL>; rel="next", or "".
std::string next_page(std::string_view field) {
  const size_t rel = field.find("rel=\"next\"");
  if (rel == std::string_view::npos) return "";
  const size_t begin = field.rfind('<', rel), end = field.rfind('>', rel);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return "";
  return std::string(field.substr(begin + 1, end - begin - 1));
}

}  // namespace

Hub::Hub(Settings settings, Events events, const CancelToken& cancel, Clock* clock)
    : settings_(std::move(settings)),
      events_(std::move(events)),
      cancel_(cancel),
      own_clock_(clock == nullptr ? create_system_clock() : nullptr),
      clock_(clock == nullptr ? *own_clock_ : *clock) {}

Hub::~Hub() = default;

void Hub::note(const std::string& text) const {
  if (events_.on_note) events_.on_note(text);
}

Url Hub::api_url(const std::string& target) const {
  Url url = settings_.endpoint;
  url.target += target;
  return url;
}

Result<TransferContext> Hub::context() {
  if (client_ == nullptr) {
    TESSERA_ASSIGN(client_, create_http_client({.user_agent = settings_.user_agent,
                                                .ca_file = settings_.ca_file,
                                                .ca_dir = settings_.ca_dir,
                                                .stall_seconds = settings_.stall_seconds}));
  }
  return TransferContext{.client = *client_,
                         .clock = clock_,
                         .cancel = cancel_,
                         .settings = settings_,
                         .on_note = [this](const std::string& text) { note(text); }};
}

Result<std::string> Hub::find_commit(const ModelName& name, const RepositoryCache& cache) {
  const std::string revision = revision_or_main(name);
  if (is_commit(revision)) return revision;
  if (settings_.is_offline) {
    std::string commit = cache.read_ref(revision);
    if (commit.empty())
      return fail(ErrorCode::not_found, "{} is not in the cache {}, and downloads are off", to_string(name),
                  settings_.cache_dir);
    return commit;
  }
  TESSERA_ASSIGN(TransferContext transfers, context());
  const Url url = api_url("/api/models/" + name.repository + "/refs");
  TESSERA_ASSIGN(const TextAnswer answer, get_text(transfers, url, kMaxAnswerBytes));
  auto commit = commit_of_ref(answer.body, revision);
  if (!commit) return forward_error(commit, to_string(name));
  return commit;
}

Result<std::vector<RepositoryFile>> Hub::request_tree(const std::string& repository, const std::string& commit) {
  TESSERA_ASSIGN(TransferContext transfers, context());
  std::vector<RepositoryFile> files;
  Url url = api_url(fmt::format("/api/models/{}/tree/{}?recursive=true", repository, commit));
  for (int page = 0; page < kMaxPages; ++page) {
    TESSERA_ASSIGN(const TextAnswer answer, get_text(transfers, url, kMaxAnswerBytes));
    TESSERA_TRY(add_tree(answer.body, files));
    const std::string next = next_page(answer.head.field("link"));
    if (next.empty()) {
      TESSERA_TRY(sort_files(files));
      return files;
    }
    TESSERA_ASSIGN(Url next_url, follow_redirect(url, next));
    if (!same_origin(next_url, url)) return fail(ErrorCode::format, "a page of the list of files is on another host");
    url = std::move(next_url);
  }
  return fail(ErrorCode::limit, "a list of files with more than {} pages", kMaxPages);
}

Result<Listing> Hub::find_listing(const std::string& repository, const std::string& commit,
                                  const RepositoryCache& cache) {
  if (settings_.is_offline || cache.has_listing(commit))
    if (auto listing = cache.read_listing(commit)) return *std::move(listing);
  if (settings_.is_offline)
    return fail(ErrorCode::not_found, "{} at {} is not in the cache {}, and downloads are off", repository, commit,
                settings_.cache_dir);
  auto files = request_tree(repository, commit);
  if (!files) return forward_error(files, repository);
  return Listing{.commit = commit, .files = std::move(*files)};
}

Result<Found> Hub::find(const ModelName& name, const FileChoice& choice) {
  const RepositoryCache cache(settings_.cache_dir, name.repository);
  Found found{.repository = name.repository,
              .revision = revision_or_main(name),
              .commit = {},
              .selection = {},
              .listing = {},
              .remote = {}};
  TESSERA_ASSIGN(found.commit, find_commit(name, cache));
  TESSERA_ASSIGN(found.listing, find_listing(name.repository, found.commit, cache));
  auto selection = select_files(found.listing, choice);
  if (!selection) return forward_error(selection, name.repository);
  found.selection = std::move(*selection);
  return found;
}

RemoteFile Hub::remote_file(const Found& found, size_t i) const {
  if (!found.remote.empty()) return found.remote[i];
  const RepositoryFile& file = found.selection.files[i];
  const std::string target =
      fmt::format("/{}/resolve/{}/{}", found.repository, found.commit, percent_encoded(file.path));
  return {.url = api_url(target), .size = file.size, .hash = file.oid};
}

Result<Fetched> Hub::fetch(const Found& found) {
  const RepositoryCache cache(settings_.cache_dir, found.repository);
  const std::vector<RepositoryFile>& files = found.selection.files;
  DownloadProgress progress{.name = {}, .count = files.size()};
  for (const RepositoryFile& file : files) {
    const auto all = checked_add(progress.all_size, file.size);
    if (!all) return fail(ErrorCode::format, "{}: the sizes of the files overflow", found.repository);
    progress.all_size = *all;
  }
  TESSERA_TRY(check_space(found, cache));
  for (size_t i = 0; i < files.size(); ++i) TESSERA_TRY(fetch_file(found, i, cache, progress));
  // Written last: offline, a revision means files that are there.
  if (!settings_.is_offline) {
    if (!cache.has_listing(found.commit)) TESSERA_TRY(cache.write_listing(found.listing));
    if (!is_commit(found.revision)) TESSERA_TRY(cache.write_ref(found.revision, found.commit));
  }
  Fetched fetched{.folder = cache.snapshot(found.commit), .paths = {}, .n_received = progress.n_received};
  for (const RepositoryFile& file : files) fetched.paths.push_back(fetched.folder + "/" + file.path);
  return fetched;
}

}  // namespace tessera::hub
