#include "tessera/mpi/mpi_transport.h"

#include <dlfcn.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "tessera/backend/plugin_library.h"
#include "tessera/mpi/library/functions.h"

namespace tessera::mpi {

namespace {

constexpr int kSuccess = 0;  // MPI_SUCCESS

class LibraryTransport final : public MpiTransport {
 public:
  explicit LibraryTransport(const tessera_mpi_functions& functions) : functions_(functions) {}

  Result<> init() {
    if (const int code = functions_.init(&rank_, &n_ranks_); code != kSuccess) return error("MPI does not start", code);
    return {};
  }

  int rank() const override { return rank_; }
  int n_ranks() const override { return n_ranks_; }

  Result<Ticket> post_send(int to, int tag, Bytes bytes) override {
    TESSERA_TRY(require_rank(to));
    drop_complete();
    tessera_mpi_request* request = nullptr;
    if (const int code = functions_.send(to, tag, bytes->data(), bytes->size(), &request); code != kSuccess)
      return error("a message cannot be sent", code);
    posted_[next_] = {request, std::move(bytes), false};
    return next_++;
  }

  Result<Ticket> post_receive(int from, int tag, Bytes room) override {
    TESSERA_TRY(require_rank(from));
    drop_complete();
    tessera_mpi_request* request = nullptr;
    if (const int code = functions_.receive(from, tag, room->data(), room->size(), &request); code != kSuccess)
      return error("a message cannot be received", code);
    posted_[next_] = {request, std::move(room), true};
    return next_++;
  }

  Result<std::optional<size_t>> poll(Ticket ticket) override {
    const auto found = posted_.find(ticket);
    if (found == posted_.end()) return fail(ErrorCode::invalid_argument, "rank {}: ticket {} is void", rank_, ticket);
    int is_complete = 0;
    size_t n = 0;
    const int code = functions_.poll(found->second.request, &is_complete, &n);
    if (is_complete == 0) return std::nullopt;
    const Posted posted = std::move(found->second);
    posted_.erase(found);
    if (code != kSuccess) return error(posted.receives ? "a message was not received" : "a message was not sent", code);
    return posted.receives ? n : posted.memory->size();
  }

  // MPI may use the memory until the request is complete, and a send cannot be taken back.
  void cancel(Ticket ticket) override {
    auto given_up = posted_.extract(ticket);
    if (given_up.empty()) return;
    if (given_up.mapped().receives) functions_.cancel(given_up.mapped().request);
    given_up_.push_back(std::move(given_up.mapped()));
  }

  std::string library_text() const override {
    char text[128] = {};
    functions_.library_text(text, sizeof text);
    return printable_text(text);
  }

  Result<> leave(Clock::time_point deadline) override {
    while (drop_complete(), !given_up_.empty() && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!given_up_.empty()) return fail(ErrorCode::io, "rank {}: messages to other ranks are not delivered", rank_);
    // MPI waits for the other ranks without a limit, so another thread waits for it.
    struct Outcome {
      std::mutex mutex;
      std::condition_variable changed;
      std::optional<int> code;
    };
    const auto outcome = std::make_shared<Outcome>();
    try {
      std::thread([outcome, finish = functions_.finish] {
        const int code = finish();
        const std::lock_guard lock(outcome->mutex);
        outcome->code = code;
        outcome->changed.notify_one();
      }).detach();
    } catch (const std::system_error& failure) {
      return fail(ErrorCode::out_of_memory, "no thread to leave the job: {}", failure.what());
    }
    std::unique_lock lock(outcome->mutex);
    if (!outcome->changed.wait_until(lock, deadline, [&] { return outcome->code.has_value(); }))
      return fail(ErrorCode::io, "rank {}: other ranks did not leave the job in time", rank_);
    return *outcome->code == kSuccess ? Result<>{} : error("MPI does not end", *outcome->code);
  }

 private:
  struct Posted {
    tessera_mpi_request* request = nullptr;
    Bytes memory;
    bool receives = false;
  };

  Result<> require_rank(int rank) const {
    if (rank < 0 || rank >= n_ranks_)
      return fail(ErrorCode::invalid_argument, "rank {}, want 0 to {}", rank, n_ranks_ - 1);
    return {};
  }

  // Frees requests that were given up and are complete.
  void drop_complete() {
    std::erase_if(given_up_, [&](const Posted& posted) {
      int is_complete = 0;
      size_t n = 0;
      functions_.poll(posted.request, &is_complete, &n);
      return is_complete != 0;
    });
  }

  std::unexpected<Error> error(std::string_view what, int code) const {
    char text[512] = {};
    functions_.error_text(code, text, sizeof text);
    return fail(ErrorCode::io, "rank {}: {}: {}", rank_, what, printable_text(text));
  }

  const tessera_mpi_functions& functions_;
  int rank_ = 0, n_ranks_ = 1;
  Ticket next_ = 1;
  std::map<Ticket, Posted> posted_;
  std::vector<Posted> given_up_;
};

}  // namespace

Result<std::unique_ptr<MpiTransport>> MpiTransport::join(const std::string& library) {
  // MPI's own components look up its symbols, so they are global. The library stays until the process ends.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return fail(ErrorCode::io, "{}", printable_text(::dlerror()));
  const auto entry = reinterpret_cast<tessera_mpi_entry>(::dlsym(handle, TESSERA_MPI_SYMBOL));
  if (entry == nullptr) return fail(ErrorCode::format, "{}: no symbol {}", library, TESSERA_MPI_SYMBOL);
  const tessera_mpi_functions* functions = entry();
  if (functions == nullptr || functions->version != TESSERA_MPI_VERSION ||
      functions->n_bytes != sizeof(tessera_mpi_functions))
    return fail(ErrorCode::mismatch, "{}: built for another version of tessera", library);
  auto transport = std::make_unique<LibraryTransport>(*functions);
  TESSERA_TRY(transport->init());
  return transport;
}

}  // namespace tessera::mpi
