// Requests that a rank 0 of this version would not send.
#include "tessera/mpi/worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tessera/graph/builder.h"
#include "tests/mpi/cluster.h"

namespace tessera::mpi {
namespace {

using testing::Cluster;

WireTensor floats(uint64_t buffer, uint64_t offset, int64_t n) {
  return {.spec = {.dtype = 0, .ne = {n, 1, 1, 1}, .nb = {4, 4 * n, 4 * n, 4 * n}},
          .name = "t",
          .buffer = buffer,
          .offset = offset};
}

// A worker with a buffer of 4096 bytes and a backend.
class MpiWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.connect());
    ASSERT_OK_AND_ASSIGN(buffer_, number(AllocateRequest{0, 0, BufferUsage::any, 4096}));
    ASSERT_OK_AND_ASSIGN(backend_, number(OpenBackendRequest{0, 1, ActivationPrecision::automatic}));
  }

  Result<uint64_t> number(const Message& request) {
    TESSERA_ASSIGN(const DoneAnswer done, cluster_.client().ask<DoneAnswer>(1, request));
    return done.number;
  }

  // x, a view of it, and a sum in other memory.
  CompileRequest request() const {
    GraphBuilder b;
    const Value x = b.input("x", DType::f32, {8, 4});
    const Value view = b.view(x, {{8, 2}, {4, 32, 64, 64}}, 64);
    b.output(b.add(view, view), "y");
    return {.backend = backend_,
            .graph = to_wire(std::move(b).finish().value(), [](const Tensor&) { return kNoBufferType; }),
            .places = {{buffer_, 0}, {buffer_, 64}, {buffer_, 1024}},
            .work = {},
            .work_bytes = 0};
  }
  void expect_refused(const std::function<void(CompileRequest&)>& change, const std::string& part) {
    CompileRequest changed = request();
    change(changed);
    EXPECT_ERROR(number(changed), part);
  }

  Cluster cluster_;
  uint64_t buffer_ = 0, backend_ = 0;
};

TEST_F(MpiWorker, NumbersThatWereNotGivenAreRefused) {
  EXPECT_ERROR(number(ClearRequest{99, 0, false}), "no buffer 99");
  EXPECT_ERROR(number(SetRequest{floats(backend_, 0, 1), 0, {}}), "no buffer");  // of another kind
  EXPECT_ERROR(number(RunRequest{99, 1, false}), "no such backend");
  EXPECT_ERROR(number(RunRequest{backend_, 99, false}), "no plan 99");
  EXPECT_ERROR(number(WorkBytesRequest{buffer_, {}}), "no such backend");
  EXPECT_ERROR(number(MemoryRequest{7}), "device 7, want one of 1");
  EXPECT_ERROR(number(AllocateRequest{0, 1000, BufferUsage::any, 1}), "memory 1000, want one of");
  EXPECT_ERROR(number(OpenBackendRequest{3, 1, ActivationPrecision::automatic}), "device 3");
  EXPECT_ERROR(number(OpenBackendRequest{0, -1, ActivationPrecision::automatic}), "thread");
  EXPECT_ERROR(number(DoneAnswer{}), "a message that a worker does not take");
  EXPECT_ERROR(number(LoadRequest{floats(buffer_, 0, 1), 0, 99, 0, 4}), "no file 99");
  EXPECT_ERROR(number(OpenFileRequest{"/nowhere/x", 1, 1}), "/nowhere/x");
  EXPECT_ERROR(number(SendCopyRequest{floats(buffer_, 0, 1), 7, 1}), "no connection with rank 7");
  EXPECT_ERROR(number(HelloRequest{mpi::own_identity("test"), {"scalar"}, 5000}), "a second greeting");
  EXPECT_OK(number(FreeRequest{99}));
  EXPECT_OK(number(ClearRequest{buffer_, 0, false}));
}

TEST_F(MpiWorker, MemoryOutsideOfABufferIsRefused) {
  const std::vector<std::byte> four(4);
  EXPECT_OK(number(SetRequest{floats(buffer_, 4092, 1), 0, four}));
  EXPECT_ERROR(number(SetRequest{floats(buffer_, 4096, 1), 0, four}), "t: bytes 4096 to 4100 of a buffer of 4096");
  EXPECT_ERROR(number(SetRequest{floats(buffer_, UINT64_MAX - 3, 1), 0, four}), "of a buffer of 4096");
  EXPECT_ERROR(number(SetRequest{floats(buffer_, 2, 1), 0, four}), "offset 2, want a multiple of 4");
  EXPECT_ERROR(number(SetRequest{floats(buffer_, 0, 1), 4, four}), "bytes 4 to 8 are outside its 4");
  EXPECT_ERROR(number(GetRequest{floats(buffer_, 0, 4), 0, uint64_t{1} << 60}), "outside its 16 bytes");
  EXPECT_ERROR(number(GetRequest{floats(buffer_, 0, -4), 0, 4}), "-4");
  EXPECT_ERROR(number(CopyRequest{floats(buffer_, 0, 4), floats(buffer_, 4084, 4)}), "of a buffer of 4096");
  WireTensor spread = floats(buffer_, 0, 4);
  spread.spec.ne = {1, 3, 1, 1};
  spread.spec.nb = {4, 2048, 4096, 4096};
  EXPECT_ERROR(number(GetRequest{spread, 0, 4}), "bytes 0 to 4100 of a buffer of 4096");
}

TEST_F(MpiWorker, PlacesThatDoNotFitTheirGraphAreRefused) {
  ASSERT_OK_AND_ASSIGN(const uint64_t plan, number(request()));
  EXPECT_OK(number(RunRequest{backend_, plan, false}));
  expect_refused([](CompileRequest& r) { r.places.pop_back(); }, "2 places for 3 nodes");
  expect_refused([](CompileRequest& r) { r.places[2].buffer = 99; }, "no buffer 99");
  expect_refused([](CompileRequest& r) { r.places[2].offset = 4096 - 60; }, "y: bytes 4036 to 4100");
  expect_refused([](CompileRequest& r) { r.places[1].offset = 60; }, "node 1 (): it is not where its operand is");
  expect_refused([&](CompileRequest& r) { r.work = {buffer_, 2048}, r.work_bytes = 4096; }, "bytes 2048 to 6144");
  expect_refused([&](CompileRequest& r) { r.work = {buffer_, 1}, r.work_bytes = 8; }, "offset 1, want a multiple");
  expect_refused([](CompileRequest& r) { r.work = {99, 0}, r.work_bytes = 8; }, "no buffer 99");
  expect_refused([](CompileRequest& r) { r.backend = 99; }, "no such backend");
  ASSERT_OK_AND_ASSIGN(const uint64_t packed, number(AllocateRequest{0, 1, BufferUsage::any, 4096}));
  expect_refused([&](CompileRequest& r) { r.places[2] = {packed, 0}; }, "outside of the device's default memory");
}

// Nobody waits for small values. If one cannot be set, the next run says so.
TEST_F(MpiWorker, AnErrorWithoutAnAnswerIsThatOfTheNextRun) {
  ASSERT_OK_AND_ASSIGN(const uint64_t plan, number(request()));
  const std::vector<std::byte> four(4), all(4096, std::byte{5});
  cluster_.client().post(1, SetRequest{floats(buffer_, 4096, 1), 0, four});
  cluster_.client().post(1, SetRequest{floats(buffer_, 0, 1), 4, four});
  EXPECT_ERROR(number(RunRequest{backend_, plan, false}), "t: bytes 4096 to 4100 of a buffer of 4096");
  EXPECT_OK(number(RunRequest{backend_, plan, false}));
  cluster_.client().post(1, SetRequest{floats(99, 0, 1), 0, four});
  EXPECT_OK(number(ClearRequest{buffer_, 0, false}));  // waits until the request before it is done
  EXPECT_ERROR(number(RunRequest{backend_, plan, false}), "no buffer 99");
  cluster_.client().post(1, SetRequest{floats(buffer_, 0, 1024), 0, all});
  Client& client = cluster_.client();
  ASSERT_OK_AND_ASSIGN(const uint64_t asked, client.start(1, GetRequest{floats(buffer_, 0, 1024), 0, 4096}));
  ASSERT_OK_AND_ASSIGN(Client::Reply reply, client.finish(asked));
  ASSERT_OK_AND_ASSIGN(const BytesAnswer got, client.take<BytesAnswer>(1, reply));
  EXPECT_TRUE(std::ranges::equal(got.bytes, all));
}

// The memory of a plan stays while the plan does.
TEST_F(MpiWorker, AFreedBufferIsKeptByItsPlans) {
  ASSERT_OK_AND_ASSIGN(const uint64_t plan, number(request()));
  ASSERT_OK(number(FreeRequest{buffer_}));
  EXPECT_ERROR(number(ClearRequest{buffer_, 0, false}), "no buffer");
  EXPECT_OK(number(RunRequest{backend_, plan, false}));
  ASSERT_OK(number(FreePlanRequest{backend_, plan}));
  EXPECT_ERROR(number(RunRequest{backend_, plan, false}), "no plan");
}

TEST_F(MpiWorker, AClosedBackendIsGone) {
  ASSERT_OK(number(CloseBackendRequest{backend_}));
  EXPECT_ERROR(number(request()), "no such backend");
}

}  // namespace
}  // namespace tessera::mpi
