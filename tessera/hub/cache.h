// The cache of a repository on disk, in the layout that the hub's own tools and llama.cpp share:
//
//     models--USER--REPO/blobs/OID                the bytes
//     models--USER--REPO/refs/main                a commit
//     models--USER--REPO/snapshots/COMMIT/PATH    a relative link to the blob
//     .locks/models--USER--REPO/OID.lock
//
// Two folders are of tessera alone. Listings have the files of a commit, so that a later choice needs no request.
//
//     models--USER--REPO/listings/COMMIT.json
//     models--USER--REPO/converted/COMMIT/TYPE.gguf    a converted checkpoint; TYPE.gguf.*.part is an unfinished one
//     .locks/models--USER--REPO/converted-COMMIT.lock
#pragma once

#include <optional>
#include <string>

#include "tessera/hub/listing.h"

namespace tessera::hub {

/// Returns "models--USER--REPO" for "USER/REPO".
std::string cache_folder_name(const std::string& repository);
/// The reverse. Returns "" for other names.
std::string repository_of_folder(const std::string& folder_name);

class RepositoryCache {
 public:
  /// repository: "user/repo", checked.
  RepositoryCache(const std::string& cache_dir, const std::string& repository);

  const std::string& folder() const { return folder_; }
  std::string blobs() const { return folder_ + "/blobs"; }
  std::string blob(const std::string& oid) const { return folder_ + "/blobs/" + oid; }
  std::string snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }
  std::string lock(const std::string& oid) const { return locks_ + "/" + oid + ".lock"; }
  std::string converted(const std::string& commit) const { return folder_ + "/converted/" + commit; }
  std::string converted_lock(const std::string& commit) const { return lock("converted-" + commit); }

  /// Returns the commit of a revision that was downloaded, or "".
  std::string read_ref(const std::string& revision) const;
  /// Errors: io.
  Result<> write_ref(const std::string& revision, const std::string& commit) const;

  /// Returns the files of a commit, if they are known. has_listing() says whether these are all files of the
  /// repository, or those that another tool has downloaded.
  std::optional<Listing> read_listing(const std::string& commit) const;
  bool has_listing(const std::string& commit) const;
  /// Errors: io.
  Result<> write_listing(const Listing& listing) const;

  /// Whether the file is in the snapshot, with its size.
  bool has_file(const std::string& commit, const RepositoryFile& file) const;
  /// Whether the blob is there, with its size.
  bool has_blob(const RepositoryFile& file) const;
  /// Links the blob into the snapshot. Where links cannot be made, the blob is moved. Errors: io.
  Result<> link(const std::string& commit, const RepositoryFile& file) const;

  /// The commits with a snapshot, in order.
  std::vector<std::string> commits() const;
  /// The files that a snapshot has, ordered by path. The oid is the name of the blob, "" for a file without one.
  std::vector<RepositoryFile> files_of_snapshot(const std::string& commit) const;
  /// Names of the files of blobs/, parts included.
  std::vector<std::string> blob_names() const;
  /// Names of the converted files of a commit, unfinished ones included.
  std::vector<std::string> converted_names(const std::string& commit) const;
  /// Removes a file from a snapshot, and folders that this leaves empty.
  void unlink(const std::string& commit, const std::string& path) const;
  /// Removes the traces of a commit without a snapshot: its listing, refs and folder of converted files.
  void remove_traces(const std::string& commit) const;
  /// Removes the whole repository. Errors: io.
  Result<> remove_all() const;

  /// Creates the folder of the blobs. Errors: io.
  Result<> create_folders() const;

 private:
  std::string listing_path(const std::string& commit) const { return folder_ + "/listings/" + commit + ".json"; }
  std::string folder_, locks_;
};

/// Creates a folder and those above it. Errors: io.
Result<> create_folder(const std::string& path);

}  // namespace tessera::hub
