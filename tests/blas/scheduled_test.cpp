// The BLAS device together with the CPU: the scheduler assigns it the large products, in the CPU's memory.
#include <gtest/gtest.h>

#include "tessera/blas/backend.h"
#include "tests/cpu/matmul_testing.h"
#include "tests/sched/two_devices.h"

namespace tessera {
namespace {

using testing::bytes_of;
using testing::NamedBytes;
using testing::OwnedTensor;
using testing::random_values;
using testing::run_once;
using testing::values_of;
using testing::Weights;

class BlasBesideCpu : public ::testing::Test {
 protected:
  void SetUp() override {
    cpu_ = cpu::create_device("").value();
    auto blas = blas::create_device(*cpu_, "");
    if (!blas) GTEST_SKIP() << blas.error().message();
    blas_ = std::move(*blas);
    for (const Device* device : {blas_.get(), cpu_.get()})
      backends_.push_back(device->create_backend({.threads = {.n_threads = 2}}).value());
  }

  // silu between products of 96, 20 and 64 rows; the last one's weights are packed.
  Graph ffn(int64_t n_tokens) const {
    GraphBuilder b;
    const Value h = b.silu(b.mul_mat(b.tensor(up_->tensor), b.input("x", DType::f32, {64, n_tokens})));
    b.output(b.mul_mat(b.tensor(few_->tensor), h), "few");
    b.output(b.mul_mat(b.tensor(packed_->tensor), h), "down");
    return std::move(b).finish().value();
  }

  void make_weights() {
    const auto tensor = [&](const char* name, const Weights& w, const BufferType& type) {
      return std::make_unique<OwnedTensor>(type, name, w.dtype, w.shape, w.bytes);
    };
    const BufferType& packed = cpu_->weight_buffer_type(Op::mul_mat, DType::q8_0, {96, 64});
    up_ = tensor("up", Weights(DType::q8_0, 64, 96, 1), cpu_->buffer_type());
    few_ = tensor("few", Weights(DType::f32, 96, 20, 2), cpu_->buffer_type());
    packed_ = tensor("down", Weights(DType::q8_0, 96, 64, 3), packed);
  }

  // "up: blas (upgraded)" ...
  std::vector<std::string> products(const Schedule& schedule) const {
    std::vector<std::string> texts;
    const std::vector<const Device*> devices{blas_.get(), cpu_.get()};
    for (NodeId id = 0; id < schedule.graph.size(); ++id)
      if (const Node& node = schedule.graph[id]; node.op == Op::mul_mat) {
        const Assignment::Entry& entry = schedule.assignment.entries[static_cast<size_t>(id)];
        texts.push_back(schedule.graph[node.sources[0]].name + ": " +
                        std::string(devices[static_cast<size_t>(entry.device)]->name()) + " (" +
                        std::string(name_of(entry.cause)) + ")");
      }
    return texts;
  }

  std::unique_ptr<Device> cpu_, blas_;  // the CPU outlives the device that uses its memory
  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<OwnedTensor> up_, few_, packed_;
};

TEST_F(BlasBesideCpu, GetsTheLargeProductsOfPlainWeights) {
  make_weights();
  const Executor both({backends_[0].get(), backends_[1].get()}, {});
  EXPECT_EQ(both.memories().size(), 1u);
  ASSERT_OK_AND_ASSIGN(const Schedule prefill, both.schedule(ffn(40)));
  EXPECT_EQ(products(prefill),
            (std::vector<std::string>{"up: blas (upgraded)", "few: cpu (reads)", "down: cpu (reads)"}));
  EXPECT_EQ(prefill.n_copies(), 0u);
  EXPECT_EQ(prefill.slices.size(), 2u);
  ASSERT_OK_AND_ASSIGN(const Schedule decode, both.schedule(ffn(1)));
  EXPECT_EQ(products(decode), (std::vector<std::string>{"up: cpu (reads)", "few: cpu (reads)", "down: cpu (reads)"}));
  EXPECT_EQ(decode.slices.size(), 1u);
}

// By default the CPU rounds x to 8 bits for quantized weights. With float activations it differs only by the order of
// its sums.
TEST_F(BlasBesideCpu, ComputesWhatTheCpuDoes) {
  make_weights();
  Rng rng(4);
  const NamedBytes inputs{{"x", bytes_of(random_values(rng, 64 * 40))}};
  ASSERT_OK_AND_ASSIGN(const auto floats, cpu_->create_backend({.activations = ActivationPrecision::float32}));
  ASSERT_OK_AND_ASSIGN(const NamedBytes alone, run_once(Executor(*floats), ffn(40), inputs));
  ASSERT_OK_AND_ASSIGN(const NamedBytes both,
                       run_once(Executor({backends_[0].get(), floats.get()}, {}), ffn(40), inputs));
  for (const char* name : {"few", "down"}) {
    const std::vector<float> expected = values_of<float>(alone.at(name)), got = values_of<float>(both.at(name));
    ASSERT_EQ(got.size(), expected.size());
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
      size += std::pow(static_cast<double>(expected[i]), 2);
    }
    EXPECT_LT(error, 1e-10 * size) << name;  // squared relative errors of some roundings: 1e-13
  }
}

}  // namespace
}  // namespace tessera
