// An upload by itself: when its sender must wait, and when it goes on.
#include "tessera/server/api/blob_upload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "tests/support/testing.h"

namespace tessera::server {
namespace {

using namespace testing;
using State = BodySink::State;
using Lane = DiskThread::Lane;

constexpr size_t kFull = BodySink::kMaxHeldBytes / 2;

class Uploads : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    ASSERT_OK_AND_ASSIGN(thread_, DiskThread::create());
    upload_ = std::make_unique<BlobUpload>(
        *thread_, BlobTarget{.directory = folder_.string(), .folder = "blobs", .file = "blobs/a", .sha256 = "0"},
        [this] { ++n_resumed_; });
  }
  void TearDown() override {
    upload_.reset();
    thread_.reset();
  }
  State write(size_t n) { return upload_->write(std::string(n, 'x')); }
  /// Keeps the thread busy until the promise is fulfilled.
  std::promise<void> block() {
    std::promise<void> promise;
    thread_->post(Lane::urgent, [done = promise.get_future().share()] { done.wait(); });
    return promise;
  }
  void wait_for_thread() {
    std::promise<void> done;
    thread_->post(Lane::urgent, [&] { done.set_value(); });
    done.get_future().wait();
  }

  std::filesystem::path folder_ = temporary_path("blob_uploads");
  std::unique_ptr<DiskThread> thread_;
  std::unique_ptr<BlobUpload> upload_;
  std::atomic<int> n_resumed_{0};
};

TEST_F(Uploads, AreFullWithTheirBytesAndGoOnWhenHalfOfThemIsWritten) {
  auto blocked = block();
  EXPECT_EQ(write(kFull / 2), State::ready);
  EXPECT_EQ(write(kFull / 2 - 1), State::ready);
  EXPECT_EQ(write(1), State::full);
  EXPECT_EQ(write(kFull / 4), State::full);
  blocked.set_value();
  wait_for_thread();
  EXPECT_EQ(n_resumed_, 1);
  EXPECT_EQ(write(10), State::ready);
  wait_for_thread();
  EXPECT_EQ(n_resumed_, 1);  // nobody waits
}

TEST_F(Uploads, HalfOfTheBytesIsTooManyToGoOn) {
  int n_after_first = -1, n_after_second = -1;
  auto blocked = block();
  EXPECT_EQ(write(kFull / 2), State::ready);
  thread_->post(Lane::urgent, [&] { n_after_first = n_resumed_; });
  EXPECT_EQ(write(1), State::ready);
  thread_->post(Lane::urgent, [&] { n_after_second = n_resumed_; });
  EXPECT_EQ(write(kFull / 2), State::full);
  blocked.set_value();
  wait_for_thread();
  EXPECT_EQ(n_after_first, 0);
  EXPECT_EQ(n_after_second, 0);
  EXPECT_EQ(n_resumed_, 1);
}

TEST_F(Uploads, FewBytesNeverWait) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(write(100), State::ready);
    wait_for_thread();
  }
  EXPECT_EQ(n_resumed_, 0);
}

TEST_F(Uploads, AnErrorEndsThem) {
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(write(1), State::ready);  // nobody knows yet
  wait_for_thread();
  EXPECT_EQ(write(1), State::failed);
  EXPECT_NE(upload_->error().message, "");
}

}  // namespace
}  // namespace tessera::server
