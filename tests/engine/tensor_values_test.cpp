// Values of a tensor in a file: all of them, in order, in bounded pieces.
#include "tessera/engine/tensor_values.h"

#include <cstring>

#include "tests/support/testing.h"

namespace tessera {
namespace {

struct Stories {
  std::unique_ptr<ModelFiles> files;
  const ModelFiles::Tensor* embedding = nullptr;

  explicit Stories(const std::string& path) {
    auto opened = ModelFiles::open(path);
    EXPECT_OK(opened);
    files = std::move(*opened);
    embedding = files->find_tensor("token_embd.weight");
  }
};

TEST(TensorValues, AreAllGivenInOrderInBoundedPieces) {
  const std::string path = testing::story_model();
  const Stories stories(path);
  std::vector<float> values;
  size_t n_pieces = 0;
  ASSERT_OK(read_values(*stories.files, *stories.embedding, [&](std::span<const float> piece) -> Result<> {
    EXPECT_LE(piece.size(), 16384u);
    values.insert(values.end(), piece.begin(), piece.end());
    ++n_pieces;
    return {};
  }));
  EXPECT_EQ(n_pieces, 2u);
  const auto bytes = stories.files->data(*stories.embedding);
  ASSERT_EQ(values.size() * sizeof(float), bytes.size());
  EXPECT_EQ(std::memcmp(values.data(), bytes.data(), bytes.size()), 0);
}

TEST(TensorValues, FirstErrorOfTheTakerEndsIt) {
  const std::string path = testing::story_model();
  const Stories stories(path);
  size_t n_pieces = 0;
  const auto stopped = read_values(*stories.files, *stories.embedding, [&](std::span<const float>) -> Result<> {
    ++n_pieces;
    return fail(ErrorCode::io, "the disk is full");
  });
  EXPECT_ERROR(stopped, "the disk is full");
  EXPECT_EQ(n_pieces, 1u);
}

}  // namespace
}  // namespace tessera
