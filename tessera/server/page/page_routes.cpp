#include "tessera/server/page/page_routes.h"

#include <algorithm>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <utility>

#include "tessera/server/page/page.h"

namespace tessera::server {

namespace {

constexpr size_t kGzipHeaderBytes = 10, kGzipTrailerBytes = 8;  // scripts/pack.mjs writes no optional fields

// The bytes of a file for clients that do not know gzip.
std::string inflated(const PageFile& file) {
  std::string bytes(file.n_inflated, '\0');
  const std::string_view deflated =
      file.gzip.substr(kGzipHeaderBytes, file.gzip.size() - kGzipHeaderBytes - kGzipTrailerBytes);
  boost::beast::zlib::inflate_stream stream;
  boost::beast::zlib::z_params parameters;
  parameters.next_in = deflated.data();
  parameters.avail_in = deflated.size();
  parameters.next_out = bytes.data();
  parameters.avail_out = bytes.size();
  boost::beast::error_code error;  // none: the bytes are part of the program
  stream.write(parameters, boost::beast::zlib::Flush::finish, error);
  bytes.resize(bytes.size() - parameters.avail_out);
  return bytes;
}

// Whether a list of a field, such as "gzip, br;q=0.5", has a word.
bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, std::min(list.find(';'), comma));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

void answer_file(const PageFile& file, Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  HttpAnswer answer{.content_type = std::string(file.content_type)};
  answer.fields = {
      {"ETag", std::string(file.etag)},
      {"Cache-Control", file.is_immutable ? "public, max-age=31536000, immutable" : "no-cache"},
      {"Vary", "Accept-Encoding"},
      {"Content-Security-Policy", std::string(kPagePolicy)},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
  };
  if (has_word(request.field("if-none-match").value_or(""), file.etag)) {
    answer.status = 304;
  } else if (has_word(request.field("accept-encoding").value_or(""), "gzip")) {
    answer.fields.push_back({"Content-Encoding", "gzip"});
    answer.body = file.gzip;
  } else {
    answer.body = inflated(file);
  }
  exchange.answer(std::move(answer));
}

}  // namespace

void add_page_routes(Router& router) {
  for (const PageFile& file : page_files())
    router.add({.method = "GET",
                .path = std::string(file.path),
                .access = Access::open,
                .handler = [&file](const std::shared_ptr<Exchange>& exchange) { answer_file(file, *exchange); }});
}

void answer_page_index(const std::shared_ptr<Exchange>& exchange) { answer_file(*find_page_file("/"), *exchange); }

}  // namespace tessera::server
