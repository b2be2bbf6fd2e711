// The choice of files in a repository.
#include "tessera/hub/selection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/hub/listing.h"
#include "tessera/hub/wildcard.h"
#include "tests/support/testing.h"

namespace tessera::hub {
namespace {

Listing listing_of(std::vector<std::string> paths) {
  Listing listing;
  std::ranges::sort(paths);
  for (const std::string& path : paths) listing.files.push_back({.path = path, .size = 1, .oid = path});
  return listing;
}

// The chosen paths, with a space after each, or the error.
std::string chosen(const std::vector<std::string>& paths, const FileChoice& choice) {
  const auto selection = select_files(listing_of(paths), choice);
  if (!selection) return selection.error().message();
  std::string text;
  for (const RepositoryFile& file : selection->files) text += file.path + " ";
  return text;
}

TEST(Selection, TagsMatchWithoutCaseBeforeADotOrDash) {
  const std::vector<std::string> paths = {"m-Q4_K.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S-v2.gguf", "m-IQ4_NL.gguf"};
  EXPECT_EQ(chosen(paths, {.tag = "q4_k_m"}), "m-Q4_K_M.gguf ");
  EXPECT_EQ(chosen(paths, {.tag = "Q4_K"}), "m-Q4_K.gguf ");
  EXPECT_EQ(chosen(paths, {.tag = "Q4_K_S"}), "m-Q4_K_S-v2.gguf ");
  EXPECT_EQ(chosen(paths, {.tag = "Q4_NL"}), "m-IQ4_NL.gguf ");
  EXPECT_EQ(chosen(paths, {.tag = "Q5_0"}), "no GGUF file with the tag 'Q5_0' (there are IQ4_NL, Q4_K, Q4_K_M)");
  EXPECT_EQ(chosen({"model.gguf"}, {.tag = "Q5_0"}), "no GGUF file with the tag 'Q5_0'");
  EXPECT_EQ(chosen({"m-Q4_K_M.gguf"}, {.tag = "Q4_K"}), "no GGUF file with the tag 'Q4_K' (there are Q4_K_M)");
  std::vector<std::string> many;
  for (char c = 'A'; c <= 'M'; ++c) many.push_back(std::string("m-Q1_") + c + ".gguf");
  const std::string known = chosen(many, {.tag = "Q5_0"});
  EXPECT_TRUE(known.ends_with("Q1_K, Q1_L)")) << known;  // twelve of thirteen
  // BF16 ends with F16, and comes first.
  EXPECT_EQ(chosen({"m-BF16.gguf", "m-F16.gguf"}, {.tag = "f16"}), "m-F16.gguf ");
  EXPECT_EQ(chosen({"m-BF16.gguf", "m-Q8_0.gguf"}, {.tag = "f16"}), "m-BF16.gguf ");
  EXPECT_EQ(chosen({"Q8_0/m.gguf", "a.gguf"}, {.tag = "q8_0"}), "Q8_0/m.gguf ");
}

TEST(Selection, WithoutATagTheUsualTypesComeFirst) {
  EXPECT_EQ(chosen({"a-F16.gguf", "b-Q8_0.gguf", "c-Q4_K_M.gguf"}, {}), "c-Q4_K_M.gguf ");
  EXPECT_EQ(chosen({"a-F16.gguf", "b-Q8_0.gguf"}, {}), "b-Q8_0.gguf ");
  EXPECT_EQ(chosen({"b.gguf", "a-F16.gguf", "a.txt"}, {}), "a-F16.gguf ");
}

TEST(Selection, SomeGgufFilesAreNoModels) {
  const std::vector<std::string> paths = {"imatrix.gguf", "MMPROJ-Q4_K_M.gguf", "mtp-Q4_K_M.gguf", "x-Q8_0.GGUF"};
  EXPECT_EQ(chosen(paths, {}), "x-Q8_0.GGUF ");
  EXPECT_EQ(chosen(paths, {.path = "MMPROJ-Q4_K_M.gguf"}), "MMPROJ-Q4_K_M.gguf ");
  EXPECT_EQ(chosen({"imatrix/m.gguf"}, {}), "imatrix/m.gguf ");  // a folder's name does not count
}

TEST(Selection, AllPartsComeInTheirOrder) {
  const std::vector<std::string> paths = {"m-Q8_0-00001-of-00003.gguf", "m-Q8_0-00002-of-00003.gguf",
                                          "m-Q8_0-00003-of-00003.gguf", "z.gguf"};
  const std::string all = "m-Q8_0-00001-of-00003.gguf m-Q8_0-00002-of-00003.gguf m-Q8_0-00003-of-00003.gguf ";
  EXPECT_EQ(chosen(paths, {}), all);
  EXPECT_EQ(chosen(paths, {.path = paths[1]}), all);
  EXPECT_EQ(chosen({paths[0], paths[2]}, {}),
            "m-Q8_0-00001-of-00003.gguf has 3 parts, but m-Q8_0-00002-of-00003.gguf is missing");
  EXPECT_EQ(chosen({paths[1], "z.gguf"}, {}), "z.gguf ");  // a part without the first one
}

TEST(Selection, FilesAreNamedByTheirPaths) {
  EXPECT_EQ(chosen({"a/b.txt", "m.gguf"}, {.tag = "Q4_0", .path = "a/b.txt"}), "a/b.txt ");
  EXPECT_EQ(chosen({"m.gguf"}, {.path = "n.gguf"}), "no file 'n.gguf'");
  EXPECT_EQ(select_files(listing_of({"a.txt"}), {.path = "a.txt"}).value().kind, SelectionKind::file);
  EXPECT_EQ(select_files(listing_of({"a.gguf"}), {.path = "a.gguf"}).value().kind, SelectionKind::gguf);
}

TEST(Selection, WithoutGgufFilesTheCheckpointComes) {
  const std::vector<std::string> paths = {"README.md",
                                          "config.json",
                                          "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors",
                                          "model.safetensors.index.json",
                                          "consolidated.safetensors",
                                          "pytorch_model.bin",
                                          "onnx/model.safetensors",
                                          "tokenizer.json",
                                          "tokenizer.jsonl",
                                          "tokenizer_config.json",
                                          "tokenizer.model",
                                          "vocab.json",
                                          "merges.txt",
                                          "chat_template.jinja",
                                          "1_Pooling/config.json",
                                          "additional_chat_templates/tool.jinja",
                                          "figure.png",
                                          "sub/config.json",
                                          "training_args.bin",
                                          "additional_chat_templates/a/b.jinja"};
  EXPECT_EQ(chosen(paths, {}),
            "1_Pooling/config.json README.md additional_chat_templates/tool.jinja chat_template.jinja config.json "
            "merges.txt model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json "
            "tokenizer.json tokenizer.jsonl tokenizer.model tokenizer_config.json vocab.json ");
  EXPECT_EQ(select_files(listing_of(paths), {}).value().kind, SelectionKind::checkpoint);
  EXPECT_EQ(chosen({"config.json", "consolidated.safetensors", "pytorch_model.bin"}, {}),
            "config.json consolidated.safetensors ");
  EXPECT_EQ(chosen({"pytorch_model-00001-of-00002.bin", "training_args.bin"}, {}), "pytorch_model-00001-of-00002.bin ");
  EXPECT_EQ(chosen({"config.json", "tokenizer.json"}, {}), "no GGUF file and no safetensors");
}

TEST(Selection, ACheckpointBesideGgufFilesIsChosenOnDemand) {
  const std::vector<std::string> paths = {"adapter_config.json", "config.json", "m-Q8_0.gguf", "model.safetensors"};
  EXPECT_EQ(chosen(paths, {}), "m-Q8_0.gguf ");
  EXPECT_EQ(chosen(paths, {.wants_checkpoint = true}), "adapter_config.json config.json model.safetensors ");
  EXPECT_EQ(select_files(listing_of(paths), {.wants_checkpoint = true}).value().kind, SelectionKind::checkpoint);
  EXPECT_EQ(chosen({"config.json", "m-Q8_0.gguf"}, {.wants_checkpoint = true}), "no safetensors or PyTorch files");
}

TEST(Selection, QuantizationsAreRead) {
  const std::pair<std::string, std::string> cases[] = {
      {"m-Q4_K_M.gguf", "Q4_K_M"}, {"m.q8_0.gguf", "q8_0"},   {"a/m-IQ3_XXS-00001-of-00002.gguf", "IQ3_XXS"},
      {"m-BF16.gguf", "BF16"},     {"m-F16.gguf", "F16"},     {"m-f32.gguf", "f32"},
      {"m-TQ1_0.GGUF", "TQ1_0"},   {"m-MXFP4.gguf", "MXFP4"}, {"m-it.gguf", ""},
      {"m-Q8_0", "Q8_0"},          {"m-Q8_0.bin", ""},        {"Q4_0/m.gguf", ""},
      {"m-Q4.gguf", ""},           {"m-NVFP4.gguf", "NVFP4"}};
  for (const auto& [path, wanted] : cases) EXPECT_EQ(quantization_of(path), wanted) << path;
}

TEST(Wildcard, StarsTakeAnyTextWithoutSlash) {
  EXPECT_TRUE(matches_wildcard("abc", "abc"));
  EXPECT_TRUE(matches_wildcard("abc", "*"));
  EXPECT_TRUE(matches_wildcard("", "*"));
  EXPECT_TRUE(matches_wildcard("abcabd", "a*abd"));
  EXPECT_TRUE(matches_wildcard("a.b.c", "*.c"));
  EXPECT_TRUE(matches_wildcard("q4_x", "q?_*"));
  EXPECT_TRUE(matches_wildcard("q9", "q?"));
  EXPECT_TRUE(matches_wildcard("q0", "q?"));
  EXPECT_TRUE(matches_wildcard("a/b/c", "a/*/c"));
  EXPECT_FALSE(matches_wildcard("a/b", "*b"));
  EXPECT_FALSE(matches_wildcard("a/b/c/d", "a/*/d"));
  EXPECT_FALSE(matches_wildcard("qx", "q?"));
  EXPECT_FALSE(matches_wildcard("abc", "ab"));
  EXPECT_FALSE(matches_wildcard("ab", "abc"));
  EXPECT_FALSE(matches_wildcard("", "a"));
  EXPECT_FALSE(matches_wildcard("abcd", "a*c"));
  EXPECT_TRUE(matches_wildcard("abcdc", "a*c"));
}

TEST(Listing, PathsHaveBounds) {
  const std::string part(204, 'a'), longest = part + "/" + part + "/" + part + "/" + part + "/" + part;  // 1024 bytes
  EXPECT_OK(check_repository_path(longest));
  EXPECT_ERROR(check_repository_path(longest + "a"), "1 to 1024 bytes are allowed");
  EXPECT_OK(check_repository_path("a/" + std::string(255, 'b')));
  EXPECT_ERROR(check_repository_path("a/" + std::string(256, 'b')), "a part has more than 255 bytes");
  EXPECT_OK(check_repository_path(" !~\xc3\xa4/..a/.b"));
  for (const std::string path : {"a\x1f", "a\x7f", "a\\b"})
    EXPECT_ERROR(check_repository_path(path), "it has a control character or backslash");
  EXPECT_ERROR(check_repository_path("a\xff"), "it is not UTF-8");
  // Long texts are cut in messages.
  const std::string shown(79, 'x');
  EXPECT_ERROR(check_repository_path(shown + "/"), "'" + shown + "/' is not");
  EXPECT_ERROR(check_repository_path(shown + "//"), "'" + shown + "/...' is not");
}

TEST(Listing, TreesAreReadBack) {
  std::vector<RepositoryFile> files = {{.path = "b", .size = 3, .oid = std::string(64, 'a')},
                                       {.path = "a", .size = 0, .oid = std::string(40, 'b')}};
  std::vector<RepositoryFile> again;
  EXPECT_OK(add_tree(to_tree_json(files), again));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_OK(sort_files(again));
  EXPECT_EQ(again[0].path, "a");
  EXPECT_EQ(again[0].oid, std::string(40, 'b'));
  EXPECT_EQ(again[1].size, 3u);
  EXPECT_EQ(again[1].oid, std::string(64, 'a'));
  const Listing listing{.commit = {}, .files = again};
  EXPECT_EQ(find_file(listing, "b"), &listing.files[1]);
  EXPECT_EQ(find_file(listing, "aa"), nullptr);
  EXPECT_EQ(find_file(listing, "c"), nullptr);
}

TEST(Listing, OtherJsonIsRefused) {
  std::vector<RepositoryFile> files;
  const std::string hash(40, 'a');
  const auto add = [&](const std::string& row) { return add_tree("[" + row + "]", files); };
  EXPECT_OK(add(R"({"type": "directory", "path": "d"})"));
  EXPECT_TRUE(files.empty());
  EXPECT_ERROR(add("1"), "no text 'type'");
  EXPECT_ERROR(add(R"({"type": 1})"), "no text 'type'");
  EXPECT_ERROR(add(R"({"type": "file"})"), "no text 'path'");
  EXPECT_ERROR(add(R"({"type": "file", "path": "a"})"), "a: no whole number 'size'");
  EXPECT_ERROR(add(R"({"type": "file", "path": "a", "size": 1.5})"), "a: no whole number 'size'");
  EXPECT_ERROR(add(R"({"type": "file", "path": "a", "size": 1})"), "a: no text 'oid'");
  EXPECT_ERROR(add(R"({"type": "file", "path": "a", "size": 1, "oid": "x", "lfs": 3})"), "a: no text 'oid'");
  EXPECT_ERROR(add(R"({"type": "file", "path": "a", "size": 1, "oid": "x", "lfs": {"oid": ")" + hash + "\"}}"),
               "a: '" + hash + "' is not a hash of 64");
  EXPECT_ERROR(
      add(R"({"type": "file", "path": "a", "size": 1, "oid": "x", "lfs": {"oid": ")" + std::string(64, 'a') + "\"}}"),
      "a: no whole number 'size'");
  EXPECT_OK(add(R"({"type": "file", "path": "a", "size": 1, "lfs": null, "oid": ")" + hash + "\"}"));
  EXPECT_EQ(files.size(), 1u);
}

TEST(Listing, CommitsOfBranchesTagsAndRefs) {
  const std::string first(40, '1'), second(40, '2'), third(40, '3');
  const auto row = [](const std::string& name, const std::string& ref, const std::string& commit) {
    return R"({"name": ")" + name + R"(", "ref": ")" + ref + R"(", "targetCommit": ")" + commit + "\"}";
  };
  const std::string refs = R"({"converts": [)" + row("x", "refs/convert/x", third) + R"(], "branches": [)" +
                           row("main", "refs/heads/main", first) + R"(], "tags": [)" +
                           row("v1", "refs/tags/v1", second) + "]}";
  EXPECT_EQ(commit_of_ref(refs, "main").value(), first);
  EXPECT_EQ(commit_of_ref(refs, "refs/tags/v1").value(), second);
  EXPECT_EQ(commit_of_ref(refs, "x").value(), third);
  EXPECT_ERROR(commit_of_ref(refs, "v2"), "no branch or tag 'v2'");
  EXPECT_ERROR(commit_of_ref("[]", "main"), "the list of branches is not an object");
  EXPECT_ERROR(commit_of_ref(R"({"branches": 1})", "main"), "no branch or tag 'main'");
  EXPECT_ERROR(commit_of_ref(R"({"branches": [{"name": "main"}]})", "main"), "no text 'ref'");
}

}  // namespace
}  // namespace tessera::hub
