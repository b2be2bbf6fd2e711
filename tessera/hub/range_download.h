// The download of one file into its part: up to four ranges at once where the server has ranges, otherwise one stream.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/hub/part_file.h"
#include "tessera/hub/transfer.h"

namespace tessera::hub {

/// A file on a server, and the facts about it that each answer must repeat.
struct RemoteFile {
  Url url;
  uint64_t size = 0;
  std::string hash{};      // SHA-256 or git's hash; "": unknown
  std::string etag{};      // of the file's bytes, quotes included; "": unknown
  std::string modified{};  // Last-Modified
};

/// Completes a part whose first bytes are hashed. on_bytes gets the number of bytes that have come, the earlier ones
/// included. If it fails, the part stays for the next run.
/// Errors: those of the transfers; mismatch (another size, hash or version of the file than wanted); io; cancelled.
Result<> download_ranges(TransferContext& context, const RemoteFile& file, PartFile& part,
                         const std::function<void(uint64_t)>& on_bytes);

/// The total of a Content-Range "bytes 0-4/10", and the range.
struct ContentRange {
  uint64_t first = 0, last = 0, total = 0;
  bool has_range = false;  // not "bytes */10"
  bool has_total = false;  // not "bytes 0-4/*"
};
/// Returns nothing if the text is not a Content-Range of bytes with first <= last.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// Parses a whole text as a number.
std::optional<uint64_t> parse_size(std::string_view text);

/// Returns the hash in an ETag such as "0123..." with its quotes, or "" if it is none of 40 or 64 digits.
std::string hash_in_etag(std::string_view etag);

}  // namespace tessera::hub
