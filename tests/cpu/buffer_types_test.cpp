// CPU memory in other kinds of pages: products if such memory is available, and the reason if it is not.
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tessera/cpu/buffers.h"
#include "tests/cpu/matmul_testing.h"
#include "tests/cpu/smaps.h"

namespace tessera {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::GraphRunner;
using testing::mapping_line;
using testing::OwnedTensor;
using testing::random_values;
using testing::Weights;

constexpr size_t kMiB = size_t{1} << 20;

const GraphRunner& runner() {
  static const GraphRunner runner("", 2);
  return runner;
}

const BufferType& type_named(std::string_view name) {
  for (const BufferType* type : runner().device().buffer_types())
    if (type->name() == name) return *type;
  ADD_FAILURE() << "no memory named " << name;
  return runner().device().buffer_type();
}

class CpuBufferTypes : public ::testing::TestWithParam<const char*> {
 protected:
  const BufferType& type() const { return type_named(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Names, CpuBufferTypes,
                         ::testing::Values("cpu", "cpu-packed", "cpu-huge", "cpu-packed-huge", "cpu-numa",
                                           "cpu-packed-numa", "cpu-hbm", "cpu-packed-hbm"));

#define SKIP_WITHOUT_MEMORY() \
  if (const auto here = type().allocate(3 * kMiB, BufferUsage::any); !here) GTEST_SKIP() << here.error().message()

TEST_P(CpuBufferTypes, AreTheCpus) {
  EXPECT_EQ(&type().device(), &runner().device());
  EXPECT_TRUE(runner().device().can_use(type()));
  EXPECT_EQ(type().is_host(), type().name().find("packed") == std::string::npos);
}

TEST_P(CpuBufferTypes, MemoryIsZeroedAlignedAndKeepsWhatIsWritten) {
  SKIP_WITHOUT_MEMORY();
  for (const size_t n : {size_t{1}, size_t{4096}, 2 * kMiB, 5 * kMiB + 1}) {
    ASSERT_OK_AND_ASSIGN(const auto buffer, type().allocate(n, BufferUsage::any));
    std::byte* base = buffer->base();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % type().alignment(), 0u);
    EXPECT_EQ(buffer->size(), n);
    EXPECT_TRUE(std::all_of(base, base + n, [](std::byte b) { return b == std::byte{0}; })) << n;
    ASSERT_OK(buffer->clear(std::byte{7}));
    EXPECT_TRUE(std::all_of(base, base + n, [](std::byte b) { return b == std::byte{7}; })) << n;
    ASSERT_OK(buffer->reset());
    EXPECT_EQ(buffer->base(), base);
    EXPECT_TRUE(std::all_of(base, base + n, [](std::byte b) { return b == std::byte{0}; })) << n;
  }
}

TEST_P(CpuBufferTypes, EmptyBuffersAreAllowed) { EXPECT_OK(type().allocate(0, BufferUsage::any)); }

TEST_P(CpuBufferTypes, TensorsComeBackAsTheyWere) {
  SKIP_WITHOUT_MEMORY();
  const Weights weights(DType::q4_0, 256, 40, 1);
  const OwnedTensor plain(runner().device().buffer_type(), "a", DType::q4_0, weights.shape, weights.bytes);
  const OwnedTensor tensor(type(), "w", DType::q4_0, weights.shape, weights.bytes);
  EXPECT_EQ(tensor.read(), weights.bytes);
  const OwnedTensor copied(type(), "w", DType::q4_0, weights.shape, {});
  ASSERT_OK(copied.buffer->copy(plain.tensor, copied.tensor));
  EXPECT_EQ(copied.read(), weights.bytes);
}

// Results do not depend on the kind of pages.
TEST_P(CpuBufferTypes, ProductsHaveTheBitsOfPlainPages) {
  SKIP_WITHOUT_MEMORY();
  const Weights weights(DType::q8_0, 256, 48, 2);
  Rng rng(3);
  const std::vector<float> x = random_values(rng, 256 * 5);
  const auto product_from = [&](const BufferType& memory) {
    const OwnedTensor w(memory, "w", DType::q8_0, weights.shape, weights.bytes);
    GraphBuilder b;
    b.output(b.mul_mat(b.tensor(w.tensor), b.input("x", DType::f32, {256, 5})), "y");
    return runner().run_y(std::move(b).finish().value(), {{"x", bytes_of(x)}}).value();
  };
  EXPECT_EQ(product_from(type()), product_from(type_named(type().is_host() ? "cpu" : "cpu-packed")));
}

TEST_P(CpuBufferTypes, MoreThanThereIsIsRefusedByName) {
  const auto refused = type().allocate(size_t{1} << 60, BufferUsage::any);
  EXPECT_ERROR(refused, std::string(type().name()) + ": ");
}

// The reported availability agrees with the result of an allocation.
TEST_P(CpuBufferTypes, AvailabilityIsTold) {
  const auto told = type().availability();
  if (!told) {
    EXPECT_FALSE(told.error().message().empty());
    EXPECT_FALSE(type().allocate(1, BufferUsage::any)) << told.error().message();
  }
  if (type().allocate(1, BufferUsage::any)) EXPECT_OK(told);
}

uint64_t huge_page_count(const std::string& what) {
  uint64_t n = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/" + what) >> n;
  return n;
}

TEST(CpuHugePages, AreTakenWholeAndGivenBack) {
  const uint64_t n_free = huge_page_count("free_hugepages");
  if (n_free < 2) GTEST_SKIP() << "no pages of 2 MiB are reserved";
  ASSERT_OK_AND_ASSIGN(auto buffer, type_named("cpu-huge").allocate(2 * kMiB + 1, BufferUsage::weights));
  EXPECT_NE(mapping_line(buffer->base(), "KernelPageSize:").find(" 2048 kB"), std::string::npos);
  EXPECT_EQ(huge_page_count("free_hugepages"), n_free - 2);  // both are reserved before either is touched
  ASSERT_OK(buffer->reset());
  EXPECT_EQ(huge_page_count("free_hugepages"), n_free - 2);
  buffer.reset();
  EXPECT_EQ(huge_page_count("free_hugepages"), n_free);
}

TEST(CpuHugePages, RefusalTellsBothNumbersAndTheRemedy) {
  const uint64_t n_pages = huge_page_count("nr_hugepages"), n_wanted = n_pages + 7;
  const auto refused = type_named("cpu-huge").allocate(n_wanted * 2 * kMiB, BufferUsage::weights);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::out_of_memory);
  EXPECT_ERROR(refused, "cpu-huge: ");
  EXPECT_ERROR(refused, " take " + std::to_string(n_wanted) + " reserved pages of 2 MiB, ");
  EXPECT_ERROR(refused, " of " + std::to_string(n_pages) + " are free (reserve more: sysctl vm.nr_hugepages");
}

TEST(CpuNumaPages, LieOnTheNodesInTurn) {
  const auto buffer = type_named("cpu-numa").allocate(5 * kMiB, BufferUsage::weights);
  if (!buffer) GTEST_SKIP() << buffer.error().message();
  const auto policy_at = [](std::byte* address) {
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, nullptr, 0, address, MPOL_F_ADDR) == 0 ? mode : -1;
  };
  if (policy_at((*buffer)->base()) == -1) GTEST_SKIP() << "the system does not tell memory policies";
  EXPECT_EQ(policy_at((*buffer)->base()), MPOL_INTERLEAVE);
  EXPECT_EQ(policy_at((*buffer)->base() + 5 * kMiB - 1), MPOL_INTERLEAVE);
  ASSERT_OK((*buffer)->reset());
  EXPECT_EQ(policy_at((*buffer)->base()), MPOL_INTERLEAVE);
  ASSERT_OK_AND_ASSIGN(const auto plain, type_named("cpu").allocate(5 * kMiB, BufferUsage::weights));
  EXPECT_EQ(policy_at(plain->base()), MPOL_DEFAULT);
}

// memkind looks for such memory once per process, so this test runs in a process of its own. An environment variable
// can make memkind use any node as high-bandwidth memory.
TEST(CpuHbmPages, AreHadFromTheNodeThatHasThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto use = [] {
    setenv("MEMKIND_HBW_NODES", "0", 1);
    const auto buffer = type_named("cpu-hbm").allocate(3 * kMiB, BufferUsage::weights);
    if (!buffer && buffer.error().message().find("this build has no memkind") != std::string::npos) _exit(2);
    if (!buffer || (*buffer)->base()[3 * kMiB - 1] != std::byte{0} || !(*buffer)->clear(std::byte{1})) _exit(1);
    const auto refused = type_named("cpu-hbm").allocate(size_t{1} << 50, BufferUsage::weights);
    _exit(!refused && refused.error().code() == ErrorCode::out_of_memory ? 0 : 1);
  };
  const auto is_fine = [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) % 2 == 0; };
  EXPECT_EXIT(use(), is_fine, "");
}

TEST(CpuHbmPages, AreRefusedWithTheReasonWhereThereAreNone) {
  const auto buffer = type_named("cpu-hbm").allocate(kMiB, BufferUsage::weights);
  if (buffer) GTEST_SKIP() << "this machine has high-bandwidth memory";
  EXPECT_EQ(buffer.error().code(), ErrorCode::unsupported);
  const std::string& message = buffer.error().message();
  EXPECT_TRUE(message.starts_with("cpu-hbm: this build has no memkind") ||
              message.starts_with("cpu-hbm: this machine has no high-bandwidth memory"))
      << message;
}

}  // namespace
}  // namespace tessera
