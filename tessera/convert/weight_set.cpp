#include "tessera/convert/weight_set.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/conversion.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/gguf/split.h"
#include "tessera/quant/formats.h"

namespace tessera::convert {

namespace {

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// The tensors of a GGUF file, or of a checkpoint as the model that it becomes.
class ModelWeights final : public WeightSet {
 public:
  ModelWeights(std::string name, std::unique_ptr<ModelFiles> files)
      : WeightSet(std::move(name)), own_(std::move(files)) {}
  ModelWeights(std::string name, std::unique_ptr<Conversion> conversion)
      : WeightSet(std::move(name)), conversion_(std::move(conversion)) {}

  Result<> add_tensors() {
    for (const ModelFiles::Tensor& tensor : files().tensors()) {
      const GgufTensor& gguf = tensor.info;
      const quant::Format* format = find_decoder(gguf.dtype);
      if (format == nullptr && gguf.dtype != DType::i32)
        return fail(ErrorCode::unsupported, "{}: tensor {}: type {} has no decoder", name_, gguf.name,
                    info(gguf.dtype).name);
      formats_.push_back(format);
      tensors_.push_back({std::string(gguf.name), std::string(info(gguf.dtype).name),
                          without_ones({gguf.shape.ne.rbegin(), gguf.shape.ne.rend()}), gguf.shape.n_elements()});
    }
    return {};
  }

  // A range of blocks is decoded as one long row.
  void read(size_t tensor, int64_t first, std::span<float> into) const override {
    const ModelFiles::Tensor& found = files().tensors()[tensor];
    const Blocks blocks = blocks_of(tensor, first, std::ssize(into));
    std::vector<std::byte> converted;
    std::span<const std::byte> bytes;
    if (conversion_ == nullptr) {
      bytes = files().data(found).subspan(blocks.offset, blocks.n_bytes);
    } else {
      converted.resize(blocks.n_bytes);
      conversion_->rows().read(in_blocks(found.info), blocks.first, blocks.n, converted);
      bytes = converted;
    }
    if (formats_[tensor] == nullptr) return to_floats(ElementType::i32, bytes, into);
    formats_[tensor]->dequantize_row(bytes.data(), std::ssize(into), into.data());
  }

  void forget(size_t tensor, int64_t first, int64_t n) const override {
    const ModelFiles::Tensor& found = files().tensors()[tensor];
    const Blocks blocks = blocks_of(tensor, first, n);
    if (conversion_ != nullptr)
      conversion_->rows().forget(in_blocks(found.info), blocks.first, blocks.n);
    else if (const MappedFile* map = files().files()[found.file]->map())
      map->discard(found.info.file_offset + blocks.offset, blocks.n_bytes);
  }

 private:
  struct Blocks {
    int64_t first, n;
    size_t offset, n_bytes;
  };
  Blocks blocks_of(size_t tensor, int64_t first, int64_t n) const {
    const DTypeInfo& type = info(files().tensors()[tensor].info.dtype);
    const int64_t from = first / type.block_elements, count = n / type.block_elements;
    return {from, count, to_size(from * type.block_bytes), to_size(count * type.block_bytes)};
  }
  // The same tensor with a block as its row.
  static GgufTensor in_blocks(GgufTensor tensor) {
    tensor.shape[0] = info(tensor.dtype).block_elements;
    return tensor;
  }
  const ModelFiles& files() const { return conversion_ != nullptr ? conversion_->files() : *own_; }

  std::unique_ptr<ModelFiles> own_;
  std::unique_ptr<Conversion> conversion_;
  std::vector<const quant::Format*> formats_;  // null for integers
};

// The tensors of a checkpoint, by the names of its files.
class StoredWeights final : public WeightSet {
 public:
  StoredWeights(std::string name, Checkpoint checkpoint)
      : WeightSet(std::move(name)), checkpoint_(std::move(checkpoint)) {
    for (const CheckpointTensor& tensor : checkpoint_.tensors())
      tensors_.push_back({tensor.tensor.name, std::string(element_name(tensor.tensor.type)),
                          without_ones(tensor.tensor.shape), tensor.tensor.n_values()});
  }

  void read(size_t tensor, int64_t first, std::span<float> into) const override {
    const CheckpointTensor& stored = checkpoint_.tensors()[tensor];
    const ElementType type = stored.tensor.type;
    const int64_t per_element = element_values(type);
    std::vector<std::byte> bytes(into.size() / to_size(per_element) * element_bytes(type));
    checkpoint_.read(stored, first / per_element, bytes);
    to_floats(type, bytes, into);
  }
  void forget(size_t tensor, int64_t first, int64_t n) const override {
    const CheckpointTensor& stored = checkpoint_.tensors()[tensor];
    const int64_t per_element = element_values(stored.tensor.type);
    checkpoint_.forget(stored.tensor, stored.file, first / per_element, n / per_element);
  }

 private:
  Checkpoint checkpoint_;
};

}  // namespace

Result<std::unique_ptr<WeightSet>> open_weights(const std::string& path, WeightNames names) {
  const bool is_stored = names == WeightNames::stored;
  std::unique_ptr<ModelWeights> model;
  if (!is_checkpoint(path)) {
    TESSERA_ASSIGN(auto files, ModelFiles::open(path));
    model = std::make_unique<ModelWeights>(path, std::move(files));
  } else if (is_stored) {
    TESSERA_ASSIGN(Checkpoint checkpoint, Checkpoint::open(path));
    return std::make_unique<StoredWeights>(path, std::move(checkpoint));
  } else {
    TESSERA_ASSIGN(auto conversion, Conversion::open(path, FileType::f32));
    model = std::make_unique<ModelWeights>(path, std::move(conversion));
  }
  TESSERA_TRY(model->add_tensors());
  return model;
}

}  // namespace tessera::convert
