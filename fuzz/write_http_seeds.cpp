// Writes the initial corpus of http_fuzz into a directory: requests with the fields that the server looks at, and
// bodies in chunks.
#include <fmt/core.h>

#include <fstream>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  constexpr std::string_view kHost = "Host: localhost:8080\r\n";
  constexpr std::string_view kChunks = "5\r\nhello\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: v\r\n\r\n";
  const std::string seeds[] = {
      fmt::format("GET /a%20b?x=1&y=%26+ HTTP/1.1\r\n{}Accept: */*\r\n\r\n", kHost),
      fmt::format("POST /v1 HTTP/1.1\r\n{}Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello", kHost),
      fmt::format("POST /v1 HTTP/1.1\r\n{}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{}", kHost, kChunks),
      "OPTIONS * HTTP/1.0\r\nHost: [::1]:80\r\nConnection: keep-alive, x\r\nContent-Encoding: identity\r\n\r\n",
      "\r\nGET http://a.b/c HTTP/1.1\r\nHost: a.b\r\n\r\n",
      std::string(kChunks),
  };
  int i = 0;
  for (const std::string& seed : seeds) std::ofstream(fmt::format("{}/seed-{}", argv[1], i++)) << '\x03' << seed;
  return 0;
}
