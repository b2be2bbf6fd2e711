// The choice of files of a repository: the GGUF file that a name means, with all its parts, or the files of a
// checkpoint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/hub/listing.h"

namespace tessera::hub {

enum class SelectionKind : uint8_t {
  gguf,        // one model, in one or several parts
  file,        // a file that is no GGUF file, named by its path
  checkpoint,  // safetensors or PyTorch files with their configuration
};

struct Selection {
  SelectionKind kind = SelectionKind::gguf;
  std::vector<RepositoryFile> files;  // parts in their order
};

struct FileChoice {
  std::string tag{};              // as in ModelName
  std::string path{};             // a file of the repository; the tag is ignored
  bool wants_checkpoint = false;  // the checkpoint, also where there are GGUF files; tag and path are ignored
};

/// Chooses the files of a model. With a path: this file, and all parts if it is one of several. With a tag: the first
/// GGUF file whose name has the tag, without regard to case, before a '.', '-' or '/'. Without: Q4_K_M, then Q8_0, then
/// the first GGUF file. Names with mmproj, imatrix or mtp- are no models. A repository without GGUF files gives the
/// files of a checkpoint, as does wants_checkpoint.
/// Errors: not_found (with the tags of the repository, if there are any); format (a part is missing).
Result<Selection> select_files(const Listing& listing, const FileChoice& choice);

/// The files that a conversion reads: weights of the root folder, config.json, tokenizer files, templates. Empty if
/// the repository has no weights.
std::vector<RepositoryFile> checkpoint_files(const Listing& listing);

/// Returns the quantization in a file's name, such as Q4_K_M; "" if it has none.
std::string quantization_of(std::string_view path);

}  // namespace tessera::hub
