#include "tessera/convert/shards.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

namespace {

namespace fs = std::filesystem;

// A directory beside the outputs, on the same file system. Files are completed in it and then only renamed. The
// destructor removes the directory with any remaining files.
class StagingDirectory {
 public:
  static Result<StagingDirectory> create(const std::string& prefix, size_t n_files) {
    StagingDirectory directory(prefix + ".XXXXXX", n_files);
    if (::mkdtemp(directory.path_.data()) == nullptr)
      return fail(ErrorCode::io, "{}: cannot create: {}", prefix, std::generic_category().message(errno));
    directory.is_made_ = true;
    for (size_t i = 0; i < n_files; ++i) directory.files_.push_back(fmt::format("{}/{}", directory.path_, i));
    return directory;
  }
  StagingDirectory(StagingDirectory&& other) noexcept
      : path_(std::move(other.path_)),
        files_(std::move(other.files_)),
        is_made_(std::exchange(other.is_made_, false)) {}
  StagingDirectory& operator=(StagingDirectory&&) = delete;
  // By names that exist already: a destructor must not take memory.
  ~StagingDirectory() {
    if (!is_made_) return;
    for (const std::string& file : files_) ::unlink(file.c_str());
    ::rmdir(path_.c_str());
  }

  const std::string& file(size_t i) const { return files_[i]; }

  /// Renames file i to targets[i], the last one first. On an error, removes the files already renamed.
  Result<> publish(std::span<const std::string> targets) const {
    for (size_t i = targets.size(); i-- > 0;) {
      if (::rename(files_[i].c_str(), targets[i].c_str()) == 0) continue;
      const int error = errno;
      for (size_t j = i + 1; j < targets.size(); ++j) ::unlink(targets[j].c_str());
      return fail(ErrorCode::io, "{}: cannot rename into place: {}", targets[i],
                  std::generic_category().message(error));
    }
    return {};
  }

 private:
  StagingDirectory(std::string path, size_t n_files) : path_(std::move(path)) { files_.reserve(n_files); }

  std::string path_;
  std::vector<std::string> files_;
  bool is_made_ = false;
};

Result<> require_absent(const std::string& path) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found) return {};
  return fail(ErrorCode::invalid_argument, "{}: exists already; remove it first", path);
}

// Copies tensors piece by piece, and counts the copied bytes.
class Copier {
 public:
  Copier(const ModelFiles& model, const CopyProgress& progress) : model_(model), progress_(progress) {}

  Result<> copy(const ModelFiles::Tensor& tensor, GgufWriter& writer) {
    constexpr uint64_t kPieceBytes = 8u << 20;
    const MappedFile* map = model_.files()[tensor.file]->map();
    const std::span<const std::byte> bytes = model_.data(tensor);
    for (uint64_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const uint64_t n = std::min<uint64_t>(kPieceBytes, bytes.size() - at);
      TESSERA_TRY(writer.append(bytes.subspan(at, n)));
      if (map != nullptr) map->discard(tensor.info.file_offset + at, n);
      n_copied_ += n;
      const auto share = static_cast<float>(n_copied_) / static_cast<float>(model_.n_tensor_bytes());
      if (progress_ && !progress_(share)) return fail(ErrorCode::cancelled, "copying was stopped");
    }
    return {};
  }

 private:
  const ModelFiles& model_;
  const CopyProgress& progress_;
  uint64_t n_copied_ = 0;
};

Result<> write_file(const ModelFiles& model, std::span<const ModelFiles::Tensor> tensors, GgufBuilder& builder,
                    const std::string& path, Copier& copier) {
  for (const ModelFiles::Tensor& tensor : tensors) {
    Result<> added = builder.add_tensor(tensor.info.name, tensor.info.dtype, tensor.info.shape, tensor.info.rank);
    if (!added) return forward_error(added, model.files()[tensor.file]->name());
  }
  TESSERA_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
  for (const ModelFiles::Tensor& tensor : tensors) TESSERA_TRY(copier.copy(tensor, writer));
  return writer.finish();
}

// Sets the model's keys except those of a split.
Result<> set_model_keys(GgufBuilder& builder, const ModelFiles& model) {
  Result<> set = builder.set_all(model.metadata());
  if (!set) return forward_error(set, model.name());
  for (const std::string_view key : {keys::kSplitNo, keys::kSplitCount, keys::kSplitTensorsCount}) builder.remove(key);
  return {};
}

}  // namespace

Result<std::vector<Shard>> plan_shards(const ModelFiles& model, const ShardLimits& limits) {
  std::vector<uint64_t> tensor_bytes;
  for (const ModelFiles::Tensor& tensor : model.tensors()) tensor_bytes.push_back(tensor.info.n_bytes);
  return plan_shards(tensor_bytes, model.name(), limits);
}

Result<std::vector<Shard>> plan_shards(std::span<const uint64_t> tensor_bytes, const std::string& name,
                                       const ShardLimits& limits) {
  std::vector<Shard> shards(1);
  bool may_add = !limits.is_first_tensorless;
  for (size_t i = 0; i < tensor_bytes.size(); ++i) {
    const uint64_t n_bytes = round_up(tensor_bytes[i], kGgufDefaultAlignment);
    const Shard& last = shards.back();
    const bool is_full = (limits.max_tensors != 0 && last.n_tensors >= limits.max_tensors) ||
                         (limits.max_bytes != 0 && last.n_tensors != 0 && last.n_bytes + n_bytes > limits.max_bytes);
    if (is_full || !may_add) shards.push_back({.first_tensor = i});
    may_add = true;
    ++shards.back().n_tensors;
    shards.back().n_bytes += n_bytes;
  }
  if (shards.size() > kGgufMaxSplitCount)
    return fail(ErrorCode::limit, "{}: {} shards, limit {}", name, shards.size(), kGgufMaxSplitCount);
  return shards;
}

Result<> write_shards(const ModelFiles& model, std::span<const Shard> shards, const std::string& prefix,
                      const CopyProgress& progress) {
  std::vector<std::string> targets;
  for (size_t i = 0; i < shards.size(); ++i) {
    targets.push_back(split_path(prefix, static_cast<uint32_t>(i), static_cast<uint32_t>(shards.size())));
    TESSERA_TRY(require_absent(targets.back()));
  }
  TESSERA_ASSIGN(const StagingDirectory staging, StagingDirectory::create(prefix, shards.size()));
  Copier copier(model, progress);
  for (size_t i = 0; i < shards.size(); ++i) {
    GgufBuilder builder;
    if (i == 0) TESSERA_TRY(set_model_keys(builder, model));
    builder.set(keys::kSplitNo, static_cast<uint16_t>(i));
    builder.set(keys::kSplitCount, static_cast<uint16_t>(shards.size()));
    builder.set(keys::kSplitTensorsCount, static_cast<int32_t>(model.tensors().size()));
    const auto tensors = model.tensors().subspan(shards[i].first_tensor, shards[i].n_tensors);
    TESSERA_TRY(write_file(model, tensors, builder, staging.file(i), copier));
  }
  for (const std::string& target : targets) TESSERA_TRY(require_absent(target));  // may have appeared meanwhile
  return staging.publish(targets);
}

Result<> merge_shards(const ModelFiles& model, const std::string& path, const CopyProgress& progress) {
  if (model.metadata().find(keys::kSplitCount) == nullptr)
    return fail(ErrorCode::invalid_argument, "{}: is one file already: it has no key '{}'", model.name(),
                keys::kSplitCount);
  TESSERA_TRY(require_absent(path));
  GgufBuilder builder;
  TESSERA_TRY(set_model_keys(builder, model));
  Copier copier(model, progress);
  return write_file(model, model.tensors(), builder, path, copier);
}

}  // namespace tessera::convert
