// The part of Hub that finds the files of URLs.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/hub/hub.h"
#include "tessera/hub/part_name.h"

namespace tessera::hub {

namespace {

constexpr size_t kMaxFolderBytes = 200;
constexpr uint32_t kMaxUrlParts = 1000;

// Reads the facts about a file from the heads of its answers, and none of its bytes.
class ProbeSink final : public TransferSink {
 public:
  explicit ProbeSink(RemoteFile& file) : file_(file) {}

  std::string range() override { return "0-0"; }
  Attempt check(const HttpHead& head) override {
    if (const std::string hash = hash_in_etag(head.field("x-linked-etag")); hash.size() == 64) file_.hash = hash;
    return {};
  }
  Attempt begin(const HttpHead& head) override {
    file_.etag = head.field("etag");
    if (file_.etag.starts_with("W/")) file_.etag.clear();  // weak: the bytes may differ
    if (file_.hash.empty() && hash_in_etag(file_.etag).size() == 64) file_.hash = hash_in_etag(file_.etag);
    const auto range = parse_content_range(head.field("content-range"));
    const auto size = head.status == 206 ? (range && range->has_total ? std::optional(range->total) : std::nullopt)
                                         : parse_size(head.field("content-length"));
    if (!size) return lasting(Error(ErrorCode::unsupported, "the server does not give the file's size"));
    file_.size = *size;
    file_.modified = head.field("last-modified");
    return {};
  }
  bool wants_body() const override { return false; }
  Attempt write(std::span<const std::byte>) override { return {}; }
  Attempt finish() override { return {}; }
  uint64_t n_kept() const override { return 0; }

 private:
  RemoteFile& file_;
};

struct RepositoryUrl {
  ModelName name;
  std::string path;
};

// Recognizes ENDPOINT/user/repo/resolve/REVISION/PATH (or blob, the page of a file).
std::optional<RepositoryUrl> parse_repository_url(const Url& url, const Url& endpoint) {
  if (!same_origin(url, endpoint) || !url.target.starts_with(endpoint.target + "/")) return std::nullopt;
  std::string rest = percent_decoded(path_of(url).substr(endpoint.target.size() + 1));
  for (const std::string_view kind : {"/resolve/", "/blob/"}) {
    const size_t at = rest.find(kind);
    if (at == std::string::npos) continue;
    const std::string after = rest.substr(at + kind.size());
    const size_t slash = after.find('/');
    if (slash == std::string::npos) return std::nullopt;
    auto name = parse_model_name(rest.substr(0, at) + "@" + after.substr(0, slash));
    if (!name || !name->tag.empty()) return std::nullopt;
    return RepositoryUrl{.name = std::move(*name), .path = after.substr(slash + 1)};
  }
  return std::nullopt;
}

// The file's name at the end of a URL, or "model.gguf" if it is not usable as one.
std::string file_name_of(const Url& url) {
  const std::string path = percent_decoded(path_of(url));
  std::string name = path.substr(path.rfind('/') + 1);
  return check_repository_path(name) ? name : "model.gguf";
}

// The URLs of all parts of a model, or the only one.
std::vector<Url> urls_of_parts(const Url& url) {
  const std::string path(path_of(url));
  const auto part = parse_part_name(path);
  if (!part || part->count > kMaxUrlParts) return {url};
  std::vector<Url> urls;
  for (uint32_t number = 1; number <= part->count; ++number) {
    Url other = url;
    other.target =
        part_path({.prefix = part->prefix, .number = number, .count = part->count}) + url.target.substr(path.size());
    urls.push_back(std::move(other));
  }
  return urls;
}

}  // namespace

Result<std::string> repository_of_url(const Url& url) {
  std::string text = host_and_port(url) + percent_decoded(path_of(url));
  TESSERA_ASSIGN(const std::string hash, sha256_hex(to_string(url)));
  const bool is_usable = check_repository_path(text) && cache_folder_name(text).size() <= kMaxFolderBytes;
  if (!is_usable) return url.host.size() <= 100 ? url.host + "/" + hash.substr(0, 16) : "url/" + hash.substr(0, 16);
  if (url.target.find('?') != std::string::npos) text += "/" + hash.substr(0, 16);
  return text;
}

Result<RemoteFile> Hub::probe(const Url& url) {
  TESSERA_ASSIGN(TransferContext transfers, context());
  RemoteFile file{.url = url};
  ProbeSink sink(file);
  Transfer transfer(transfers, url, sink);
  Transfer* const only[] = {&transfer};
  while (transfer.state() != Transfer::State::done) {
    TESSERA_TRY(step(transfers, only));
    if (transfer.state() == Transfer::State::failed) return std::unexpected(transfer.error());
  }
  return file;
}

Result<Found> Hub::find_url(const std::string& text) {
  TESSERA_ASSIGN(const Url url, parse_url(text));
  if (const auto file = parse_repository_url(url, settings_.endpoint)) return find(file->name, file->path);
  const std::vector<Url> urls = urls_of_parts(url);
  Found found{.repository = {}, .revision = "main", .commit = {}, .selection = {}, .listing = {}, .remote = {}};
  TESSERA_ASSIGN(found.repository, repository_of_url(urls.front()));
  const RepositoryCache cache(settings_.cache_dir, found.repository);
  const std::string name = file_name_of(url);
  if (settings_.is_offline) {
    found.commit = cache.read_ref(found.revision);
    auto listing = found.commit.empty() ? std::nullopt : cache.read_listing(found.commit);
    if (!listing)
      return fail(ErrorCode::not_found, "{} is not in the cache {}, and downloads are off", text, settings_.cache_dir);
    found.listing = std::move(*listing);
  } else {
    std::string versions;
    for (const Url& part : urls) {
      TESSERA_ASSIGN(RemoteFile remote, probe(part));
      RepositoryFile file{.path = file_name_of(part), .size = remote.size, .oid = remote.hash};
      if (file.oid.empty()) {  // the version stands for the hash
        TESSERA_ASSIGN(file.oid, sha256_hex(fmt::format("{}\n{}\n{}\n{}", to_string(part), remote.etag, remote.modified,
                                                        remote.size)));
      }
      versions += file.oid;
      found.listing.files.push_back(std::move(file));
      found.remote.push_back(std::move(remote));
    }
    TESSERA_ASSIGN(const std::string version, sha256_hex(versions));
    found.commit = version.substr(0, 40);
    found.listing.commit = found.commit;
  }
  auto selection = select_files(found.listing, {.tag = {}, .path = file_name_of(urls.front())});
  if (!selection) return forward_error(selection, text);
  found.selection = std::move(*selection);
  return found;
}

}  // namespace tessera::hub
