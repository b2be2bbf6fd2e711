// fmt's compiled part as a source of ours, for programs that bring it along (portable.cmake): Debian has it as a shared
// library only. The headers hold all of its code; the templates that they leave to the library are made here.
#include <fmt/format-inl.h>

namespace fmt::detail {

template char decimal_point_impl(locale_ref);
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template std::locale locale_ref::get<std::locale>() const;

}  // namespace fmt::detail
