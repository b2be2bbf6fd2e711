#include "tessera/observe/bench_operands.h"

#include <cstring>
#include <numeric>

#include "tessera/base/index.h"
#include "tessera/base/rng.h"
#include "tessera/graph/builder.h"
#include "tessera/sched/executor.h"

namespace tessera::observe {

namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kBlockTokens = 64;

// Makes the bits of each byte that can be the upper bits of a float's exponent neither all zero nor all one. Then no
// scale and no value of any type is infinite, NaN or subnormal. 15 of 16 bytes stay as generated.
void fill_codes(std::span<std::byte> bytes) {
  constexpr uint32_t kExponent = 0x7c, kChanged = 0x10;
  Rng rng(kSeed);
  for (std::byte& byte : bytes) {
    uint32_t code = rng.next_u32() & 0xff;
    if ((code & kExponent) == 0 || (code & kExponent) == kExponent) code ^= kChanged;
    byte = static_cast<std::byte>(code);
  }
}

void fill_values(std::span<std::byte> bytes) {
  Rng rng(kSeed);
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    const float value = rng.next_float(-1, 1);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

std::vector<std::byte> file_bytes(const OperandSpec& spec, size_t n) {
  if (spec.content == OperandContent::given) return spec.given;
  std::vector<std::byte> bytes(n);
  if (spec.content == OperandContent::codes)
    fill_codes(bytes);
  else
    fill_values(bytes);
  return bytes;
}

// Stores random values in all positions, a block at a time.
Result<> fill_cache(const Tensor& cache, KvSide side, Backend& backend) {
  const Shape &shape = cache.shape(), rows{shape[0], shape[2], kBlockTokens};
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, rows), cells = b.input("cells", DType::i32, {kBlockTokens});
  b.kv_store(b.tensor(cache), x, cells, side);
  TESSERA_ASSIGN(Graph graph, std::move(b).finish());
  Executor executor(backend);
  TESSERA_TRY(executor.reserve({&graph, 1}));
  TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  const Tensor &x_tensor = prepared->tensor(x.id()), &cells_tensor = prepared->tensor(cells.id());
  std::vector<std::byte> values(to_size(rows.n_elements()) * sizeof(float));
  fill_values(values);
  std::vector<int32_t> ids(kBlockTokens);
  for (int64_t block = 0; block < shape[3]; ++block) {
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(block * kBlockTokens));
    TESSERA_TRY(x_tensor.buffer->set(x_tensor, 0, values));
    TESSERA_TRY(cells_tensor.buffer->set(cells_tensor, 0, std::as_bytes(std::span(ids))));
    TESSERA_TRY(executor.run(*prepared));
  }
  return {};
}

}  // namespace

Result<OperandCopies> OperandCopies::create(const BufferType& type, std::span<const OperandSpec> specs,
                                            int64_t n_copies, Backend& backend) {
  OperandCopies made;
  made.n_operands_ = specs.size();
  for (int64_t i = 0; i < n_copies; ++i)
    for (const OperandSpec& spec : specs) {
      TESSERA_ASSIGN(const Layout layout, contiguous_layout(spec.dtype, spec.shape));
      made.tensors_.push_back(Tensor{{spec.dtype, layout}, "operand"});
    }
  for (Tensor& tensor : made.tensors_) made.memory_.add(tensor, type);
  TESSERA_TRY(made.memory_.plan());
  TESSERA_TRY(made.memory_.allocate(BufferUsage::any));
  for (size_t i = 0; i < specs.size(); ++i) TESSERA_TRY(made.fill(specs[i], i, backend));
  return made;
}

Result<> OperandCopies::fill(const OperandSpec& spec, size_t operand, Backend& backend) {
  const Tensor& first = tensors_[operand];
  if (spec.content == OperandContent::k_cache || spec.content == OperandContent::v_cache) {
    const KvSide side = spec.content == OperandContent::k_cache ? KvSide::k : KvSide::v;
    TESSERA_TRY(fill_cache(first, side, backend));
    for (size_t i = operand + n_operands_; i < tensors_.size(); i += n_operands_)
      TESSERA_TRY(tensors_[i].buffer->copy(first, tensors_[i]));
    return {};
  }
  TESSERA_ASSIGN(const size_t n, nbytes(spec.dtype, spec.shape));
  const std::vector<std::byte> bytes = file_bytes(spec, n);
  for (size_t i = operand; i < tensors_.size(); i += n_operands_)
    TESSERA_TRY(tensors_[i].buffer->set(tensors_[i], 0, bytes));
  return {};
}

}  // namespace tessera::observe
