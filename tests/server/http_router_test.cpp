// Routes, statuses and heads of answers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/server/http/answer_head.h"
#include "tessera/server/http/router.h"
#include "tessera/server/http/status.h"

namespace tessera::server {
namespace {

Router example_router() {
  Router router;
  for (const auto& [method, path] : std::vector<std::pair<std::string, std::string>>{{"GET", "/"},
                                                                                     {"GET", "/slots"},
                                                                                     {"POST", "/slots/{}"},
                                                                                     {"GET", "/v1/models/{}"},
                                                                                     {"DELETE", "/v1/models/{}"},
                                                                                     {"POST", "/v1/a/{}/b/{}"},
                                                                                     {"HEAD", "/slots"}})
    router.add({method, path, Access::key, {}});
  return router;
}

TEST(HttpRouter, FindsARouteByMethodAndPath) {
  const Router router = example_router();
  EXPECT_EQ(router.find("GET", "/").route->path, "/");
  const auto match = router.find("POST", "/slots/7");
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.path_segments, std::vector<std::string>{"7"});
  EXPECT_EQ(router.find("POST", "/v1/a/x/b/y z").path_segments, (std::vector<std::string>{"x", "y z"}));
}

TEST(HttpRouter, ASegmentIsNotEmptyAndHasNoSlash) {
  const Router router = example_router();
  for (const std::string_view path : {"/slots/", "/slots/1/", "/slots/1/2", "/slots//", "slots/1", "/slot/1"})
    EXPECT_TRUE(router.find("POST", path).allow.empty()) << path;
}

TEST(HttpRouter, ListsTheMethodsOfAPath) {
  const Router router = example_router();
  const auto match = router.find("PUT", "/v1/models/x");
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(router.find("GET", "/slots/1").allow, "POST, OPTIONS");
  EXPECT_EQ(router.find("GET", "/none").allow, "");
}

TEST(HttpRouter, GetAnswersHead) {
  const Router router = example_router();
  EXPECT_EQ(router.find("HEAD", "/v1/models/x").route->method, "GET");
  EXPECT_EQ(router.find("HEAD", "/v1/models/x").path_segments, std::vector<std::string>{"x"});
  EXPECT_EQ(router.find("HEAD", "/slots").route->method, "HEAD");
  EXPECT_EQ(router.find("HEAD", "/slots/1").route, nullptr);
}

TEST(HttpStatus, EachHasAPhraseAndAType) {
  EXPECT_EQ(status_phrase(404), "Not Found");
  EXPECT_EQ(status_phrase(299), "Unknown");
  EXPECT_EQ(problem_type(401), "authentication_error");
  EXPECT_EQ(problem_type(403), "permission_error");
  EXPECT_EQ(problem_type(404), "not_found_error");
  EXPECT_EQ(problem_type(429), "rate_limit_error");
  EXPECT_EQ(problem_type(500), "server_error");
  EXPECT_EQ(problem_type(501), "not_supported_error");
  EXPECT_EQ(problem_type(503), "unavailable_error");
  for (const int status : {400, 405, 408, 413, 414, 415, 417, 418, 431})
    EXPECT_EQ(problem_type(status), "invalid_request_error") << status;
}

TEST(HttpStatus, APlainProblemIsJson) {
  const auto answer = plain_problem_answer({.status = 404, .type = "t", .message = "a\"\\\n\xff"});
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, R"({"error":{"code":404,"message":"a\"\\\u000a?","type":"t"}})");
}

TEST(HttpAnswerHead, FramesByVersionAndLength) {
  const HttpAnswer answer{.content_type = "a/b"};
  EXPECT_EQ(write_answer_head(answer, {.content_length = 7, .request_id = "i"}),
            "HTTP/1.1 200 OK\r\nServer: tessera\r\nX-Request-Id: i\r\nRequest-Id: i\r\nContent-Type: a/b\r\n"
            "Content-Length: 7\r\n\r\n");
  EXPECT_NE(write_answer_head(answer, {}).find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  const std::string old = write_answer_head(answer, {.minor_version = 0, .keeps_alive = false});
  EXPECT_EQ(old.find("Transfer-Encoding"), std::string::npos);
  EXPECT_NE(old.find("Connection: close\r\n"), std::string::npos);
  const std::string kept = write_answer_head(answer, {.minor_version = 0, .content_length = 0});
  EXPECT_NE(kept.find("Connection: keep-alive\r\n"), std::string::npos);
  const std::string empty = write_answer_head({.status = 204}, {.content_length = 0});
  EXPECT_EQ(empty.find("Content-"), std::string::npos);
}

TEST(HttpAnswerHead, LeavesOutFieldsThatWouldEndALine) {
  const HttpAnswer answer{.fields = {{"X", "a\r\nSet-Cookie: b"},
                                     {"Y\r\n", "c"},
                                     {"A", "Y\r"},
                                     {"B", "Y\n"},
                                     {"C", std::string("Y\0", 2)},
                                     {"Z", "d"}}};
  const std::string head = write_answer_head(answer, {});
  EXPECT_EQ(head.find("Set-Cookie"), std::string::npos);
  EXPECT_EQ(head.find('Y'), std::string::npos);
  EXPECT_NE(head.find("\r\nZ: d\r\n"), std::string::npos);
}

TEST(HttpAnswerHead, WritesDates) { EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT"); }

}  // namespace
}  // namespace tessera::server
