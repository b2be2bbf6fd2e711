#include "tessera/hub/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tessera/hub/ascii.h"
#include "tessera/hub/part_name.h"
#include "tessera/hub/wildcard.h"

namespace tessera::hub {

namespace {

constexpr std::string_view kNoModels[] = {"mmproj", "imatrix", "mtp-"};
constexpr std::string_view kPreferredTags[] = {"q4_k_m", "q8_0"};
constexpr size_t kMaxShownTags = 12;

// Weights in the order of preference: a repository often has the same ones in several containers.
constexpr std::string_view kWeights[] = {
    "model*.safetensors", "*.safetensors", "pytorch_model*.bin", "*.bin", "consolidated*.pth", "*.pth", "*.pt"};
constexpr std::string_view kCompanions[] = {"config.json",
                                            "params.json",
                                            "adapter_config.json",
                                            "generation_config.json",
                                            "*.index.json",
                                            "hf_quant_config.json",
                                            "tokenizer*.json",
                                            "tokenizer.jsonl",
                                            "*.model",
                                            "vocab.*",
                                            "merges.txt",
                                            "added_tokens.json",
                                            "special_tokens_map.json",
                                            "*chat_template*",
                                            "additional_chat_templates/*.jinja",
                                            "tekken.json",
                                            "*.tiktoken",
                                            "rwkv_vocab_*.txt",
                                            "modules.json",
                                            "1_Pooling/config.json",
                                            "README.md"};

bool is_tag_character(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// How well a tag fits a path. BF16 has F16 before its '.', but a file named F16 fits better.
enum class Fit : uint8_t { none, within_word, whole_word };

Fit fit_of(std::string_view lower_path, std::string_view lower_tag) {
  Fit best = Fit::none;
  for (size_t at = lower_path.find(lower_tag); at != std::string_view::npos; at = lower_path.find(lower_tag, at + 1)) {
    const size_t end = at + lower_tag.size();
    if (end == lower_path.size() || !std::string_view(".-/").contains(lower_path[end])) continue;
    const bool begins_word = at == 0 || !is_tag_character(lower_path[at - 1]);
    best = std::max(best, begins_word ? Fit::whole_word : Fit::within_word);
  }
  return best;
}

// GGUF files that are models. Of a model in parts, the first part.
std::vector<const RepositoryFile*> models_of(const Listing& listing) {
  std::vector<const RepositoryFile*> models;
  for (const RepositoryFile& file : listing.files) {
    const std::string path = lower_case(file.path);
    if (!path.ends_with(".gguf")) continue;
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    if (std::ranges::any_of(kNoModels, [&](std::string_view other) { return name.contains(other); })) continue;
    const auto part = parse_part_name(file.path);
    if (!part || part->number == 1) models.push_back(&file);
  }
  return models;
}

const RepositoryFile* find_model(const std::vector<const RepositoryFile*>& models, std::string_view tag) {
  const std::string lower_tag = lower_case(tag);
  const auto fit = [&](const RepositoryFile* file) { return fit_of(lower_case(file->path), lower_tag); };
  const auto best = std::ranges::max_element(models, {}, fit);  // the first of equal ones
  return best != models.end() && fit(*best) != Fit::none ? *best : nullptr;
}

Result<const RepositoryFile*> choose_model(const std::vector<const RepositoryFile*>& models, const std::string& tag) {
  if (!tag.empty()) {
    if (const RepositoryFile* found = find_model(models, tag)) return found;
    std::set<std::string> tags;
    for (const RepositoryFile* file : models)
      if (std::string known = quantization_of(file->path); !known.empty() && tags.size() < kMaxShownTags)
        tags.insert(std::move(known));
    const std::string known = tags.empty() ? "" : fmt::format(" (there are {})", fmt::join(tags, ", "));
    return fail(ErrorCode::not_found, "no GGUF file with the tag '{}'{}", tag, known);
  }
  for (const std::string_view preferred : kPreferredTags)
    if (const RepositoryFile* found = find_model(models, preferred)) return found;
  return models.front();
}

Result<std::vector<RepositoryFile>> with_all_parts(const Listing& listing, const RepositoryFile& file) {
  const auto part = parse_part_name(file.path);
  std::vector<RepositoryFile> parts;
  if (!part) return std::vector{file};
  for (uint32_t number = 1; number <= part->count; ++number) {
    const std::string path = part_path({.prefix = part->prefix, .number = number, .count = part->count});
    const RepositoryFile* found = find_file(listing, path);
    if (found == nullptr)
      return fail(ErrorCode::format, "{} has {} parts, but {} is missing", file.path, part->count, path);
    parts.push_back(*found);
  }
  return parts;
}

}  // namespace

std::vector<RepositoryFile> checkpoint_files(const Listing& listing) {
  std::vector<RepositoryFile> files;
  for (const std::string_view pattern : kWeights) {
    for (const RepositoryFile& file : listing.files)
      if (!file.path.contains('/') && matches_wildcard(file.path, pattern)) files.push_back(file);
    if (!files.empty()) break;
  }
  if (files.empty()) return files;
  for (const RepositoryFile& file : listing.files)
    if (std::ranges::any_of(kCompanions,
                            [&](std::string_view pattern) { return matches_wildcard(file.path, pattern); }))
      files.push_back(file);
  std::ranges::sort(files, {}, &RepositoryFile::path);
  return files;
}

Result<Selection> select_files(const Listing& listing, const FileChoice& choice) {
  Selection selection;
  if (choice.wants_checkpoint) {
    selection = {.kind = SelectionKind::checkpoint, .files = checkpoint_files(listing)};
    if (selection.files.empty()) return fail(ErrorCode::not_found, "no safetensors or PyTorch files");
    return selection;
  }
  if (!choice.path.empty()) {
    const RepositoryFile* file = find_file(listing, choice.path);
    if (file == nullptr) return fail(ErrorCode::not_found, "no file '{}'", choice.path);
    if (!lower_case(choice.path).ends_with(".gguf")) selection.kind = SelectionKind::file;
    TESSERA_ASSIGN(selection.files, with_all_parts(listing, *file));
    return selection;
  }
  const auto models = models_of(listing);
  if (models.empty()) {
    selection.kind = SelectionKind::checkpoint;
    selection.files = checkpoint_files(listing);
    if (selection.files.empty()) return fail(ErrorCode::not_found, "no GGUF file and no safetensors");
    return selection;
  }
  TESSERA_ASSIGN(const RepositoryFile* model, choose_model(models, choice.tag));
  TESSERA_ASSIGN(selection.files, with_all_parts(listing, *model));
  return selection;
}

std::string quantization_of(std::string_view path) {
  const auto part = parse_part_name(path);
  std::string_view name = part ? std::string_view(part->prefix) : path;
  if (!part && lower_case(name).ends_with(".gguf")) name.remove_suffix(5);
  name = name.substr(name.rfind('/') + 1);
  name = name.substr(name.find_last_of(".-") + 1);
  const std::string lower = lower_case(name);
  for (const std::string_view form : {"q?_*", "iq?_*", "tq?_*", "f16", "f32", "bf16", "mxfp4*", "nvfp4*"})
    if (matches_wildcard(lower, form)) return std::string(name);
  return "";
}

}  // namespace tessera::hub
