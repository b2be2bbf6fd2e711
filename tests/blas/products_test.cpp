// Products by a BLAS library compared with sums in double of the dequantized weights, for each installed library.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tessera/blas/backend.h"
#include "tessera/blas/library.h"
#include "tests/cpu/matmul_testing.h"

namespace tessera {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::expect_near;
using testing::OwnedTensor;
using testing::random_values;
using testing::values_of;
using testing::weight_types;
using testing::Weights;

// Sums of 256 products below 1 in floats, in any order. The rounding errors of sums below 30 form a random walk of
// about 256^0.5 * 30 * 2^-24 = 3e-5. The tolerance is twice that.
constexpr double kTolerance = 6e-5;

const Device& cpu() {
  static const std::unique_ptr<Device> device = cpu::create_device("").value();
  return *device;
}

class BlasProducts : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto device = blas::create_device(cpu(), GetParam());
    if (!device) GTEST_SKIP() << device.error().message();
    device_ = std::move(*device);
  }

  /// Returns the product, [n_rows, n_tokens].
  Result<std::vector<float>> multiply(const Weights& weights, const std::vector<float>& x, int n_threads,
                                      const BufferType& memory) const {
    const OwnedTensor w(memory, "w", weights.dtype, weights.shape, weights.bytes);
    const int64_t n_tokens = static_cast<int64_t>(x.size()) / weights.shape[0];
    GraphBuilder b;
    const Value in = b.input("x", DType::f32, {weights.shape[0], n_tokens});
    const Value y = b.mul_mat(b.tensor(w.tensor), in);
    b.output(y, "y");
    TESSERA_ASSIGN(const auto backend, device_->create_backend({.threads = {.n_threads = n_threads}}));
    return run(*backend, std::move(b).finish().value(), in, x, y);
  }

  static Result<std::vector<float>> run(Backend& backend, Graph graph, Value in, const std::vector<float>& x, Value y,
                                        const CancelToken* cancel = nullptr) {
    Executor executor(backend);
    TESSERA_TRY(executor.reserve({&graph, 1}));
    TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
    TESSERA_TRY(set_input(*prepared, in, x));
    TESSERA_TRY(executor.run(*prepared, {.cancel = cancel}));
    const Tensor& tensor = prepared->tensor(y.id());
    Bytes bytes(nbytes(tensor.dtype, tensor.shape()).value());
    TESSERA_TRY(tensor.buffer->get(tensor, 0, bytes));
    return values_of<float>(bytes);
  }

  std::unique_ptr<Device> device_;
};
INSTANTIATE_TEST_SUITE_P(Libraries, BlasProducts, ::testing::Values("libopenblas.so.0", "libdnnl.so.2", "libblas.so.3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

std::vector<double> exact_product(const Weights& weights, const std::vector<float>& x) {
  const int64_t k = weights.shape[0], n = weights.shape[1], n_tokens = static_cast<int64_t>(x.size()) / k;
  std::vector<double> y;
  for (int64_t t = 0; t < n_tokens; ++t)
    for (int64_t row = 0; row < n; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += static_cast<double>(weights.values[static_cast<size_t>(row * k + i)]) *
               static_cast<double>(x[static_cast<size_t>(t * k + i)]);
      y.push_back(sum);
    }
  return y;
}

// 33 tokens, and a number of rows that is not a multiple of a block, so that the last block is smaller.
TEST_P(BlasProducts, OfEveryFormatAreTheFormatsOwnValues) {
  Rng rng(1);
  for (const DType dtype : weight_types()) {
    const Weights weights(dtype, 256, 147, 2);
    const std::vector<float> x = random_values(rng, 256 * 33);
    SCOPED_TRACE(info(dtype).name);
    ASSERT_OK_AND_ASSIGN(const std::vector<float> y, multiply(weights, x, 2, cpu().buffer_type()));
    expect_near(y, exact_product(weights, x), kTolerance);
  }
}

TEST_P(BlasProducts, HaveTheSameBitsForAnyNumberOfThreads) {
  Rng rng(3);
  for (const DType dtype : {DType::f32, DType::q4_k}) {
    const Weights weights(dtype, 512, 530, 4);
    const std::vector<float> x = random_values(rng, 512 * 40);
    ASSERT_OK_AND_ASSIGN(const std::vector<float> one, multiply(weights, x, 1, cpu().buffer_type()));
    for (const int n_threads : {2, 3, 7}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<float> more, multiply(weights, x, n_threads, cpu().buffer_type()));
      EXPECT_EQ(bytes_of(more), bytes_of(one)) << n_threads;
    }
  }
}

TEST_P(BlasProducts, ReadWeightsInAnyPlainMemoryOfTheCpu) {
  Rng rng(5);
  const Weights weights(DType::f16, 64, 64, 6);
  const std::vector<float> x = random_values(rng, 64 * 32);
  for (const BufferType* type : cpu().buffer_types()) {
    EXPECT_EQ(device_->can_use(*type), type->is_host()) << type->name();
    if (!type->is_host() || !type->allocate(1, BufferUsage::any)) continue;
    ASSERT_OK_AND_ASSIGN(const std::vector<float> y, multiply(weights, x, 2, *type));
    expect_near(y, exact_product(weights, x), kTolerance);
  }
}

// A product of a product, and views between them.
TEST_P(BlasProducts, FollowEachOther) {
  Rng rng(7);
  const Weights first(DType::q8_0, 64, 96, 8), second(DType::f32, 96, 40, 9);
  const std::vector<float> x = random_values(rng, 64 * 32, 0.1f);
  const OwnedTensor w1(cpu().buffer_type(), "w1", first.dtype, first.shape, first.bytes);
  const OwnedTensor w2(cpu().buffer_type(), "w2", second.dtype, second.shape, second.bytes);
  GraphBuilder b;
  const Value in = b.input("x", DType::f32, {64, 32});
  const Value y = b.mul_mat(b.tensor(w2.tensor), b.reshape(b.mul_mat(b.tensor(w1.tensor), in), {96, 32}));
  b.output(y, "y");
  ASSERT_OK_AND_ASSIGN(const auto backend, device_->create_backend({.threads = {.n_threads = 2}}));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> got, run(*backend, std::move(b).finish().value(), in, x, y));
  std::vector<float> between;
  for (const double value : exact_product(first, x)) between.push_back(static_cast<float>(value));
  expect_near(got, exact_product(second, between), kTolerance);
}

// Backends of one device have separate threads, but share the library.
TEST_P(BlasProducts, RunOnSeveralBackendsAtOnce) {
  Rng rng(10);
  const Weights weights(DType::q4_0, 256, 300, 11);
  const std::vector<float> x = random_values(rng, 256 * 64);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> alone, multiply(weights, x, 2, cpu().buffer_type()));
  std::atomic<int> n_same{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 4; ++round) {
        const auto y = multiply(weights, x, 2, cpu().buffer_type());
        if (y && *y == alone) ++n_same;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_same, 12);
}

TEST_P(BlasProducts, CanBeCancelled) {
  const Weights weights(DType::f32, 32, 32, 12);
  const OwnedTensor w(cpu().buffer_type(), "w", DType::f32, weights.shape, weights.bytes);
  GraphBuilder b;
  const Value in = b.input("x", DType::f32, {32, 32}), y = b.mul_mat(b.tensor(w.tensor), in);
  b.output(y, "y");
  ASSERT_OK_AND_ASSIGN(const auto backend, device_->create_backend({}));
  CancelToken cancel;
  cancel.cancel();
  const auto cancelled = run(*backend, std::move(b).finish().value(), in, std::vector<float>(32 * 32), y, &cancel);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), ErrorCode::cancelled);
}

class BlasDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = blas::create_device(cpu(), "");
    if (!device) GTEST_SKIP() << device.error().message();
    device_ = std::move(*device);
  }

  bool supports_product(const Shape& weights, int64_t n_tokens, const BufferType& memory, DType dtype) const {
    const Tensor w{{dtype, contiguous_layout(dtype, weights).value()}, "w", &memory};
    GraphBuilder b;
    b.mul_mat(b.tensor(w), b.input("x", DType::f32, {weights[0], n_tokens}));
    const Graph graph = std::move(b).finish().value();
    return device_->supports(graph, graph.size() - 1);
  }

  std::unique_ptr<Device> device_;
};

TEST_F(BlasDevice, HasNoMemoryOfItsOwn) {
  EXPECT_EQ(device_->name(), "blas");
  EXPECT_EQ(device_->kind(), DeviceKind::accelerator);
  EXPECT_EQ(device_->memory().total_bytes, 0u);
  EXPECT_EQ(&device_->buffer_type(), &cpu().buffer_type());
  EXPECT_EQ(&device_->weight_buffer_type(Op::mul_mat, DType::q4_0, {256, 256}), &cpu().buffer_type());
  EXPECT_TRUE(device_->buffer_types().empty());
  EXPECT_FALSE(device_->supports_kv(DType::f16, KvSide::k, 64));
}

TEST_F(BlasDevice, TakesLargeProductsOnly) {
  const BufferType& plain = cpu().buffer_type();
  EXPECT_TRUE(supports_product({32, 32}, 32, plain, DType::f32));
  EXPECT_FALSE(supports_product({31, 32}, 32, plain, DType::f32));
  EXPECT_FALSE(supports_product({32, 31}, 32, plain, DType::f32));
  EXPECT_FALSE(supports_product({32, 32}, 31, plain, DType::f32));
  EXPECT_TRUE(supports_product({256, 64}, 512, plain, DType::q4_k));
  EXPECT_FALSE(supports_product({256, 64}, 512, plain, DType::i32));
  EXPECT_FALSE(supports_product({32, int64_t{1} << 31}, 32, plain, DType::f32));
}

TEST_F(BlasDevice, TakesNothingElse) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {64, 64}), w = b.input("w", DType::f32, {64, 64});
  const Value sum = b.add(x, w);
  const Value strided = b.mul_mat(w, b.view(x, {.shape = {64, 32}, .nb = {4, 512, 16384, 16384}}, 0));
  const Value product = b.mul_mat(w, x);
  const Graph graph = std::move(b).finish().value();
  EXPECT_TRUE(device_->supports(graph, x.id()));
  EXPECT_TRUE(device_->supports(graph, product.id()));
  EXPECT_FALSE(device_->supports(graph, sum.id()));
  EXPECT_FALSE(device_->supports(graph, strided.id()));
  ASSERT_OK_AND_ASSIGN(const auto backend, device_->create_backend({}));
  EXPECT_ERROR(backend->work_bytes(graph), "blas cannot run add");
}

TEST_F(BlasDevice, RefusesPlacesItCannotAddress) {
  const Weights weights(DType::q8_0, 64, 64, 1);
  const OwnedTensor packed(cpu().weight_buffer_type(Op::mul_mat, DType::q8_0, weights.shape), "w", DType::q8_0,
                           weights.shape, weights.bytes);
  GraphBuilder b;
  b.output(b.mul_mat(b.tensor(packed.tensor), b.input("x", DType::f32, {64, 64})), "y");
  const Graph graph = std::move(b).finish().value();
  ASSERT_OK_AND_ASSIGN(const auto backend, device_->create_backend({}));
  ASSERT_OK_AND_ASSIGN(const size_t n_work, backend->work_bytes(graph));
  EXPECT_EQ(n_work, 64u * 64 * sizeof(float));
  ASSERT_OK_AND_ASSIGN(const auto memory, cpu().buffer_type().allocate(n_work, BufferUsage::compute));
  std::vector<Tensor> tensors(3, packed.tensor);
  EXPECT_ERROR(backend->compile(graph, tensors, {memory.get(), 0, n_work - 1}), "bytes of scratch memory");
  EXPECT_ERROR(backend->compile(graph, {}, {memory.get(), 0, n_work}), "0 tensors for 3 nodes");
  EXPECT_ERROR(backend->compile(graph, tensors, {memory.get(), 0, n_work}), "w has no memory that blas can address");
}

TEST(BlasLibrary, IsRefusedByNameWhereItIsNot) {
  EXPECT_ERROR(blas::create_device(cpu(), "libnosuch.so.7"),
               "blas: no library of matrix products (looked for libnosuch.so.7)");
  EXPECT_ERROR(blas::Library::open("libm.so.6"), "(looked for libm.so.6)");  // a library, but without products
  EXPECT_ERROR(blas::Library::open("/etc/passwd"), "(looked for /etc/passwd)");
  EXPECT_EQ(blas::Library::open("libnosuch.so.7").error().code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace tessera
