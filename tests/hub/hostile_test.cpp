// Answers that no honest hub gives: refused with a reason, and nothing of them gets a place in the cache.
#include "tests/hub/hub_support.h"
#include "tests/hub/scripted_server.h"

namespace tessera::hub {
namespace {

const std::string kCommit(40, 'c');
const std::string kModel = "0123456789";  // the bytes of the model
const std::string kHash = sha256_of(kModel);

std::string refs() {
  return R"({"branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": ")" + kCommit + "\"}]}";
}

std::string row(const std::string& path, const std::string& oid, const std::string& size, const std::string& lfs_size) {
  return R"({"type": "file", "path": ")" + path + R"(", "size": )" + size + R"(, "oid": "x", "lfs": {"oid": ")" + oid +
         R"(", "size": )" + lfs_size + "}}";
}

// A hub with one model. `tree` is its list of files, `file` the answer for the model's bytes.
ScriptedServer::Handler hub_of(std::string tree, std::function<std::string(const std::string&)> file) {
  return [tree = std::move(tree), file = std::move(file)](const std::string& request) {
    if (request.find("/refs ") != std::string::npos) return answer_of("200 OK", refs());
    if (request.find("/tree/") != std::string::npos) return answer_of("200 OK", tree);
    return file(request);
  };
}

const std::string kTree = "[" + row("m.gguf", kHash, "10", "10") + "]";

// Gets the model of a hub whose list of files is right. The answers for its bytes come in this order, the last one
// again and again.
Result<Fetched> get_bytes(std::vector<std::string> answers, TestHub* used = nullptr) {
  size_t next = 0;
  ScriptedServer server(hub_of(kTree, [&](const std::string&) {
    const std::string answer = answers[std::min(next, answers.size() - 1)];
    ++next;
    return answer;
  }));
  TestHub own(server.url(), "cache_hostile");
  TestHub& hub = used == nullptr ? own : *used;
  hub.settings.endpoint = parse_url(server.url()).value();
  hub.settings.endpoint.target = "";
  auto fetched = hub.get("me/tiny");
  if (!fetched) {
    EXPECT_EQ(std::ranges::count(hub.blobs(), kHash), 0);
  }
  return fetched;
}

Result<Fetched> get_with_tree(const std::string& tree) {
  ScriptedServer server(hub_of(tree, [](const std::string&) { return answer_of("200 OK", kModel); }));
  TestHub hub(server.url(), "cache_hostile");
  auto fetched = hub.get("me/tiny");
  EXPECT_EQ(std::filesystem::exists(hub.settings.cache_dir), fetched.has_value());
  return fetched;
}

TEST(HostileHub, AnHonestAnswerIsTaken) {
  ASSERT_OK_AND_ASSIGN(const Fetched fetched, get_bytes({answer_of("200 OK", kModel)}));
  EXPECT_EQ(testing::read_all(fetched.paths[0]), kModel);
}

TEST(HostileHub, PathsOfTheListAreChecked) {
  for (const std::string path : {"../m.gguf", "/m.gguf", "a//m.gguf", "a/./m.gguf", "a/../../m.gguf", "a\\\\m.gguf",
                                 "a\\nb.gguf", "a\\u0000.gguf", "", "a/"})
    EXPECT_ERROR(get_with_tree("[" + row(path, kHash, "10", "10") + "]"), "is not a path of a repository");
  EXPECT_ERROR(get_with_tree("[" + row(std::string(256, 'a'), kHash, "10", "10") + "]"),
               "a part has more than 255 bytes");
  EXPECT_ERROR(get_with_tree("[" + row(std::string(1025, '/'), kHash, "10", "10") + "]"),
               "1 to 1024 bytes are allowed");
}

TEST(HostileHub, HashesAndSizesOfTheListAreChecked) {
  EXPECT_ERROR(get_with_tree("[" + row("m.gguf", "../../../etc/passwd", "10", "10") + "]"),
               "me/tiny: m.gguf: '../../../etc/passwd' is not a hash of 64 hexadecimal digits");
  EXPECT_ERROR(get_with_tree("[" + row("m.gguf", kHash.substr(1), "10", "10") + "]"), "is not a hash");
  EXPECT_ERROR(get_with_tree("[" + row("m.gguf", kHash, "10", "11") + "]"), "its sizes 10 and 11 differ");
  EXPECT_ERROR(get_with_tree("[" + row("m.gguf", kHash, "-1", "-1") + "]"), "no whole number 'size'");
  EXPECT_ERROR(get_with_tree("[" + row("m.gguf", kHash, "10", "10") + "," + row("m.gguf", kHash, "10", "10") + "]"),
               "m.gguf is listed twice");
  EXPECT_ERROR(get_with_tree(R"([{"type": "file", "path": "m.gguf", "size": 3, "oid": "zz"}])"),
               "is not a hash of 40 hexadecimal digits");
  EXPECT_ERROR(get_with_tree("{}"), "the list of files is not an array");
  EXPECT_ERROR(get_with_tree("<html>"), "me/tiny: ");
  EXPECT_ERROR(get_with_tree("[]"), "no GGUF file and no safetensors");
  const std::string most = "18446744073709551615";
  EXPECT_ERROR(get_with_tree("[" + row("m-00001-of-00002.gguf", kHash, "10", "10") + "," +
                             row("m-00002-of-00002.gguf", kHash, most, most) + "]"),
               "the sizes of the files overflow");
}

TEST(HostileHub, AnswersOfTheApiAreBounded) {
  EXPECT_ERROR(get_with_tree(std::string((16 << 20) + 1, ' ')), "an answer of more than 16777216 bytes");
  EXPECT_ERROR(get_with_tree(std::string(16 << 20, ' ')), "me/tiny: not JSON");
  ScriptedServer server([](const std::string&) {
    return "HTTP/1.1 200 OK\r\nA: " + std::string(90'000, 'a') + "\r\nB: " + std::string(90'000, 'a') +
           "\r\nC: " + std::string(90'000, 'a') + "\r\n\r\n";
  });
  TestHub hub(server.url(), "cache_hostile");
  EXPECT_ERROR(hub.get("me/tiny"), "an answer's head has more than 262144 bytes");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HostileHub, CommitsAreChecked) {
  ScriptedServer server([](const std::string&) {
    return answer_of("200 OK",
                     R"({"branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": "../.."}]})");
  });
  TestHub hub(server.url(), "cache_hostile");
  EXPECT_ERROR(hub.get("me/tiny"), "'../..' is not a commit of 40 hexadecimal digits");
  EXPECT_ERROR(hub.get("me/tiny@dev"), "me/tiny@dev: no branch or tag 'dev'");
}

TEST(HostileHub, PagesOfTheListStayOnTheHub) {
  std::string link;
  ScriptedServer server([&](const std::string& request) {
    if (request.find("/refs ") != std::string::npos) return answer_of("200 OK", refs());
    if (request.find("cursor=2") != std::string::npos) return answer_of("200 OK", kTree);
    if (request.find("/tree/") != std::string::npos)
      return answer_of("200 OK", "[" + row("n.gguf", kHash, "10", "10") + "]",
                       "Link: <" + link + ">; rel=\"next\"\r\n");
    return answer_of("200 OK", kModel);
  });
  TestHub hub(server.url(), "cache_hostile");
  link = "/api/models/me/tiny/tree/x?cursor=2";
  ASSERT_OK_AND_ASSIGN(const Found found, hub.hub().find(parse_model_name("me/tiny").value()));
  EXPECT_EQ(found.listing.files.size(), 2u);
  link = "http://localhost:1/api/models/me/tiny/tree/x?cursor=2";
  EXPECT_ERROR(hub.get("me/tiny"), "a page of the list of files is on another host");
  link = "/api/models/me/tiny/tree/x?cursor=1";
  EXPECT_ERROR(hub.get("me/tiny"), "a list of files with more than 300 pages");
}

TEST(HostileHub, SizesOfHeadAndBytesAgreeWithTheList) {
  EXPECT_ERROR(get_bytes({answer_of("200 OK", kModel, "X-Linked-Size: 11\r\n")}),
               "the server has 11 bytes, wanted are 10");
  EXPECT_ERROR(get_bytes({answer_of("206 Partial", kModel, "Content-Range: bytes 0-9/11\r\n")}),
               "the server has 11 bytes, wanted are 10");
  EXPECT_ERROR(get_bytes({answer_of("200 OK", kModel + "1")}), "the answer has 11 bytes, wanted are 10");
  EXPECT_ERROR(get_bytes({"HTTP/1.1 200 OK\r\n\r\n" + kModel + "1"}), "more bytes than its head says");
  EXPECT_ERROR(get_bytes({"HTTP/1.1 200 OK\r\n\r\n012"}), "the answer ended ");
  EXPECT_ERROR(get_bytes({answer_of("200 OK", "0123456780")}), "wanted is " + kHash + "; the file was removed");
  EXPECT_ERROR(get_bytes({answer_of("200 OK", kModel, "Content-Encoding: gzip\r\n")}),
               "the answer is encoded ('gzip')");
  EXPECT_ERROR(get_bytes({answer_of("200 OK", kModel, "ETag: \"" + std::string(64, 'a') + "\"\r\n")}),
               "the file has changed");
  EXPECT_ERROR(get_bytes({answer_of("204 None", "")}), "status 204");
  EXPECT_OK(get_bytes({answer_of("200 OK", kModel, "ETag: \"0123456789abcdef0123456789abcdef\"\r\n")}));
}

TEST(HostileHub, WrongRangesAreRefused) {
  const std::string first = answer_of("206 Partial", kModel.substr(0, 4), "Content-Range: bytes 0-3/10\r\n");
  TestHub hub("http://127.0.0.1:1", "cache_ranges");
  hub.settings.range_bytes = 4;
  hub.settings.n_ranges = 1;
  const auto rest = [&](const std::string& bytes, const std::string& range) {
    hub.clock.sleeps.clear();
    std::filesystem::remove_all(hub.settings.cache_dir);
    return get_bytes({first, answer_of("206 Partial", bytes, "Content-Range: " + range + "\r\n")}, &hub);
  };
  EXPECT_ERROR(rest("3456", "bytes 3-6/10"), "the server sent the range 'bytes 3-6/10', wanted is 4-7");
  EXPECT_EQ(hub.clock.sleeps.size(), 5u);
  EXPECT_ERROR(rest("45678", "bytes 4-8/10"), "wanted is 4-7");
  EXPECT_ERROR(rest("4567", "bytes 4-7/9"), "the server has 9 bytes");
  EXPECT_ERROR(rest("4567", "bytes 7-4/10"), "wanted is 4-7");
  EXPECT_ERROR(rest("4567", "items 4-7/10"), "wanted is 4-7");
  EXPECT_ERROR(rest("456", "bytes 4-7/10"), "the answer has 3 bytes, wanted are 4");
  // Less than was asked for is allowed: the rest is asked for later.
  std::filesystem::remove_all(hub.settings.cache_dir);
  const auto piece = [](const std::string& bytes, const std::string& range) {
    return answer_of("206 Partial", bytes, "Content-Range: bytes " + range + "\r\n");
  };
  EXPECT_OK(get_bytes({first, piece("45", "4-5/10"), piece("67", "6-7/*"), piece("89", "8-9/10")}, &hub));
}

TEST(HostileHub, AFileThatChangesBetweenTwoRangesIsNoticed) {
  TestHub hub("http://127.0.0.1:1", "cache_versions");
  std::string etag = "\"v1\"";
  ScriptedServer server([&](const std::string& request) {
    const bool is_probe = request.find("Range: bytes=0-0\r\n") != std::string::npos;
    const bool is_first = request.find("Range: bytes=0-3\r\n") != std::string::npos;
    if (!is_probe && !is_first) etag = "\"v2\"";
    const std::string range = is_probe ? "0-0" : is_first ? "0-3" : "4-7";
    return answer_of("206 Partial", std::string(is_probe ? 1 : 4, 'a'),
                     "Content-Range: bytes " + range + "/10\r\nETag: " + etag + "\r\n");
  });
  hub.settings.range_bytes = 4;
  EXPECT_ERROR(hub.get_url(server.url() + "/m.gguf"), "the file has changed while it was downloaded");
}

TEST(HostileHub, AWholeFileForALaterRangeIsRefused) {
  TestHub hub("http://127.0.0.1:1", "cache_whole");
  hub.settings.range_bytes = 4;
  hub.settings.retry.n_retries = 0;
  const std::string first = answer_of("206 Partial", kModel.substr(0, 4), "Content-Range: bytes 0-3/10\r\n");
  EXPECT_ERROR(get_bytes({first, answer_of("200 OK", kModel)}, &hub), "the server has sent the whole file for a range");
}

TEST(HostileHub, AStalledTransferIsBegunAnew) {
  TestHub hub("http://127.0.0.1:1", "cache_stalled");
  hub.settings.stall_seconds = 1;
  EXPECT_OK(get_bytes({"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234" + std::string(ScriptedServer::kHang),
                       answer_of("206 Partial", "56789", "Content-Range: bytes 5-9/10\r\n")},
                      &hub));
  ASSERT_EQ(hub.notes.size(), 1u);
  EXPECT_NE(hub.notes[0].find("too slow"), std::string::npos) << hub.notes[0];
}

TEST(HostileHub, RetryAfterIsBounded) {
  TestHub hub("http://127.0.0.1:1", "cache_after");
  const auto busy = [](const std::string& after) {
    return answer_of("503 Busy", "", "Retry-After: " + after + "\r\n");
  };
  EXPECT_OK(
      get_bytes({busy("7"), busy("4000000000"), busy("99999999999"), busy("5x"), answer_of("200 OK", kModel)}, &hub));
  EXPECT_EQ(hub.clock.sleeps, (std::vector<int64_t>{8'000, 302'000, 4'000, 8'000}));
  TestHub later("http://127.0.0.1:1", "cache_after_date");
  EXPECT_OK(get_bytes({busy("Fri, 31 Dec 1999 23:59:59 GMT"), answer_of("200 OK", kModel)}, &later));
  EXPECT_EQ(later.clock.sleeps, (std::vector<int64_t>{1'000}));
}

TEST(HostileHub, WordsOfRefusalsAreBounded) {
  EXPECT_ERROR(get_bytes({answer_of("403 No", "{\"error\": \"by JSON\"}", "X-Error-Message: by field\r\n")}),
               "status 403: by field (if it is gated");
  const auto long_words = get_bytes({answer_of("404 No", "{\"error\": \"" + std::string(2000, 'x') + "\"}")});
  ASSERT_FALSE(long_words.has_value());
  EXPECT_EQ(long_words.error().code(), ErrorCode::not_found);
  EXPECT_LT(long_words.error().message().size(), 500u);
  EXPECT_ERROR(get_bytes({answer_of("404 No", std::string(1 << 20, 'x'))}), "status 404");
  EXPECT_ERROR(get_bytes({answer_of("404 No", "{\"error\": \"by JSON\"}")}), "status 404: by JSON");
  for (const std::string body : {"", "plain", "[\"error\"]", "{}", "{\"error\": 5}"}) {
    const auto refused = get_bytes({answer_of("404 No", body)});
    ASSERT_FALSE(refused.has_value());
    EXPECT_TRUE(refused.error().message().ends_with("status 404")) << refused.error().message();
  }
}

TEST(HostileHub, TheTokenStaysOnTheHubAlongRedirects) {
  std::vector<bool> has_token;
  ScriptedServer other([&](const std::string& request) {
    has_token.push_back(request.find("Authorization") != std::string::npos);
    return answer_of("200 OK", kModel);
  });
  ScriptedServer server(hub_of(kTree, [&](const std::string& request) {
    has_token.push_back(request.find("Authorization: Bearer secret\r\n") != std::string::npos);
    const std::string place = request.find("/moved") != std::string::npos ? other.url() + "/m" : "/moved";
    return answer_of("307 Moved", "", "Location: " + place + "\r\n");
  }));
  TestHub hub(server.url(), "cache_redirect");
  hub.settings.token = "secret";
  ASSERT_OK(hub.get("me/tiny"));
  EXPECT_EQ(has_token, (std::vector<bool>{true, true, false}));
}

}  // namespace
}  // namespace tessera::hub
