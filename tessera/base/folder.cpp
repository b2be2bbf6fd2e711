#include "tessera/base/folder.h"

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>

namespace tessera {

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::unexpected<Error> failure(const std::string& path, int number) {
  const ErrorCode code = number == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  return fail(code, "{}: {}", path, std::generic_category().message(number));
}

}  // namespace

Result<std::vector<std::string>> names_in_folder(const std::string& path, size_t most) {
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (folder == nullptr) return failure(path, errno);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr && errno != 0) return failure(path, errno);
    if (entry == nullptr) return names;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == most) return fail(ErrorCode::limit, "{}: more than {} entries", path, most);
    names.emplace_back(name);
  }
}

}  // namespace tessera
