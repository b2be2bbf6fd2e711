// The compiled part of fmt, for programs that link it statically (portable.cmake): Debian provides only a shared
// library. fmt's headers contain all of its code. This file instantiates the templates that they expect in the library.
#include <fmt/format-inl.h>

namespace fmt::detail {

template char decimal_point_impl(locale_ref);
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template std::locale locale_ref::get<std::locale>() const;

}  // namespace fmt::detail
