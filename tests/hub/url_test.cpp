// URLs and redirects.
#include "tessera/hub/url.h"

#include <gtest/gtest.h>

#include "tessera/hub/ascii.h"
#include "tests/support/testing.h"

namespace tessera::hub {
namespace {

TEST(Url, HasASchemeAHostAPortAndATarget) {
  ASSERT_OK_AND_ASSIGN(const Url url, parse_url("HTTPS://Hub.Example/a/b?c=d#e"));
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "hub.example");
  EXPECT_EQ(url.port, 443);
  EXPECT_EQ(url.target, "/a/b?c=d");
  EXPECT_EQ(path_of(url), "/a/b");
  EXPECT_EQ(to_string(url), "https://hub.example/a/b?c=d");
  EXPECT_EQ(to_string(parse_url("http://h").value()), "http://h/");
  EXPECT_EQ(to_string(parse_url("http://h?x").value()), "http://h/?x");
  EXPECT_EQ(to_string(parse_url("http://h:80/").value()), "http://h/");
  EXPECT_EQ(to_string(parse_url("https://h:80/").value()), "https://h:80/");
  EXPECT_EQ(to_string(parse_url("http://[::1]:8080/x").value()), "http://[::1]:8080/x");
  EXPECT_EQ(parse_url("http://[::1]/x").value().port, 80);
  EXPECT_EQ(parse_url("http://h:65535/").value().port, 65535);
}

TEST(Url, OtherTextsAreRefused) {
  for (const std::string text : {"", "h/a", "ftp://h/", "file:///etc/passwd", "http:/h", "//h/a"})
    EXPECT_ERROR(parse_url(text), "is not a URL of http or https");
  for (const std::string text : {"http://", "http:///a", "http://a%2fb/", "http://[::1", "http://[]/", "http://a,b/"})
    EXPECT_ERROR(parse_url(text), "is not a host");
  for (const std::string text : {"http://h:/", "http://h:0/", "http://h:65536/", "http://h:8a/", "http://h:-1/"})
    EXPECT_ERROR(parse_url(text), "is not a port");
  for (const std::string text : {"http://h/a b", "http://h/a\r\nX: y", "http://h/\x7f", "http://h\\@x/"})
    EXPECT_ERROR(parse_url(text), "a space, control character or backslash");
  EXPECT_ERROR(parse_url("http://user:password@h/"), "a user name or password");
  EXPECT_OK(parse_url("http://h/" + std::string(8183, 'a')));
  EXPECT_ERROR(parse_url("http://h/" + std::string(8184, 'a')), "a URL of 8193 bytes, limit 8192");
}

TEST(Url, RedirectsAreResolved) {
  const Url from = parse_url("https://hub.example:8443/a/b/c?q=1").value();
  const std::pair<std::string, std::string> cases[] = {
      {"https://cdn.example/x?y", "https://cdn.example/x?y"}, {"//cdn.example/x", "https://cdn.example/x"},
      {"/x/y?z", "https://hub.example:8443/x/y?z"},           {"d?r=2", "https://hub.example:8443/a/b/d?r=2"},
      {"?r=2", "https://hub.example:8443/a/b/c?r=2"},         {"x/y:z", "https://hub.example:8443/a/b/x/y:z"},
  };
  for (const auto& [location, wanted] : cases) {
    const auto url = follow_redirect(from, location);
    ASSERT_OK(url);
    EXPECT_EQ(to_string(*url), wanted);
  }
  EXPECT_OK(follow_redirect(parse_url("http://h/").value(), "https://h/"));
  EXPECT_OK(follow_redirect(parse_url("http://h/").value(), "http://other/"));
  EXPECT_ERROR(follow_redirect(from, "http://hub.example:8443/a"), "only https is followed");
  EXPECT_ERROR(follow_redirect(from, "file:///etc/passwd"), "redirect: 'file:///etc/passwd' is not a URL");
  EXPECT_ERROR(follow_redirect(from, "gopher:x"), "is not a URL of http or https");
}

TEST(Url, OriginsAreSchemeHostAndPort) {
  const Url url = parse_url("http://h/a").value();
  EXPECT_TRUE(same_origin(url, parse_url("http://H:80/b").value()));
  EXPECT_FALSE(same_origin(url, parse_url("http://h:81/a").value()));
  EXPECT_FALSE(same_origin(url, parse_url("http://g/a").value()));
  EXPECT_FALSE(same_origin(url, parse_url("https://h:80/a").value()));
}

// The characters of all bytes for which a predicate holds.
template <class Predicate>
std::string characters_with(Predicate predicate) {
  std::string found;
  for (int byte = 0; byte < 256; ++byte)
    if (const auto c = static_cast<char>(byte); predicate(c)) found += c;
  return found;
}

TEST(Url, CharactersAreThoseOfAscii) {
  const std::string digits = "0123456789", upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", lower = "abcdefghijklmnopqrstuvwxyz";
  EXPECT_EQ(characters_with(is_digit), digits);
  EXPECT_EQ(characters_with(is_letter), upper + lower);
  EXPECT_EQ(characters_with([](char c) { return lower_case(c) != c; }), upper);
  EXPECT_EQ(lower_case(std::string_view("AMZ[amz@`{5\xc4")), "amz[amz@`{5\xc4");
  const std::string hex = "0123456789ABCDEFabcdef";
  EXPECT_EQ(characters_with([](char c) { return hex_value(c).has_value(); }), hex);
  for (size_t i = 0; i < hex.size(); ++i) EXPECT_EQ(hex_value(hex[i]), i < 16 ? i : i - 6) << hex[i];
  EXPECT_EQ(characters_with([](char c) { return percent_encoded(std::string(1, c)).size() == 1; }),
            "-./" + digits + upper + "_" + lower + "~");
  EXPECT_EQ(characters_with([](char c) { return parse_url(std::string("http://a") + c + "b/").has_value(); }),
            "#-./" + digits + "?" + upper + "_" + lower);
}

TEST(Url, PathsAreEncoded) {
  EXPECT_EQ(percent_encoded("a/B-9._~ %\xc3\xa4?#"), "a/B-9._~%20%25%C3%A4%3F%23");
  EXPECT_EQ(percent_decoded("a%20%25%c3%A4+"), "a %\xc3\xa4+");
  EXPECT_EQ(percent_decoded("%"), "%");
  EXPECT_EQ(percent_decoded("%4"), "%4");
  EXPECT_EQ(percent_decoded("%4g%g4%41"), "%4g%g4A");
  const std::string_view cut("%41", 2);
  EXPECT_EQ(percent_decoded(cut), "%4");
}

}  // namespace
}  // namespace tessera::hub
