// URLs of files: which of them are files of the hub's repositories, and the facts that a server tells about others.
#include "tessera/hub/part_name.h"
#include "tests/hub/hub_support.h"
#include "tests/hub/scripted_server.h"

namespace tessera::hub {
namespace {

// A hub without a network: the error of a URL names the repository, or the URL itself.
std::string error_offline(const std::string& endpoint, const std::string& url) {
  TestHub test(endpoint, "cache_url_offline");
  test.settings.endpoint = parse_url(endpoint).value();
  if (test.settings.endpoint.target == "/") test.settings.endpoint.target = "";
  test.settings.is_offline = true;
  const auto found = test.hub().find_url(url);
  return found ? "" : std::string(found.error().message());
}

TEST(HubUrl, FilesOfRepositoriesHaveTheirForm) {
  const std::string hub = "http://hub.example:81";
  for (const std::string path : {"/me/tiny/resolve/main/m.gguf", "/me/tiny/blob/main/a/m.gguf?download=true"})
    EXPECT_TRUE(error_offline(hub, hub + path).starts_with("me/tiny@main is not in the cache")) << path;
  EXPECT_TRUE(error_offline(hub, hub + "/me/tiny/resolve/refs%2Fpr/m.gguf").starts_with("me/tiny@refs is not")) << hub;
  for (const std::string url :
       {"http://hub.example/me/tiny/resolve/main/m.gguf", "https://hub.example:81/me/tiny/resolve/main/m.gguf",
        "http://hub.example:81/me/tiny/raw/main/m.gguf", "http://hub.example:81/me/tiny/resolve/main",
        "http://hub.example:81/me/tiny:Q8_0/resolve/main/m.gguf", "http://hub.example:81/me/resolve/main/m.gguf",
        "http://hub.example:81/a/b/c/resolve/main/m.gguf"})
    EXPECT_TRUE(error_offline(hub, url).starts_with(url + " is not in the cache")) << error_offline(hub, url);
  // A mirror below a path.
  EXPECT_TRUE(error_offline(hub + "/x", hub + "/x/me/tiny/resolve/main/m.gguf").starts_with("me/tiny@main is not"));
  EXPECT_TRUE(error_offline(hub + "/x", hub + "/me/tiny/resolve/main/m.gguf").starts_with(hub + "/me/tiny"));
  EXPECT_TRUE(error_offline(hub + "/x", hub + "/xme/tiny/resolve/main/m.gguf").starts_with(hub + "/xme"));
}

// A URL of one part stands for all, up to 1000.
TEST(HubUrl, PartsAreFoundByTheirNames) {
  for (const uint32_t count : {1000u, 1001u}) {
    TestHub test("http://hub.example", "cache_url_parts");
    test.settings.is_offline = true;
    const std::string commit(40, 'a');
    Listing listing{.commit = commit, .files = {}};
    for (uint32_t number = 1; number <= count; ++number)
      listing.files.push_back({.path = part_path({.prefix = "m", .number = number, .count = count}),
                               .size = 1,
                               .oid = std::string(64, 'b')});
    const auto url_of = [&](uint32_t number) {
      return "http://h/d/" + part_path({.prefix = "m", .number = number, .count = count}) + "?a=b";
    };
    const std::string first = repository_of_url(parse_url(url_of(1)).value()).value();
    const RepositoryCache cache(test.settings.cache_dir, first);
    EXPECT_OK(cache.write_ref("main", commit));
    EXPECT_OK(cache.write_listing(listing));
    const auto found = test.hub().find_url(url_of(2));
    EXPECT_EQ(found.has_value(), count == 1000) << count;
    if (found) {
      EXPECT_EQ(found->selection.files.size(), 1000u);
    }
  }
}

TEST(HubUrl, LongUrlsAreNamedByTheirHash) {
  const auto name_of_url = [](const std::string& text) { return repository_of_url(parse_url(text).value()).value(); };
  // "models--h--" and the path: at most 200 bytes.
  const std::string longest(189, 'a');
  EXPECT_EQ(name_of_url("http://h/" + longest), "h/" + longest);
  EXPECT_EQ(name_of_url("http://h/" + longest + "a").size(), 18u);
  const std::string host(100, 'h'), path(200, 'a');
  EXPECT_TRUE(name_of_url("http://" + host + "/" + path).starts_with(host + "/"));
  EXPECT_TRUE(name_of_url("http://" + host + "h/" + path).starts_with("url/"));
}

// A server answers the question for the first byte of a file of 10 bytes, and then with its bytes and these fields.
Result<Fetched> fetch_after(const std::string& first_answer, const std::string& fields = "") {
  size_t n_requests = 0;
  ScriptedServer server(
      [&](const std::string&) { return n_requests++ == 0 ? first_answer : answer_of("200 OK", "0123456789", fields); });
  TestHub test("http://127.0.0.1:1", "cache_url_facts");
  return test.get_url(server.url() + "/m.gguf");
}

TEST(HubUrl, HashesOfTheServerAreChecked) {
  const std::string right = sha256_of("0123456789"), wrong = sha256_of("other"),
                    range = "Content-Range: bytes 0-0/10\r\n";
  const auto fetch = [&](const std::string& fields) {
    return fetch_after(answer_of("206 Partial", "0", range + fields), fields);
  };
  for (const std::string field : {"X-Linked-ETag: \"", "ETag: \""}) {
    EXPECT_OK(fetch(field + right + "\"\r\n"));
    EXPECT_ERROR(fetch(field + wrong + "\"\r\n"), wrong);
  }
  // An ETag of another kind is no hash of the bytes.
  EXPECT_OK(fetch("ETag: \"" + wrong.substr(1) + "\"\r\n"));
  EXPECT_OK(fetch_after(answer_of("206 Partial", "0", range + "ETag: W/\"" + wrong + "\"\r\n")));
}

TEST(HubUrl, SizesComeFromRangesOrLengths) {
  EXPECT_OK(fetch_after(answer_of("206 Partial", "0", "Content-Range: bytes 0-0/10\r\n")));
  EXPECT_OK(fetch_after(answer_of("200 OK", "0123456789")));
  EXPECT_ERROR(fetch_after(answer_of("206 Partial", "0", "Content-Range: bytes 0-0/*\r\n")),
               "the server does not give the file's size");
  EXPECT_ERROR(fetch_after(answer_of("206 Partial", "0")), "the server does not give the file's size");
}

}  // namespace
}  // namespace tessera::hub
