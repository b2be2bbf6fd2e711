// Memory of tensors that were read: the pages of their files are released, for every order of elements and every way
// of packing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tessera/base/index.h"
#include "tessera/convert/conversion.h"
#include "tessera/convert/source/mapped_pages.h"
#include "tessera/convert/source/meta_parts.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/convert/source/views.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/convert/mapped_memory.h"

namespace tessera::convert {
namespace {

using namespace testing;

// KiB around a page that are released with it.
constexpr int64_t kWindow = 2048;

/// Of a file without bytes on the disk, except for those that are given.
struct SparseTensor {
  std::string name{}, type{};
  std::vector<int64_t> shape{};
  int64_t n_bytes = 0;
  std::string bytes{};
};

SparseTensor zeros_of(const std::string& name, const std::string& type, const std::vector<int64_t>& shape,
                      int64_t width) {
  for (const int64_t extent : shape) width *= extent;
  return {.name = name, .type = type, .shape = shape, .n_bytes = width};
}

// Opens a folder with these tensors, far from each other, so that pages of one are not released with another. No
// conversion uses the tensors between them.
Checkpoint open_sparse(const std::vector<SparseTensor>& tensors, const std::string& config = "{}") {
  nlohmann::json header = nlohmann::json::object();
  std::vector<std::pair<int64_t, std::string>> written;
  int64_t n_bytes = 0;
  const auto add = [&](const SparseTensor& tensor) {
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {n_bytes, n_bytes + tensor.n_bytes}}};
    written.emplace_back(n_bytes, tensor.bytes);
    n_bytes += tensor.n_bytes;
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    add(zeros_of("pad" + std::to_string(i) + ".rotary_emb.inv_freq", "U8", {2 * kWindow, 1024}, 1));
    add(tensors[i]);
  }
  add(zeros_of("pad.rotary_emb.inv_freq", "U8", {2 * kWindow, 1024}, 1));
  const std::string folder = write_folder("sparse", {{"config.json", config}}), path = folder + "/model.safetensors";
  const std::string begin = safetensors_file(header.dump(), "");
  std::ofstream file(path, std::ios::binary);
  file << begin;
  for (const auto& [offset, bytes] : written) file.seekp(std::ssize(begin) + offset) << bytes;
  file.close();
  std::filesystem::resize_file(path, begin.size() + to_size(n_bytes));
  return Checkpoint::open(folder).value();
}

void read_all_of(const Checkpoint& checkpoint, const CheckpointTensor& tensor) {
  std::vector<std::byte> bytes(to_size(tensor.tensor.n_elements()) * element_bytes(tensor.tensor.type));
  checkpoint.read(tensor, 0, bytes);
}

// Pages that should stay may be lost all the same, where memory is short: tests of memory look at those that go.
TEST(Forget, BytesAreReleasedWithTheWindowsAround) {
  constexpr uint64_t kMiB = 1 << 20;
  const std::string path = write_temporary("mapped", std::string(16 * kMiB, 'x'));
  const File file = File::open(path).value();
  const auto map = MappedFile::map(file).value();
  const auto read = [&] {
    return std::ranges::all_of(map->bytes(), [](std::byte byte) { return byte == std::byte{'x'}; });
  };
  EXPECT_TRUE(read());
  EXPECT_GT(mapped_kib(map->bytes()), 0);
  forget_bytes(*map, 5 * kMiB + 1, 1);
  EXPECT_EQ(mapped_kib(map->bytes().subspan(5 * kMiB, 4096)), 0);
  EXPECT_LE(mapped_kib(map->bytes()), 16 * 1024 - kWindow);
  forget_bytes(*map, 8 * kMiB, 4 * kMiB);
  EXPECT_EQ(mapped_kib(map->bytes().subspan(8 * kMiB, 4 * kMiB)), 0);
  EXPECT_TRUE(read());
  forget_bytes(*map, 0, 16 * kMiB);
  EXPECT_EQ(mapped_kib(map->bytes()), 0);
  EXPECT_TRUE(read());
  forget_bytes(*map, 16 * kMiB - 1, 1);
  EXPECT_EQ(mapped_kib(map->bytes().last(4096)), 0);
  forget_bytes(*map, 0, 1);
  EXPECT_EQ(mapped_kib(map->bytes().first(4096)), 0);
}

TEST(Forget, ElementsOfAFileAreReleased) {
  const Checkpoint checkpoint = open_sparse({zeros_of("a", "F32", {4096, 1024}, 4)});
  const CheckpointTensor& tensor = *checkpoint.find("a");
  const auto bytes = checkpoint.file_bytes(tensor).subspan(tensor.tensor.offset, 16 << 20);
  constexpr int64_t kHalf = 2 << 20;
  read_all_of(checkpoint, tensor);
  EXPECT_GT(mapped_kib(bytes), 0);
  checkpoint.forget(tensor.tensor, tensor.file, 0, kHalf);
  EXPECT_EQ(mapped_kib(bytes.first(8 << 20)), 0);
  checkpoint.forget(tensor.tensor, tensor.file, kHalf, kHalf);
  EXPECT_EQ(mapped_kib(checkpoint.file_bytes(tensor)), 0);
  read_all_of(checkpoint, tensor);
  checkpoint.forget(transposed(tensor.tensor).value(), tensor.file, 4 << 20, 0);
  EXPECT_GT(mapped_kib(bytes), 0);
  checkpoint.forget(transposed(tensor.tensor).value(), tensor.file, 1, (4 << 20) - 1);
  EXPECT_EQ(mapped_kib(checkpoint.file_bytes(tensor)), 0);
}

// Keeps the ranges that it is told to release.
class RecordingSource : public ElementSource {
 public:
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  void read(int64_t /*first*/, std::span<std::byte> into) const override { std::memset(into.data(), 0, into.size()); }
  void forget(int64_t first, int64_t n) const override { ranges.emplace_back(first, n); }
  mutable Ranges ranges;
};

// What views of a tensor of this shape release, each with its ranges of elements.
class ReleasedElements {
 public:
  explicit ReleasedElements(std::vector<int64_t> shape)
      : tensor{.name = "a", .shape = std::move(shape), .elements = source_} {}
  RecordingSource::Ranges of(const Result<StoredTensor>& view, const RecordingSource::Ranges& read) const {
    source_->ranges.clear();
    for (const auto& [first, n] : read) view->forget(*map_, first, n);
    return source_->ranges;
  }

 private:
  std::shared_ptr<RecordingSource> source_ = std::make_shared<RecordingSource>();
  File file_ = File::open(write_temporary("empty", "")).value();
  std::unique_ptr<MappedFile> map_ = MappedFile::map(file_).value();

 public:
  const StoredTensor tensor;
};

using ElementRanges = RecordingSource::Ranges;

TEST(Forget, ElementsInOrderAreReleasedAsTheyAreRead) {
  const ReleasedElements matrix({6, 4});
  EXPECT_EQ(matrix.of(matrix.tensor, {{0, 3}, {3, 0}, {3, 5}}), (ElementRanges{{0, 3}, {3, 5}}));
  EXPECT_EQ(matrix.of(part_of(matrix.tensor, 0, 2, 3), {{1, 11}}), (ElementRanges{{9, 11}}));
}

// A column is everywhere in the tensor.
TEST(Forget, ATransposedMatrixIsReleasedWithItsLastElement) {
  const ReleasedElements matrix({6, 4});
  EXPECT_EQ(matrix.of(transposed(matrix.tensor), {{0, 23}}), ElementRanges());
  EXPECT_EQ(matrix.of(transposed(matrix.tensor), {{0, 20}, {20, 4}}), (ElementRanges{{0, 24}}));
  EXPECT_EQ(matrix.of(transposed(matrix.tensor), {{23, 1}}), (ElementRanges{{0, 24}}));
}

// Experts are released one by one, also where one of the dimensions before is 1.
TEST(Forget, TransposedExpertsAreReleasedOneByOne) {
  constexpr size_t kOrder[] = {0, 1, 3, 2};
  for (const auto& shape : {std::vector<int64_t>{4, 1, 3, 5}, std::vector<int64_t>{1, 4, 3, 5}}) {
    const ReleasedElements experts(shape);
    const auto view = with_order(experts.tensor, kOrder);
    EXPECT_EQ(experts.of(view, {{0, 14}, {14, 1}, {15, 14}, {29, 17}, {46, 14}}),
              (ElementRanges{{0, 15}, {15, 30}, {45, 15}}));
    EXPECT_EQ(experts.of(view, {{0, 45}, {45, 15}}), (ElementRanges{{0, 45}, {45, 15}}));
  }
}

// The ends of rows, and halves of experts. Elements between them do not matter.
TEST(Forget, PartsOfRowsAreReleasedRowByRow) {
  const ReleasedElements matrix({6, 4});
  const auto columns = part_of(matrix.tensor, 1, 1, 2);
  EXPECT_EQ(matrix.of(columns, {{0, 1}, {1, 4}, {5, 7}}), (ElementRanges{{1, 6}, {9, 14}}));
  const ReleasedElements experts({2, 4, 3});
  const auto halves = part_of(experts.tensor, 1, 2, 2);
  EXPECT_EQ(experts.of(halves, {{0, 5}, {5, 1}, {6, 6}}), (ElementRanges{{6, 6}, {18, 6}}));
}

struct PackedCase {
  std::string config;
  std::vector<SparseTensor> parts;
};

void expect_released(const PackedCase& packed) {
  Checkpoint checkpoint = open_sparse(packed.parts, R"({"quantization_config":)" + packed.config + "}");
  const auto file = checkpoint.file_bytes(checkpoint.tensors()[0]);
  ASSERT_OK(unpack_tensors(checkpoint, HubConfig::read(checkpoint).value()));
  EXPECT_EQ(mapped_kib(file), 0) << packed.config;
  const CheckpointTensor* tensor = checkpoint.find("a.weight");
  ASSERT_NE(tensor, nullptr);
  read_all_of(checkpoint, *tensor);
  EXPECT_GT(mapped_kib(file), 0);
  const int64_t n = tensor->tensor.n_elements(), n_piece = (n + 2) / 3;
  for (int64_t first = 0; first < n; first += n_piece)
    checkpoint.forget(tensor->tensor, tensor->file, first, std::min(n_piece, n - first));
  EXPECT_EQ(mapped_kib(file), 0) << packed.config;
}

TEST(Forget, PartsOfPackedMatricesAreReleased) {
  const auto scale = [](const std::string& name) {
    return SparseTensor{.name = name, .type = "F32", .shape = {1}, .n_bytes = 4, .bytes = number_bytes(1.0f)};
  };
  const std::string packed_integers =
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"weights":)"
      R"({"num_bits":4,"group_size":16,"strategy":"group","symmetric":false}}}})";
  const std::string int8 = R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":)"
                           R"({"weights":{"num_bits":8,"group_size":16,"strategy":"group","symmetric":false}}}})";
  const PackedCase cases[] = {
      {R"({"quant_method":"gptq","bits":4,"group_size":16})",
       {zeros_of("a.qweight", "I32", {64, 1024}, 4), zeros_of("a.scales", "F16", {32, 1024}, 2),
        zeros_of("a.qzeros", "I32", {32, 128}, 4), zeros_of("a.g_idx", "I32", {512}, 4)}},
      {R"({"quant_method":"awq","bits":4,"group_size":16})",
       {zeros_of("a.qweight", "I32", {512, 128}, 4), zeros_of("a.scales", "F16", {32, 1024}, 2),
        zeros_of("a.qzeros", "I32", {32, 128}, 4)}},
      {packed_integers,
       {zeros_of("a.weight_packed", "I32", {1024, 64}, 4),
        zeros_of("a.weight_scale", "F16", {1024, 32}, 2),
        zeros_of("a.weight_zero_point", "I32", {128, 32}, 4),
        {"a.weight_shape", "I64", {2}, 16, vector_bytes<int64_t>({1024, 512})}}},
      {R"({"quant_method":"fp8","weight_block_size":[2,2]})",
       {zeros_of("a.weight", "F8_E4M3", {512, 512}, 1), zeros_of("a.weight_scale_inv", "F32", {256, 256}, 4)}},
      {int8,
       {zeros_of("a.weight", "I8", {512, 512}, 1), zeros_of("a.weight_scale", "F32", {512, 32}, 4),
        zeros_of("a.weight_zero_point", "I8", {512, 32}, 1)}},
      {R"({"quant_method":"bitnet"})", {zeros_of("a.weight", "U8", {256, 512}, 1), scale("a.weight_scale")}},
      {R"({"quant_method":"mxfp4"})",
       {zeros_of("a_blocks", "U8", {512, 32, 16}, 1), zeros_of("a_scales", "U8", {512, 32}, 1)}},
      {R"({"quant_method":"modelopt","quant_algo":"NVFP4"})",
       {zeros_of("a.weight", "U8", {512, 512}, 1), zeros_of("a.weight_scale", "F8_E4M3", {512, 64}, 1),
        scale("a.weight_scale_2")}},
  };
  for (const PackedCase& packed : cases) expect_released(packed);
}

// Two files with the columns of one matrix.
TEST(Forget, JoinedPartsAreReleasedByRows) {
  constexpr int64_t kElements = 2 << 20;
  std::vector<std::unique_ptr<MappedFile>> maps;
  std::vector<FilePart> parts;
  for (const char* name : {"joined.first", "joined.second"}) {
    const File file = File::open(write_temporary(name, std::string(8 << 20, '\0'))).value();
    maps.push_back(MappedFile::map(file).value());
    parts.push_back({.tensors = {{.name = "layers.0.attention.wo.weight", .shape = {2048, 1024}}},
                     .bytes = maps.back()->bytes(),
                     .map = maps.back().get()});
  }
  const StoredTensor tensor = join_parts(parts, 1)->front();
  ASSERT_EQ(tensor.shape, (std::vector<int64_t>{2048, 2048}));
  std::vector<std::byte> bytes(16 << 20);
  tensor.read(maps[0]->bytes(), 0, bytes);
  tensor.forget(*maps[0], 0, kElements + 1024);  // the second file lacks the end of a row
  for (const auto& map : maps) {
    EXPECT_EQ(mapped_kib(map->bytes().first(4 << 20)), 0);
  }
  tensor.forget(*maps[0], kElements + 1024, kElements - 1024);
  for (const auto& map : maps) EXPECT_EQ(mapped_kib(map->bytes()), 0);
  parts[1].map = nullptr;  // bytes that no file has
  const StoredTensor other = join_parts(parts, 1)->front();
  other.read(maps[0]->bytes(), 0, bytes);
  other.forget(*maps[0], 0, 2 * kElements);
  EXPECT_EQ(mapped_kib(maps[0]->bytes()), 0);
  EXPECT_GT(mapped_kib(maps[1]->bytes()), 0);
}

// The output layer is compared with the token embedding, both of 16 MiB.
TEST(Forget, ComparingTiedLayersLeavesNoMemory) {
  std::vector<SparseTensor> tensors;
  for (const char* name : {"lm_head.weight", "model.embed_tokens.weight"})
    tensors.push_back(zeros_of(name, "F32", {65536, 64}, 4));
  for (const char* name : {"model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"})
    tensors.push_back(zeros_of(name + std::string(".weight"), "F32", {64}, 4));
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    tensors.push_back(zeros_of("model.layers.0." + std::string(name) + ".weight", "F32", {64, 64}, 4));
  const Checkpoint written = open_sparse(tensors, R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
      "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 65536,
      "tie_word_embeddings": true, "rms_norm_eps": 1e-5})");
  ASSERT_OK_AND_ASSIGN(const auto conversion, Conversion::open(written.folder(), FileType::f32));
  EXPECT_EQ(conversion->files().find_tensor("output.weight"), nullptr);
  EXPECT_EQ(mapped_kib(conversion->checkpoint().file_bytes(conversion->checkpoint().tensors()[0])), 0);
}

}  // namespace
}  // namespace tessera::convert
