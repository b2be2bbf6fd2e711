// The models of a cache: listed, and removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/hub/model_name.h"
#include "tessera/hub/selection.h"

namespace tessera::hub {

enum class CachedKind : uint8_t {
  gguf,
  files,      // the other files of a snapshot, such as a checkpoint
  converted,  // a GGUF file that was made of the checkpoint
  part,       // an unfinished download or conversion
};

struct CachedModel {
  CachedKind kind = CachedKind::gguf;
  std::string repository;
  std::string commit;  // "" of an unfinished download
  std::string file;    // of gguf: the path in the repository, of the first part; of converted: its name
  uint64_t size = 0;   // of all files
  size_t n_files = 1;
  std::string path;  // of the file, the snapshot or the unfinished file
};

/// Returns the name by which the model is downloaded: "user/repo:Q4_K_M".
std::string name_of(const CachedModel& model);

/// Lists the models of a cache, in the order of names. A missing folder has none. Errors: io.
Result<std::vector<CachedModel>> list_models(const std::string& cache_dir);

struct Removed {
  size_t n_files = 0;
  uint64_t n_bytes = 0;  // that are free now

  Removed& operator+=(const Removed& other) {
    n_files += other.n_files;
    n_bytes += other.n_bytes;
    return *this;
  }
};

/// Removes a model. Without a tag, the whole repository goes, or one revision of it. Blobs that no snapshot names go
/// with it, unfinished ones too. A tag also removes the converted file of this type.
/// Errors: not_found; io; invalid_argument (another process downloads or converts files of the repository).
Result<Removed> remove_model(const std::string& cache_dir, const ModelName& name);

}  // namespace tessera::hub
