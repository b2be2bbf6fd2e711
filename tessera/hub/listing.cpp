#include "tessera/hub/listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "tessera/hub/model_name.h"
#include "tessera/json/reader.h"
#include "tessera/text/utf8.h"

namespace tessera::hub {

namespace {

constexpr size_t kMaxPathBytes = 1024;
constexpr size_t kMaxNameBytes = 255;  // the limit of file systems
constexpr size_t kMaxFiles = size_t{1} << 18;

// Quotes a text of a stranger in a message: at most 80 bytes of it.
std::string shortened(std::string_view text) {
  return text.size() <= 80 ? std::string(text) : std::string(text.substr(0, 80)) + "...";
}

Result<std::string> text_member(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_string())
    return fail(ErrorCode::format, "no text '{}'", key);
  return found->get<std::string>();
}

Result<uint64_t> size_member(const Json& object) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_unsigned()) return fail(ErrorCode::format, "no whole number 'size'");
  return found->get<uint64_t>();
}

Result<RepositoryFile> read_row(const Json& row) {
  RepositoryFile file;
  TESSERA_ASSIGN(file.path, text_member(row, "path"));
  TESSERA_TRY(check_repository_path(file.path));
  auto read_rest = [&]() -> Result<> {
    TESSERA_ASSIGN(file.size, size_member(row));
    const auto lfs = row.find("lfs");
    const bool is_large = lfs != row.end() && !lfs->is_null();
    TESSERA_ASSIGN(file.oid, text_member(is_large ? *lfs : row, "oid"));
    if (!is_hex(file.oid, is_large ? 64 : 40))
      return fail(ErrorCode::format, "'{}' is not a hash of {} hexadecimal digits", shortened(file.oid),
                  is_large ? 64 : 40);
    if (!is_large) return {};
    TESSERA_ASSIGN(const uint64_t large_size, size_member(*lfs));
    if (large_size != file.size) return fail(ErrorCode::mismatch, "its sizes {} and {} differ", file.size, large_size);
    return {};
  };
  auto rest = read_rest();
  if (!rest) return forward_error(rest, file.path);
  return file;
}

}  // namespace

Result<> check_repository_path(std::string_view path) {
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::format, "'{}' is not a path of a repository: {}", shortened(path), why);
  };
  if (path.empty() || path.size() > kMaxPathBytes) return bad("1 to 1024 bytes are allowed");
  if (!text::is_valid_utf8(path)) return bad("it is not UTF-8");
  if (std::ranges::any_of(path, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f || c == '\\'; }))
    return bad("it has a control character or backslash");
  for (const auto part : std::views::split(path, '/')) {
    const std::string_view name(part.begin(), part.end());
    if (name.empty() || name == "." || name == "..") return bad("it has an empty part, '.' or '..'");
    if (name.size() > kMaxNameBytes) return bad("a part has more than 255 bytes");
  }
  return {};
}

Result<> add_tree(std::string_view json, std::vector<RepositoryFile>& files) {
  TESSERA_ASSIGN(const Json rows, read_json(json));
  if (!rows.is_array()) return fail(ErrorCode::format, "the list of files is not an array");
  for (const Json& row : rows) {
    TESSERA_ASSIGN(const std::string type, text_member(row, "type"));
    if (type != "file") continue;
    if (files.size() == kMaxFiles) return fail(ErrorCode::limit, "more than {} files", kMaxFiles);
    TESSERA_ASSIGN(RepositoryFile file, read_row(row));
    files.push_back(std::move(file));
  }
  return {};
}

Result<> sort_files(std::vector<RepositoryFile>& files) {
  std::ranges::sort(files, {}, &RepositoryFile::path);
  const auto twice = std::ranges::adjacent_find(files, {}, &RepositoryFile::path);
  if (twice != files.end()) return fail(ErrorCode::format, "{} is listed twice", twice->path);
  return {};
}

Result<std::string> commit_of_ref(std::string_view json, std::string_view revision) {
  TESSERA_ASSIGN(const Json refs, read_json(json));
  if (!refs.is_object()) return fail(ErrorCode::format, "the list of branches is not an object");
  for (const char* kind : {"branches", "tags", "converts"}) {
    const auto list = refs.find(kind);
    if (list == refs.end() || !list->is_array()) continue;
    for (const Json& ref : *list) {
      TESSERA_ASSIGN(const std::string name, text_member(ref, "name"));
      TESSERA_ASSIGN(const std::string full_name, text_member(ref, "ref"));
      if (name != revision && full_name != revision) continue;
      TESSERA_ASSIGN(std::string commit, text_member(ref, "targetCommit"));
      if (!is_commit(commit))
        return fail(ErrorCode::format, "'{}' is not a commit of 40 hexadecimal digits", shortened(commit));
      return commit;
    }
  }
  return fail(ErrorCode::not_found, "no branch or tag '{}'", revision);
}

std::string to_tree_json(const std::vector<RepositoryFile>& files) {
  Json rows = Json::array();
  for (const RepositoryFile& file : files) {
    Json row{{"type", "file"}, {"path", file.path}, {"size", file.size}, {"oid", file.oid}};
    if (file.oid.size() == 64) row["lfs"] = Json{{"oid", file.oid}, {"size", file.size}};
    rows.push_back(std::move(row));
  }
  return rows.dump();
}

const RepositoryFile* find_file(const Listing& listing, std::string_view path) {
  const auto found = std::ranges::lower_bound(listing.files, path, {}, &RepositoryFile::path);
  return found != listing.files.end() && found->path == path ? &*found : nullptr;
}

}  // namespace tessera::hub
