#include "tessera/hub/range_download.h"

#include <fmt/format.h>

#include <charconv>
#include <deque>
#include <memory>

#include "tessera/base/index.h"
#include "tessera/hub/model_name.h"

namespace tessera::hub {

namespace {

Error mismatch(std::string message) { return Error(ErrorCode::mismatch, std::move(message)); }

// The bytes [begin, end) of a file.
class RangeSink final : public TransferSink {
 public:
  RangeSink(const RemoteFile& file, PartFile& part, uint64_t begin, uint64_t end)
      : file_(file), part_(part), begin_(begin), position_(begin), end_(end) {}

  uint64_t position() const { return position_; }
  uint64_t end() const { return end_; }
  bool is_complete() const { return position_ == end_; }
  /// Whether the server has answered with a range.
  bool has_range() const { return has_range_; }
  /// The sink of a single stream takes all that follows if the server has no ranges.
  void set_single(bool is_single) { is_single_ = is_single; }

  std::string range() override {
    if (position_ == 0 && end_ == file_.size) return "";
    return fmt::format("{}-{}", position_, end_ - 1);
  }

  Attempt check(const HttpHead& head) override {
    if (const std::string_view size = head.field("x-linked-size"); !size.empty() && parse_size(size) != file_.size)
      return lasting(mismatch(fmt::format("the server has {} bytes, wanted are {}", size, file_.size)));
    if (const auto range = parse_content_range(head.field("content-range")))
      if (range->has_total && range->total != file_.size)
        return lasting(mismatch(fmt::format("the server has {} bytes, wanted are {}", range->total, file_.size)));
    const std::string_view linked = head.field("x-linked-etag");
    const bool has_body = head.status == 200 || head.status == 206;
    for (const std::string& hash : {hash_in_etag(linked), hash_in_etag(has_body ? head.field("etag") : "")})
      if (hash.size() == file_.hash.size() && hash != file_.hash)
        return lasting(
            mismatch(fmt::format("the file has changed: the server has {}, wanted is {}", hash, file_.hash)));
    if (has_body && !file_.etag.empty() && head.field("etag") != file_.etag)
      return lasting(mismatch("the file has changed while it was downloaded"));
    return {};
  }

  Attempt begin(const HttpHead& head) override {
    if (const std::string_view coding = head.field("content-encoding"); !coding.empty() && coding != "identity")
      return lasting(Error(ErrorCode::unsupported, fmt::format("the answer is encoded ('{}')", coding)));
    return head.status == 206 ? begin_range(head) : begin_whole(head);
  }

  Attempt write(std::span<const std::byte> bytes) override {
    const auto n_skipped = std::min<uint64_t>(skip_, bytes.size());
    skip_ -= n_skipped;
    bytes = bytes.subspan(to_size(n_skipped));
    if (bytes.size() > end_ - position_) return passing(mismatch("the answer has more bytes than its head says"));
    if (auto written = part_.write(position_, bytes); !written) return lasting(std::move(written).error());
    position_ += bytes.size();
    return {};
  }

  Attempt finish() override {
    if (is_complete()) return {};
    return passing(mismatch(fmt::format("the answer ended {} bytes early", end_ - position_)));
  }

  uint64_t n_kept() const override { return position_ - begin_; }

 private:
  Attempt begin_range(const HttpHead& head) {
    const std::string_view field = head.field("content-range");
    const auto range = parse_content_range(field);
    if (!range || !range->has_range || range->first != position_ || range->last >= end_)
      return passing(
          mismatch(fmt::format("the server sent the range '{}', wanted is {}-{}", field, position_, end_ - 1)));
    skip_ = 0;
    has_range_ = true;
    return check_length(head, range->last - range->first + 1);
  }

  Attempt begin_whole(const HttpHead& head) {
    if (!is_single_) return passing(mismatch("the server has sent the whole file for a range"));
    end_ = file_.size;
    skip_ = position_;
    return check_length(head, file_.size);
  }

  static Attempt check_length(const HttpHead& head, uint64_t wanted) {
    const std::string_view length = head.field("content-length");
    if (length.empty() || parse_size(length) == wanted) return {};
    return passing(mismatch(fmt::format("the answer has {} bytes, wanted are {}", length, wanted)));
  }

  const RemoteFile& file_;
  PartFile& part_;
  const uint64_t begin_;
  uint64_t position_, end_;
  uint64_t skip_ = 0;  // bytes of a whole file that are there already
  bool has_range_ = false;
  bool is_single_ = true;
};

struct Lane {
  RangeSink sink;
  Transfer transfer;

  Lane(TransferContext& context, const RemoteFile& file, PartFile& part, uint64_t begin, uint64_t end)
      : sink(file, part, begin, end), transfer(context, file.url, sink) {}
};

class RangeDownload {
 public:
  RangeDownload(TransferContext& context, const RemoteFile& file, PartFile& part)
      : context_(context), file_(file), part_(part) {}

  Result<> run(const std::function<void(uint64_t)>& on_bytes) {
    while (part_.n_hashed() < file_.size) {
      TESSERA_TRY(add_lanes());
      std::vector<Transfer*> transfers;
      for (const auto& lane : lanes_) transfers.push_back(&lane->transfer);
      TESSERA_TRY(step(context_, transfers));
      for (const auto& lane : lanes_)
        if (lane->transfer.state() == Transfer::State::failed) return std::unexpected(lane->transfer.error());
      TESSERA_TRY(drop_done());
      on_bytes(n_bytes());
    }
    return {};
  }

 private:
  uint64_t next_begin() const { return lanes_.empty() ? part_.n_hashed() : lanes_.back()->sink.end(); }

  // One lane until the server has answered with a range.
  Result<> add_lanes() {
    while (next_begin() < file_.size && (lanes_.empty() || (has_ranges_ && std::ssize(lanes_) < n_lanes()))) {
      const uint64_t begin = next_begin();
      const uint64_t end = begin + std::min(context_.settings.range_bytes, file_.size - begin);
      lanes_.push_back(std::make_unique<Lane>(context_, file_, part_, begin, end));
      if (lanes_.size() > 1) TESSERA_TRY(part_.begin_ranges());
      for (const auto& lane : lanes_) lane->sink.set_single(lanes_.size() == 1);
    }
    return {};
  }

  // Drops the lanes that are done up to the first one that is not, and hashes their bytes.
  Result<> drop_done() {
    has_ranges_ = has_ranges_ || lanes_.front()->sink.has_range();
    const size_t n_before = lanes_.size();
    uint64_t end = lanes_.front()->sink.position();
    while (!lanes_.empty() && lanes_.front()->transfer.state() == Transfer::State::done) {
      end = lanes_.front()->sink.end();
      lanes_.pop_front();
      if (!lanes_.empty()) end = lanes_.front()->sink.position();
    }
    TESSERA_TRY(part_.hash_to(end, [this] { return !context_.cancel.cancelled(); }));
    return lanes_.size() < n_before ? part_.note_hashed() : Result<>{};
  }

  uint64_t n_bytes() const {
    uint64_t n = part_.n_hashed();
    for (size_t i = 1; i < lanes_.size(); ++i) n += lanes_[i]->sink.n_kept();
    return n;
  }

  std::ptrdiff_t n_lanes() const { return context_.settings.n_ranges; }

  TransferContext& context_;
  const RemoteFile& file_;
  PartFile& part_;
  std::deque<std::unique_ptr<Lane>> lanes_;  // in the order of the file
  bool has_ranges_ = false;
};

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return size;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || slash == std::string_view::npos) return std::nullopt;
  const std::string_view range = text.substr(kUnit.size(), slash - kUnit.size());
  const auto total = parse_size(text.substr(slash + 1));
  ContentRange parsed{.total = total.value_or(0), .has_total = total.has_value()};
  if (!total && text.substr(slash + 1) != "*") return std::nullopt;
  if (range == "*") return parsed;
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_size(range.substr(0, dash)), last = parse_size(range.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  parsed.first = *first;
  parsed.last = *last;
  parsed.has_range = true;
  return parsed;
}

std::string hash_in_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return is_hex(etag, 40) || is_hex(etag, 64) ? std::string(etag) : "";
}

Result<> download_ranges(TransferContext& context, const RemoteFile& file, PartFile& part,
                         const std::function<void(uint64_t)>& on_bytes) {
  return RangeDownload(context, file, part).run(on_bytes);
}

}  // namespace tessera::hub
