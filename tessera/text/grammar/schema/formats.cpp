#include "tessera/text/grammar/schema/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tessera::text::grammar {
namespace {

// Each function returns a regular expression for a whole text. Groups do not capture, so that alternatives can be put
// together.

// RFC 3339, with the days of each month.
std::string date() {
  const std::string leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
         "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap_year + "-02-29)";
}

// A leap second is the last one of a day in UTC. Offsets of half hours are enough in practice.
std::string leap_second() {
  std::string found = "23:59:60(?:\\.[0-9]+)?[Zz]";
  constexpr int kDay = 24 * 60, kLast = kDay - 1, kStep = 30;
  for (int offset = -kDay + kStep; offset < kDay; offset += kStep) {
    const int local = (kLast + offset + kDay) % kDay, size = std::abs(offset);
    found += fmt::format("|{:02}:{:02}:60(?:\\.[0-9]+)?{}{:02}:{:02}", local / 60, local % 60, offset < 0 ? "-" : "\\+",
                         size / 60, size % 60);
  }
  return found + "|23:59:60(?:\\.[0-9]+)?-00:00";
}

std::string time() {
  return "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|" +
         leap_second() + ")";
}

// ISO 8601 as the appendix of RFC 3339 has it.
std::string duration() {
  const std::string day = "[0-9]+D", month = "[0-9]+M(?:" + day + ")?", year = "[0-9]+Y(?:" + month + ")?";
  const std::string second = "[0-9]+S", minute = "[0-9]+M(?:" + second + ")?", hour = "[0-9]+H(?:" + minute + ")?";
  const std::string time = "T(?:" + hour + "|" + minute + "|" + second + ")";
  return "P(?:(?:" + day + "|" + month + "|" + year + ")(?:" + time + ")?|" + time + "|[0-9]+W)";
}

std::string ipv4() {
  const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  return "(?:" + byte + "\\.){3}" + byte;
}

// RFC 4291: eight groups, of which one run may be left out, and an IPv4 address in place of the last two.
std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}", last = "(?:" + group + ":" + group + "|" + ipv4() + ")";
  std::string found = "(?:" + group + ":){6}" + last;
  found += "|::(?:" + group + ":){5}" + last;
  for (int n_after = 4; n_after >= 0; --n_after)
    found += fmt::format("|(?:(?:{0}:){{0,{1}}}{0})?::(?:{0}:){{{2}}}{3}", group, 4 - n_after, n_after, last);
  found += fmt::format("|(?:(?:{0}:){{0,5}}{0})?::{0}|(?:(?:{0}:){{0,6}}{0})?::", group);
  return "(?:" + found + ")";
}

// Labels of at most 63 characters, 253 in all. The hyphens of encoded names (xn--) are not looked into.
std::string hostname_of(const std::string& letters) {
  const std::string label = "(?!..--)[" + letters + "](?:[" + letters + "-]{0,61}[" + letters + "])?";
  return "(?=.{1,253}$)(?:" + label + ")(?:\\." + "[" + letters + "](?:[" + letters + "-]{0,61}[" + letters + "])?)*";
}
std::string hostname() { return hostname_of("A-Za-z0-9"); }

constexpr std::string_view kInternational =
    "\\u{a0}-\\u{d7ff}\\u{f900}-\\u{fdcf}\\u{fdf0}-\\u{ffef}\\u{10000}-\\u{dfffd}";

// RFC 5321; RFC 6531 allows all characters outside of ASCII before the @.
std::string email_of(const std::string& local_letters, const std::string& letters) {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" + local_letters + "-]+";
  const std::string quoted = "\"(?:[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e" + local_letters + "]|\\\\[\\x20-\\x7e])*\"";
  const std::string label =
      "[A-Za-z0-9" + letters + "](?:[A-Za-z0-9" + letters + "-]{0,61}[A-Za-z0-9" + letters + "])?";
  return "(?:" + atom + "(?:\\." + atom + ")*|" + quoted + ")@(?:" + label + "(?:\\." + label + ")*|\\[(?:" + ipv4() +
         "|IPv6:" + ipv6() + ")\\])";
}

// RFC 3986; for IRIs (RFC 3987) with more letters.
struct UriGrammar {
  std::string scheme, hier_part, relative_part, query, fragment;
};
UriGrammar uri_grammar(const std::string& letters) {
  const std::string unreserved = "A-Za-z0-9._~" + letters;
  const std::string private_use =
      letters.empty() ? "" : "\\u{e000}-\\u{f8ff}\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}";
  const std::string encoded = "%[0-9A-Fa-f]{2}", sub = "!$&'()*+,;=";
  const auto characters = [&](const std::string& more) {
    return "(?:[" + unreserved + sub + more + "-]|" + encoded + ")";
  };
  const std::string pchar = characters(":@");
  const std::string user = characters(":") + "*@", name = characters("") + "*";
  const std::string future = "[vV][0-9A-Fa-f]+\\.[" + unreserved + sub + ":-]+";
  const std::string host = "(?:\\[(?:" + ipv6() + "|" + future + ")\\]|" + name + ")";
  const std::string authority = "(?:" + user + ")?" + host + "(?::[0-9]*)?";
  const std::string rest = "(?:/" + pchar + "*)*";
  const std::string absolute = "/(?:" + pchar + "+" + rest + ")?";
  const std::string no_colon = characters("@") + "+";
  return {.scheme = "[A-Za-z][A-Za-z0-9+.-]*",
          .hier_part = "(?:(?://" + authority + rest + ")|" + absolute + "|" + pchar + "+" + rest + "|)",
          .relative_part = "(?:(?://" + authority + rest + ")|" + absolute + "|" + no_colon + rest + "|)",
          .query = "(?:\\?(?:" + characters(":@/?" + private_use) + ")*)?",
          .fragment = "(?:#(?:" + characters(":@/?") + ")*)?"};
}
std::string uri_of(const std::string& letters) {
  const UriGrammar g = uri_grammar(letters);
  return g.scheme + ":" + g.hier_part + g.query + g.fragment;
}
std::string uri_reference_of(const std::string& letters) {
  const UriGrammar g = uri_grammar(letters);
  return "(?:" + uri_of(letters) + "|" + g.relative_part + g.query + g.fragment + ")";
}

// RFC 6570.
std::string uri_template() {
  const std::string literal = "[\\x21\\x23\\x24\\x26-\\x3b\\x3d\\x3f-\\x5b\\x5d\\x5f\\x61-\\x7a\\x7e" +
                              std::string(kInternational) + "]|%[0-9A-Fa-f]{2}";
  const std::string character = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})";
  const std::string name = character + "(?:\\.?" + character + ")*";
  const std::string variable = name + "(?::[1-9][0-9]{0,3}|\\*)?";
  return "(?:" + literal + "|\\{[+#./;?&=,!@|]?" + variable + "(?:," + variable + ")*\\})*";
}

std::string json_pointer() { return "(?:/(?:[^~/]|~[01])*)*"; }

// Regular expressions with groups nested three deep: a part of them that is certainly valid.
std::string regex() {
  const std::string quantifier = "(?:[*+?]\\?{0,1}|\\{[0-9]{1,3},?\\}\\?{0,1})?";
  const std::string escape = "\\\\(?:[dDwWsStnrfv0^$\\\\.*+?()\\[\\]{}|/]|c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})";
  const std::string single = "(?:[^\\\\^$.*+?()\\[\\]{}|]|\\.|" + escape + ")";
  const std::string set = "\\[\\^?(?:[A-Za-z0-9_ .,:;@#%&=<>!~'\"/]|a-z|A-Z|0-9|" + escape + ")*\\]";
  const std::string character = "(?:" + single + "|" + set + ")";
  std::string part = character + quantifier;
  const auto alternatives = [&](const std::string& of) {
    const std::string sequence = "(?:\\^)?(?:" + of + ")*(?:\\$)?";
    return sequence + "(?:\\|" + sequence + ")*";
  };
  for (int depth = 0; depth < 3; ++depth) {
    const std::string inside = alternatives(part);
    const std::string group = "\\((?:\\?:)?" + inside + "\\)", assertion = "\\(\\?<?[=!]" + inside + "\\)";
    part = "(?:(?:" + character + "|" + group + ")" + quantifier + "|" + assertion + ")";
  }
  return alternatives(part);
}

std::string uuid() {
  const std::string digit = "[0-9A-Fa-f]";
  return digit + "{8}-" + digit + "{4}-" + digit + "{4}-" + digit + "{4}-" + digit + "{12}";
}

struct FormatRow {
  std::string_view name;
  std::string (*source)();
};
constexpr FormatRow kFormats[] = {
    {"date", date},
    {"time", time},
    {"date-time", [] { return date() + "[Tt]" + time(); }},
    {"duration", duration},
    {"email", [] { return email_of("", ""); }},
    {"idn-email", [] { return email_of("\\u{80}-\\u{10ffff}", std::string(kInternational)); }},
    {"hostname", hostname},
    {"idn-hostname", [] { return hostname_of("A-Za-z0-9" + std::string(kInternational)); }},
    {"ipv4", ipv4},
    {"ipv6", ipv6},
    {"uuid", uuid},
    {"uri", [] { return uri_of(""); }},
    {"uri-reference", [] { return uri_reference_of(""); }},
    {"iri", [] { return uri_of(std::string(kInternational)); }},
    {"iri-reference", [] { return uri_reference_of(std::string(kInternational)); }},
    {"uri-template", uri_template},
    {"json-pointer", json_pointer},
    {"relative-json-pointer", [] { return "(?:0|[1-9][0-9]*)(?:#|" + json_pointer() + ")"; }},
    {"regex", regex},
};

}  // namespace

std::optional<Expression> format_language(std::string_view name, const Spelling& spelling, ExpressionArena& arena) {
  const auto found = std::ranges::find(kFormats, name, &FormatRow::name);
  if (found == std::end(kFormats)) return std::nullopt;
  const auto tree = RegexTree::parse("^(?:" + found->source() + ")$");
  if (!tree) return std::nullopt;
  return language_of(*tree, MatchPlace::anywhere, spelling, arena);
}

}  // namespace tessera::text::grammar
